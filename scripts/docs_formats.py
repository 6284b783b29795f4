"""The page about output formats, from the JSON schemas in docs/reference/schemas; and the configuration's schema.

python scripts/docs_formats.py           write docs/reference/schemas/configuration-v1.json from the types
python scripts/docs_formats.py --check   fail if it is not what the types say
"""

from __future__ import annotations

import json
import runpy
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

SCHEMAS = Path(__file__).parents[1] / "docs" / "reference" / "schemas"
CONFIGURATION = "configuration-v1"
ORDER = ("explain", "queue", "decision-log", "story", "decide", "config-check", "configuration", "extender-check")


# ---- the page ----------------------------------------------------------------------------------------------------


def formats() -> str:
    """All formats, those that programs use most first."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(SCHEMAS.glob("*.json"))}
    first = [f"{name}-v1" for name in ORDER]
    names = [*first, *(name for name in found if name not in first)]
    parts = [
        "# Output formats",
        "",
        "Commands print JSON with `-o json`, and the same as YAML with `-o yaml` where they offer it. Each format has "
        "a [JSON Schema](https://json-schema.org/) with a version. Within a version, fields may be added. A field that "
        "is renamed, removed or changes its meaning makes a new version. The tests compare what commands print with "
        "these schemas.",
        "",
        "A field marked with ? may be missing.",
        "",
    ]
    for name in names:
        parts += _section(name, found[name])
    return "\n".join(parts)


def _section(name: str, schema: dict[str, Any]) -> list[str]:
    title = name.rpartition("-")[0].replace("-", " ")
    lines = [
        f"## {title[0].upper()}{title[1:]}",
        "",
        schema["description"],
        "",
        f"Schema: [`{name}.json`](schemas/{name}.json)",
        "",
    ]
    if name == CONFIGURATION:
        return [*lines, "The fields are on [Configuration](configuration.md).", ""]
    lines += _table(schema)
    for kind, inner in schema.get("$defs", {}).items():
        lines += [f"**{kind}**: {inner['description']}", "", *_table(inner)]
    return lines


def _table(schema: dict[str, Any]) -> list[str]:
    rows = [f"| {field} | {kind} | {text} |" for field, kind, text in _rows(schema)]
    return ["| field | type | meaning |", "|---|---|---|", *rows, ""]


def _rows(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, str, str]]:
    inner = schema.get("items") if schema.get("type") == "array" else schema.get("additionalProperties")
    if isinstance(inner, dict) and "properties" not in schema:
        yield from _rows(inner, f"{path}[]" if schema.get("type") == "array" else f"{path}.*")
        return
    for field, value in schema.get("properties", {}).items():
        name = f"{path}.{field}" if path else field
        optional = "" if field in schema.get("required", ()) else " ?"
        text = value.get("description", "")
        if "enum" in value:
            text += f" One of {', '.join(f'`{each}`' for each in value['enum'])}."
        yield f"`{name}`{optional}", _type(value), text
        yield from _rows(value, name)


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return f"**{schema['$ref'].rpartition('/')[2]}**"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    kind = schema.get("type", "anything")
    kinds = [kind] if isinstance(kind, str) else kind
    if "array" in kinds:
        return f"list of {_type(schema['items'])}"
    names = {"string": "text", "object": "object", "null": "null"}
    return " or ".join(names.get(each, each) for each in kinds)


# ---- the configuration -------------------------------------------------------------------------------------------


def configuration_schema() -> dict[str, Any]:
    """The schema of a KubeSchedulerConfiguration, from the types that configurations are decoded into."""
    from mooring.core.config import types

    texts = runpy.run_path(str(Path(__file__).with_name("docs_pages.py")))["configuration_texts"]()
    structs: dict[str, type[msgspec.Struct]] = {}

    def collect(hint: Any) -> None:
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint.__name__ not in structs:
            structs[hint.__name__] = hint
            for inner in typing.get_type_hints(hint).values():
                collect(inner)
        for argument in typing.get_args(hint):
            collect(argument)

    collect(types.KubeSchedulerConfiguration)
    whole, *others = [_struct_schema(kind, texts.get(name, {})) for name, kind in structs.items()]
    whole["properties"] = {
        "apiVersion": {"const": types.API_VERSION},
        "kind": {"const": types.KIND},
        **whole["properties"],
    }
    for name in ("apiVersion", "kind"):
        whole["properties"][name]["description"] = "Kind and version of the file."
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:mooring:schema:{CONFIGURATION}",
        "title": "A scheduler's configuration",
        "description": "`mooring config defaults -o json`, `mooring config convert -o json` and "
        "`mooring extender config -o json`: kube-scheduler's own format, kubescheduler.config.k8s.io/v1.",
        **whole,
        "$defs": dict(zip(list(structs)[1:], others, strict=True)),
    }


def _struct_schema(kind: type[msgspec.Struct], texts: dict[str, str]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    properties = {
        field.encode_name: {
            **_hint_schema(hints[field.name]),
            "description": texts.get(field.encode_name) or "As in the API.",
        }
        for field in msgspec.structs.fields(kind)
    }
    return {"type": "object", "properties": properties}


def _hint_schema(hint: Any) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        base, *metadata = arguments
        is_duration = any((getattr(meta, "extra", None) or {}).get("wire") == "duration" for meta in metadata)
        return {"type": "string"} if is_duration else _hint_schema(base)
    inner = [argument for argument in arguments if argument is not type(None)]
    if origin is list:
        return {"type": ["array", "null"], "items": _hint_schema(inner[0])}
    if origin is dict:
        return {"type": ["object", "null"], "additionalProperties": _hint_schema(inner[1])}
    if inner:
        return _hint_schema(inner[0]) if len(inner) == 1 else {}
    names = {str: "string", int: "integer", float: "number", bool: "boolean", bytes: "string"}
    if hint in names:
        return {"type": names[hint]}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return {"$ref": f"#/$defs/{hint.__name__}"}
    return {}


def main() -> int:
    file = SCHEMAS / f"{CONFIGURATION}.json"
    text = json.dumps(configuration_schema(), indent=2, ensure_ascii=False) + "\n"
    if "--check" in sys.argv[1:]:
        if file.is_file() and file.read_text(encoding="utf-8") == text:
            return 0
        print(f"{file.name} is not what the types say; run scripts/docs_formats.py", file=sys.stderr)
        return 1
    file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
