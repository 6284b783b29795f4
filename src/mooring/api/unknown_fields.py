"""Fields of a manifest that Kubernetes does not know: most often a typing mistake, and then without any effect.

Decoding skips what scheduling does not read, so it cannot tell ``imagePullPolicy`` from ``tolerationz``. The table of
API types can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mooring.api.type_table import Type, type_name, types
from mooring.meant import nearest


class UnknownField(NamedTuple):
    """Where it stands, and the known field that was probably meant; empty if none is near."""

    path: str
    nearest: str

    def __str__(self) -> str:
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f'unknown field "{self.path}"{hint}'


def unknown_fields(manifest: Mapping[str, Any], kind: str, api_version: str = "v1") -> Iterator[UnknownField]:
    """Find the unknown fields of an object; none in a kind that is not in the table."""
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
