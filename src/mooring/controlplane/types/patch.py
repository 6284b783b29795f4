"""The patch types of clients: JSON patch (RFC 6902), merge patch (RFC 7386), strategic merge, and apply."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from mooring.api import yaml
from mooring.api.errors import InputError
from mooring.controlplane.types import schema
from mooring.controlplane.types.status import StatusError, bad_request

# Strategic merge patch: lists of objects merge by key, and directives express what plain merging cannot

_DIRECTIVE, _RETAIN = "$patch", "$retainKeys"
_DELETE_PRIMITIVES, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


def _field(type_name: str, key: str) -> schema.Field | None:
    described = schema.types().get(type_name)
    return described.fields.get(key) if described else None


def merge(type_name: str, original: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Return the object after the patch; both arguments may be changed on the way."""
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
            return merge(element, {}, new)
        if known is not None and known.is_map:
            return merge(element if element not in schema.SCALARS else "", old, new)
        return merge(element, old, new)
    if isinstance(new, list) and known is not None and "merge" in known.strategies:
        base = old if isinstance(old, list) else []
        if known.merge_key:
            return _merge_objects(element, known.merge_key, base, new)
        known_items = {_identity(item) for item in base}
        return base + [item for item in dict.fromkeys(map(_hashable, new)) if item not in known_items]
    return _without_directives(new)


def _identity(item: Any) -> Any:
    """Return a hashable key for a JSON value; equal values have equal keys."""
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
            result[first] = merge(element, result[first], item)
        else:
            places[name] = [len(result)]
            result.append(merge(element, {}, item))
    return [known for i, known in enumerate(result) if i not in gone]


def _reorder(items: list[Any], order: list[Any], key: str) -> list[Any]:
    """Put items named in ``order`` in that order; others keep their place relative to their old neighbours."""

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


