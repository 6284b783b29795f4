"""Strategic merge patch: lists of objects merge by key, and directives say what plain merging cannot."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from mooring.controlplane.types import schema
from mooring.controlplane.types.status import StatusError, bad_request

_DIRECTIVE, _RETAIN = "$patch", "$retainKeys"
_DELETE_PRIMITIVES, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


def merge(type_name: str, original: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The object after the patch; both arguments may be changed on the way."""
    return _merge_map(type_name, original, change)


def _field(type_name: str, key: str) -> schema.Field | None:
    described = schema.types().get(type_name)
    return described.fields.get(key) if described else None


def _merge_map(type_name: str, original: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    directive = change.pop(_DIRECTIVE, None)
    if directive == "replace":
        replaced: dict[str, Any] = _without_directives(change)
        return replaced
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"unknown patch directive {str(directive)[:40]!r}; use replace, merge or delete")
    _retain(original, change)
    orders: dict[str, list[Any]] = {}
    for key in list(change):
        if key.startswith(_DELETE_PRIMITIVES):
            name = key.removeprefix(_DELETE_PRIMITIVES)
            gone = {_identity(item) for item in _expect_list(change.pop(key), key)}
            if isinstance(original.get(name), list):
                original[name] = [item for item in original[name] if _identity(item) not in gone]
        elif key.startswith(_ORDER):
            orders[key.removeprefix(_ORDER)] = _expect_list(change.pop(key), key)
    for key, value in change.items():
        if value is None:
            original.pop(key, None)
            continue
        original[key] = _merge_value(type_name, key, original.get(key), value)
        if key in original and original[key] is None:
            del original[key]
    for name, order in orders.items():
        known = _field(type_name, name)
        if isinstance(original.get(name), list):
            original[name] = _reorder(original[name], order, known.merge_key if known else "")
    return original


def _retain(original: dict[str, Any], change: dict[str, Any]) -> None:
    keep = change.pop(_RETAIN, None)
    if keep is None:
        return
    kept = {_identity(key) for key in _expect_list(keep, _RETAIN)}
    for key in list(original):
        if key not in kept:
            del original[key]


def _expect_list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise bad_request(f"{name[:100]} must be a list")
    return value


def _merge_value(type_name: str, key: str, old: Any, new: Any) -> Any:
    known = _field(type_name, key)
    element = known.element if known else ""
    replaces = known is not None and "replace" in known.strategies
    if isinstance(new, dict):
        if replaces or not isinstance(old, dict):
            return _merge_map(element, {}, new)
        if known is not None and known.is_map:
            return _merge_map(element if element not in schema.SCALARS else "", old, new)
        return _merge_map(element, old, new)
    if isinstance(new, list) and known is not None and "merge" in known.strategies:
        base = old if isinstance(old, list) else []
        if known.merge_key:
            return _merge_objects(element, known.merge_key, base, new)
        known_items = {_identity(item) for item in base}
        return base + [item for item in dict.fromkeys(map(_hashable, new)) if item not in known_items]
    return _without_directives(new)


def _identity(item: Any) -> Any:
    """Something to look a JSON value up by; equal values have equal ones."""
    return msgspec.json.encode(item, order="sorted") if isinstance(item, (dict, list)) else item


def _hashable(item: Any) -> Any:
    if isinstance(item, (dict, list)):
        raise bad_request("a list of plain values holds an object or a list")
    return item


def _missing_key(item: Any, key: str) -> StatusError:
    return bad_request(f"map: {str(item)[:100]} does not contain declared merge key: {key}")


def _merge_objects(element: str, key: str, old: list[Any], new: list[Any]) -> list[Any]:
    result = list(old)
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in new):
        kept = [item for item in new if not (isinstance(item, dict) and item.get(_DIRECTIVE) == "replace")]
        return [_without_directives(item) for item in kept]
    places: dict[Any, list[int]] = {}
    for i, known in enumerate(result):
        if isinstance(known, dict):
            places.setdefault(_identity(known.get(key)), []).append(i)
    gone: set[int] = set()
    for item in new:
        if not isinstance(item, dict) or item.get(key) is None:
            raise _missing_key(item, key)
        name = _identity(item[key])
        if item.get(_DIRECTIVE) == "delete":
            gone.update(places.pop(name, ()))
        elif name in places:
            first = places[name][0]
            result[first] = _merge_map(element, result[first], item)
        else:
            places[name] = [len(result)]
            result.append(_merge_map(element, {}, item))
    return [known for i, known in enumerate(result) if i not in gone]


def _reorder(items: list[Any], order: list[Any], key: str) -> list[Any]:
    """Items named in ``order`` in that order; others keep their place relative to what they stood before."""

    def identity(item: Any) -> Any:
        return _identity(item.get(key) if key and isinstance(item, dict) else item)

    rank: dict[Any, int] = {}
    for i, item in enumerate(order):
        rank.setdefault(identity(item), i)
    placed = list(enumerate(items))
    ranked = sorted((each for each in placed if identity(each[1]) in rank), key=lambda each: rank[identity(each[1])])
    others = deque(each for each in placed if identity(each[1]) not in rank)
    result: list[Any] = []
    for place, item in ranked:
        while others and others[0][0] < place:
            result.append(others.popleft()[1])
        result.append(item)
    return result + [item for _, item in others]


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_directives(item)
            for key, item in value.items()
            if key not in (_DIRECTIVE, _RETAIN)
            and not key.startswith((_DELETE_PRIMITIVES, _ORDER))
            and item is not None
        }
    if isinstance(value, list):
        return [_without_directives(item) for item in value]
    return value
