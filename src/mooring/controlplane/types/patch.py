"""The patch types clients send: JSON patch (RFC 6902), merge patch (RFC 7386), strategic merge, and apply."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api import yaml
from mooring.controlplane.types import strategic
from mooring.controlplane.types.status import StatusError, bad_request
from mooring.errors import InputError

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TYPES = (JSON, MERGE, STRATEGIC, APPLY)
MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""What all copies of one JSON patch may add, as in kube-apiserver; without it 24 copies make 16 million values."""
MAX_SHIFTED = 50_000_000
"""How many list elements one JSON patch may move by inserting and removing before them."""


def patched(content_type: str, type_name: str, obj: dict[str, Any], body: bytes) -> dict[str, Any]:
    """The object after the patch; ``obj`` may be changed on the way."""
    change = _decode(body)
    try:
        if content_type == JSON:
            result = json_patch(obj, change)
        elif not isinstance(change, dict):
            raise bad_request(f"a patch of type {content_type} must be a JSON object, found {_name(change)}")
        elif content_type == MERGE:
            result = merge_patch(obj, change)
        else:
            result = strategic.merge(type_name, obj, change)
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
    """Counts what a patch costs beyond reading it, and refuses it when that is too much."""

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