# JSON patch, merge patch, and the choice between the types

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TYPES = (JSON, MERGE, STRATEGIC, APPLY)
MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""Limit of what all copies of one JSON patch may add, as in kube-apiserver; without it 24 copies make 16 million
values.
"""
MAX_SHIFTED = 50_000_000
"""Limit of list elements that one JSON patch may move by inserting and removing before them."""


def patched(content_type: str, type_name: str, obj: dict[str, Any], body: bytes) -> dict[str, Any]:
    """Return the object after the patch; ``obj`` may be changed on the way."""
    change = _decode(body)
    try:
        if content_type == JSON:
            result = json_patch(obj, change)
        elif not isinstance(change, dict):
            raise bad_request(f"a patch of type {content_type} must be a JSON object, found {_name(change)}")
        elif content_type == MERGE:
            result = merge_patch(obj, change)
        else:
            result = merge(type_name, obj, change)
    except RecursionError:
        raise _unprocessable("the patch is nested too deeply") from None
    if not isinstance(result, dict):
        raise _unprocessable(f"the patch leaves {_name(result)} where an object was")
    return result


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {str(error)[:200]}") from None


def _name(value: Any) -> str:
    return {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}.get(
        type(value), "a number"
    )


def _unprocessable(message: str) -> StatusError:
    return StatusError(422, "Invalid", message)


def merge_patch(target: Any, change: Any) -> Any:
    """RFC 7386: objects merge, null removes, everything else replaces."""
    if not isinstance(change, dict):
        return change
    if not isinstance(target, dict):
        target = {}
    for key, value in change.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = merge_patch(target.get(key), value)
    return target


def json_patch(document: Any, operations: Any) -> Any:
    """RFC 6902; a malformed patch is a 400, one that does not fit the document a 422."""
    if not isinstance(operations, list):
        raise bad_request(f"a JSON patch must be an array of operations, found {_name(operations)}")
    if len(operations) > MAX_OPERATIONS:
        raise StatusError(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}",
        )
    work = _Work()
    for operation in operations:
        document = _operate(document, operation, work)
    return document


class _Work:
    """Counts the cost of a patch beyond reading it, and rejects a patch that costs too much."""

    __slots__ = ("copied_bytes", "shifted")

    def __init__(self) -> None:
        self.copied_bytes = 0
        self.shifted = 0

    def copy(self, value: Any) -> Any:
        raw = msgspec.json.encode(value)
        self.copied_bytes += len(raw)
        if self.copied_bytes > MAX_COPIED_BYTES:
            raise _unprocessable(
                f"Unable to complete the copy, the accumulated size increase of copy is {self.copied_bytes}, "
                f"exceeding the limit {MAX_COPIED_BYTES}"
            )
        return msgspec.json.decode(raw)

    def shift(self, elements: list[Any]) -> None:
        self.shifted += len(elements)
        if self.shifted > MAX_SHIFTED:
            raise _unprocessable("the patch inserts and removes too often in a list that is too long")


def _operate(document: Any, operation: Any, work: _Work) -> Any:
    if not isinstance(operation, dict):
        raise bad_request(f"a JSON patch operation must be an object, found {_name(operation)}")
    op = operation.get("op")
    path = _pointer(operation.get("path"), "path")
    match op:
        case "add" | "replace" | "test":
            if "value" not in operation:
                raise bad_request(f"JSON patch operation {op!r} needs a value")
            value = operation["value"]
            if op == "test":
                if not _same(_find(document, path), value):
                    raise _unprocessable(f"testing value {_text(path)} failed")
                return document
            if op == "replace":
                _find(document, path)
                return _set(document, path, value, work, replace=True)
            return _set(document, path, value, work)
        case "remove":
            return _remove(document, path, work)
        case "move" | "copy":
            source = _pointer(operation.get("from"), "from")
            value = _find(document, source)
            if op == "copy":
                return _set(document, path, work.copy(value), work)
            if path[: len(source)] == source and path != source:
                raise _unprocessable(f"cannot move {_text(source)} into itself")
            return _set(_remove(document, source, work), path, value, work)
    raise bad_request(f"unexpected JSON patch operation {str(op)[:40]!r}; use add, remove, replace, move, copy or test")


def _pointer(text: Any, name: str) -> list[str]:
    if not isinstance(text, str):
        raise bad_request(f"a JSON patch operation needs a string as {name!r}")
    if text == "":
        return []
    if not text.startswith("/"):
        raise bad_request(f"JSON pointer {text[:100]!r} must start with '/'")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _text(path: list[str]) -> str:
    return "/" + "/".join(path)[:200]


def _index(part: str, length: int, path: list[str]) -> int:
    if not part.isascii() or not part.isdigit() or (len(part) > 1 and part[0] == "0") or len(part) > 9:
        raise _unprocessable(f"{part[:40]!r} in {_text(path)} is not an array index")
    index = int(part)
    if index >= length:
        raise _unprocessable(f"index {index} in {_text(path)} is out of bounds")
    return index


def _step(node: Any, part: str, path: list[str]) -> Any:
    if isinstance(node, dict):
        if part not in node:
            raise _unprocessable(f"the path {_text(path)} does not exist: no {part[:60]!r}")
        return node[part]
    if isinstance(node, list):
        return node[_index(part, len(node), path)]
    raise _unprocessable(f"the path {_text(path)} does not exist: {part[:60]!r} is below a plain value")


def _find(document: Any, path: list[str]) -> Any:
    for part in path:
        document = _step(document, part, path)
    return document


def _set(document: Any, path: list[str], value: Any, work: _Work, *, replace: bool = False) -> Any:
    if not path:
        return value
    parent, last = _find(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        if last == "-":
            parent.append(value)
        elif replace:
            parent[_index(last, len(parent), path)] = value
        else:
            work.shift(parent)
            parent.insert(_index(last, len(parent) + 1, path), value)
    else:
        raise _unprocessable(f"the path {_text(path)} does not exist")
    return document


def _remove(document: Any, path: list[str], work: _Work) -> Any:
    if not path:
        return None
    parent, last = _find(document, path[:-1]), path[-1]
    _step(parent, last, path)
    if isinstance(parent, dict):
        del parent[last]
    else:
        work.shift(parent)
        del parent[_index(last, len(parent), path)]
    return document


def _same(left: Any, right: Any) -> bool:
    """JSON equality: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(_same(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right)


def yaml_to_json(body: bytes) -> bytes:
    """Return an apply patch, which may be YAML, as JSON; JSON passes through untouched."""
    if body.lstrip()[:1] in (b"{", b""):
        return body
    try:
        return msgspec.json.encode(yaml.load(body))
    except InputError as error:
        raise bad_request(f"error decoding YAML: {str(error)[:200]}") from None
    except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError, TypeError) as error:
        raise bad_request(f"the YAML cannot be written as JSON: {' '.join(str(error).split())[:200]}") from None
