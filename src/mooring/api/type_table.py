"""The fields of API types: names, types, list and patch semantics; all fields, not only those that scheduling reads.

``types.txt`` has Kubernetes' own types and is generated; ``types_custom.txt`` has other types, written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mooring.api.text import nearest

_SHORT_GROUPS = {"": "core", "scheduling.x-k8s.io": "scheduling-x"}


class Field(msgspec.Struct, frozen=True):
    """One field: its wire type, and how lists and patches treat it."""

    name: str
    number: str
    type: str
    list_keys: tuple[str, ...] = ()
    is_set: bool = False
    is_atomic: bool = False
    merge_key: str = ""
    strategies: tuple[str, ...] = ()
    is_required: bool = False

    @property
    def element(self) -> str:
        """The type inside a list or map; the type itself otherwise."""
        return self.type[2:] if self.type[:2] in ("[]", "{}") else self.type

    @property
    def is_list(self) -> bool:
        return self.type.startswith("[]")

    @property
    def is_map(self) -> bool:
        return self.type.startswith("{}")


class Type(msgspec.Struct, frozen=True):
    """A struct of the API: its fields by their wire names."""

    name: str
    is_atomic: bool
    fields: dict[str, Field] = msgspec.field(default_factory=dict)


@cache
def types() -> dict[str, Type]:
    """All types by their short name, for example ``core.v1.PodSpec``."""
    found: dict[str, Type] = {}
    current = Type("", False)
    text = "".join(Path(__file__).with_name(name).read_text() for name in ("types.txt", "types_custom.txt"))
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        words = line.split()
        if not line.startswith(" "):
            current = found[words[0]] = Type(words[0], "atomic" in words[1:])
            continue
        options = dict(word.partition("=")[::2] for word in words[3:])
        current.fields[words[0]] = Field(
            name=words[0],
            number=words[1],
            type=words[2],
            list_keys=tuple(options["map"].split(",")) if "map" in options else (),
            is_set="set" in options,
            is_atomic="atomic" in options,
            merge_key=options.get("key", ""),
            strategies=tuple(options["patch"].split(",")) if "patch" in options else (),
            is_required="required" in options,
        )
    return found


def type_name(group: str, version: str, kind: str) -> str:
    """Return the short name of a kind's type, with only the first word of the group."""
    short = _SHORT_GROUPS.get(group) or group.partition(".")[0]
    return f"{short}.{version}.{kind}"


# --------------------------------------------------------------------------------------------------------------------
# Fields of a manifest that Kubernetes does not know: most often a typing mistake, and then without any effect.
#
# Decoding skips what scheduling does not read, so it cannot tell ``imagePullPolicy`` from ``tolerationz``. The table of
# API types can.


class UnknownField(NamedTuple):
    """An unknown field, and the known one that was probably meant; "" if none is similar."""

    path: str
    nearest: str

    def __str__(self) -> str:
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f'unknown field "{self.path}"{hint}'


def unknown_fields(manifest: Mapping[str, Any], kind: str, api_version: str = "v1") -> Iterator[UnknownField]:
    """Yield the unknown fields of an object; none for a kind that is not in the table."""
    group, _, version = api_version.rpartition("/")
    described = types().get(type_name(group, version, kind))
    if described is not None:
        yield from _in_struct(described, manifest, "")


def _in_struct(described: Type, value: Any, where: str) -> Iterator[UnknownField]:
    if not isinstance(value, Mapping):
        return
    for key, inner in value.items():
        known = described.fields.get(key)
        if known is None:
            yield UnknownField(where + _printable(key), nearest(key, described.fields))
        else:
            yield from _in_value(known.type, inner, where + key)


def _in_value(name: str, value: Any, where: str) -> Iterator[UnknownField]:
    if name.startswith("[]"):
        for i, inner in enumerate(value if isinstance(value, list) else ()):
            yield from _in_value(name[2:], inner, f"{where}[{i}]")
    elif name.startswith("{}"):
        for key, inner in value.items() if isinstance(value, Mapping) else ():
            yield from _in_value(name[2:], inner, f"{where}.{_printable(key)}")
    elif (described := types().get(name)) is not None:
        yield from _in_struct(described, value, f"{where}.")


def _printable(key: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in key[:100])
