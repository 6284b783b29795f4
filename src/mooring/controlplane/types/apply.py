"""Server-side apply: field ownership, what a new intent changes, and where two managers disagree.

Ownership is recorded from an object's first apply on. Objects that are never applied (most pods) cost nothing extra.

| | kube-apiserver | here |
|---|---|---|
| managers of plain writes | recorded always | recorded once the object has been applied |
| values equal, other owner | shared | shared |
| values differ, other owner | conflict unless forced | the same |
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mooring.controlplane.types import schema
from mooring.controlplane.types.kind import Kind, Object
from mooring.controlplane.types.status import apply_conflict

Path = tuple[str, ...]
_KEY_DEFAULTS = {"protocol": "TCP"}
_IGNORED: frozenset[Path] = frozenset(
    [("f:apiVersion",), ("f:kind",)]
    + [
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "managedFields",
            "selfLink",
            "generateName",
        )
    ]
)


def leaves(type_name: str, obj: Object) -> dict[Path, Any]:
    """Return every field that an object sets, down to scalars and atomic values, with its value."""
    found = {path: value for path, value in _struct_leaves(type_name, obj, ()) if path[:2] not in _IGNORED}
    return {path: value for path, value in found.items() if path[:1] not in _IGNORED}


def _struct_leaves(type_name: str, obj: Any, at: Path) -> Iterator[tuple[Path, Any]]:
    described = schema.types()[type_name]
    if described.is_atomic or not isinstance(obj, dict) or not obj:
        if at:
            yield at, obj
        return
    for key, value in obj.items():
        known = described.fields.get(key)
        if known is not None:
            yield from _field_leaves(known, value, (*at, f"f:{key}"))


def _field_leaves(known: schema.Field, value: Any, at: Path) -> Iterator[tuple[Path, Any]]:
    element = known.element
    if known.is_list and known.list_keys and isinstance(value, list) and not known.is_atomic:
        for item in value:
            place = (*at, _item_key(known, item))
            yield place, None
            yield from _struct_leaves(element, item, place)
    elif known.is_list and known.is_set and isinstance(value, list):
        for item in value:
            yield (*at, f"v:{json.dumps(item)}"), item
    elif known.is_map and not known.is_atomic and isinstance(value, dict) and value:
        for key, item in value.items():
            if element in schema.SCALARS or element.startswith(("[]", "{}")):
                yield (*at, f"f:{key}"), item
            else:
                yield from _struct_leaves(element, item, (*at, f"f:{key}"))
    elif not known.is_list and not known.is_map and element not in schema.SCALARS and not known.is_atomic:
        yield from _struct_leaves(element, value, at)
    else:
        yield at, value


def _item_key(known: schema.Field, item: Any) -> str:
    keys = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in sorted(known.list_keys)}
    return "k:" + json.dumps({k: v for k, v in keys.items() if v is not None}, separators=(",", ":"))


def to_fields(paths: set[Path]) -> Object:
    """Return paths as the nested object of ``fieldsV1``."""
    tree: Object = {}
    for path in sorted(paths):
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        if path[-1].startswith("k:"):
            node["."] = {}
    return tree


def from_fields(tree: Any, at: Path = ()) -> set[Path]:
    found: set[Path] = set()
    if not isinstance(tree, dict):
        return found
    for part, inner in tree.items():
        if part == ".":
            found.add(at)
        elif inner:
            found |= from_fields(inner, (*at, part))
        else:
            found.add((*at, part))
    return found


def _managed(obj: Object) -> list[Object]:
    return list(obj["metadata"].get("managedFields") or ())


def _entry(kind: Kind, manager: str, operation: str, subresource: str, now: str, paths: set[Path]) -> Object:
    entry = {
        "manager": manager,
        "operation": operation,
        "apiVersion": kind.api_version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": to_fields(paths),
    }
    if subresource:
        entry["subresource"] = subresource
    return entry


def entry_for(kind: Kind, applied_object: Object, manager: str, subresource: str, now: str) -> Object:
    """Return the record of a first apply: the manager owns the fields that it set."""
    return _entry(kind, manager, "Apply", subresource, now, set(leaves(kind.type_name, applied_object)))


def _is(entry: Object, manager: str, operation: str, subresource: str) -> bool:
    return (
        entry.get("manager") == manager
        and entry.get("operation") == operation
        and entry.get("subresource", "") == subresource
    )


def applied(kind: Kind, live: Object, intent: Object, manager: str, force: bool, subresource: str, now: str) -> Object:
    """Return the live object with the manager's new intent merged in; 409 for fields that others set differently."""
    type_name = kind.type_name
    if subresource:
        intent = {key: value for key, value in intent.items() if key in ("status", "kind", "apiVersion", "metadata")}
    # Four sets of paths decide: what this manager wants now, what exists, what it owned before, and what others own.
    # A # field that it wants differently from its owner is a conflict. A field that it owned and no longer mentions is
    # removed, # unless another manager owns it or something below it.
    wanted = leaves(type_name, intent)
    have = leaves(type_name, live)
    others = [entry for entry in _managed(live) if not _is(entry, manager, "Apply", subresource)]
    mine = next((entry for entry in _managed(live) if _is(entry, manager, "Apply", subresource)), None)
    owned = {id(entry): from_fields(entry.get("fieldsV1")) for entry in others}
    differing = {path for path, value in wanted.items() if path in have and have[path] != value}
    clashes = [(entry, path) for entry in others for path in sorted(owned[id(entry)] & differing)]
    if clashes and not force:
        raise apply_conflict([(_manager_text(entry), _field_text(path)) for entry, path in clashes])
    merged: Object = _merge_struct(type_name, live, intent)
    before = from_fields(mine.get("fieldsV1")) if mine else set()
    held = set().union(*owned.values()) if owned else set()
    still_there = {path[:i] for path in held | set(wanted) for i in range(1, len(path) + 1)}
    _prune(type_name, merged, _tree(before - still_there))
    kept = []
    for entry in others:
        # Forcing takes over only fields whose value changes; equal values stay shared.
        rest = owned[id(entry)] - differing if force else owned[id(entry)]
        if rest:
            kept.append({**entry, "fieldsV1": to_fields(rest)} if rest != owned[id(entry)] else entry)
    record = _entry(kind, manager, "Apply", subresource, now, set(wanted))
    if mine is not None and before == set(wanted) and merged == live:
        record["time"] = mine.get("time", now)
    merged["metadata"]["managedFields"] = [*kept, record] if wanted else kept
    return merged


def track(kind: Kind, old: Object, new: Object, manager: str, subresource: str, now: str) -> None:
    """Transfer the changed fields to the manager of a plain write, on objects whose ownership is recorded."""
    managed = _managed(old)
    if not managed or not manager:
        return
    before, after = leaves(kind.type_name, old), leaves(kind.type_name, new)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    gone = set(before) - set(after)
    if not changed and not gone:
        return
    result, found = [], False
    for entry in managed:
        paths = from_fields(entry.get("fieldsV1")) - changed - gone
        if _is(entry, manager, "Update", subresource):
            found = True
            paths |= changed
        if paths:
            result.append({**entry, "fieldsV1": to_fields(paths)})
    if not found and changed:
        result.append(_entry(kind, manager, "Update", subresource, now, changed))
    new["metadata"]["managedFields"] = result


def _manager_text(entry: Object) -> str:
    name = str(entry.get("manager", ""))
    if entry.get("operation") == "Update":
        return f'{name}" using {entry.get("apiVersion", "")}'.rstrip()
    return name


def _field_text(path: Path) -> str:
    text = ""
    for part in path:
        if part.startswith("f:"):
            name = part[2:]
            text += f".{name}"
        elif part.startswith("k:"):
            keys = json.loads(part[2:])
            text += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in keys.items()) + "]"
        else:
            text += f"[={part[2:]}]"
    return text


def _merge_struct(type_name: str, live: Any, intent: Any) -> Any:
    described = schema.types()[type_name]
    if not isinstance(live, dict) or not isinstance(intent, dict) or described.is_atomic:
        return intent
    merged = dict(live)
    for key, value in intent.items():
        known = described.fields.get(key)
        merged[key] = _merge_field(known, live[key], value) if known is not None and key in live else value
    return merged


def _merge_field(known: schema.Field, live: Any, intent: Any) -> Any:
    element = known.element
    if known.is_atomic:
        return intent
    if known.is_list:
        if known.list_keys:
            places = {_item_key(known, item): i for i, item in enumerate(live)}
            result = list(live)
            for item in intent:
                at = places.get(_item_key(known, item))
                if at is None:
                    result.append(item)
                else:
                    result[at] = _merge_struct(element, result[at], item)
            return result
        if known.is_set:
            known_items = {json.dumps(item, sort_keys=True) for item in live}
            return [*live, *(item for item in intent if json.dumps(item, sort_keys=True) not in known_items)]
        return intent
    if known.is_map:
        if element in schema.SCALARS or element.startswith(("[]", "{}")):
            return {**live, **intent}
        return {
            **live,
            **{
                key: _merge_struct(element, live[key], value) if key in live else value for key, value in intent.items()
            },
        }
    return intent if element in schema.SCALARS else _merge_struct(element, live, intent)


_Tree = dict[str, Any]
_END = ""
"""Marks a node of a tree at which a path ends."""


def _tree(paths: set[Path]) -> _Tree:
    root: _Tree = {}
    for path in paths:
        node = root
        for part in path:
            node = node.setdefault(part, {})
        node[_END] = True
    return root


def _prune(type_name: str, obj: Any, gone: _Tree) -> None:
    """Remove owned fields from an object, in one walk; containers that become empty are removed, too."""
    described = schema.types().get(type_name)
    if described is None or not isinstance(obj, dict):
        return
    for part, below in gone.items():
        name = part[2:]
        known = described.fields.get(name)
        if known is None or name not in obj:
            continue
        if _END in below:
            del obj[name]
            continue
        obj[name] = _pruned(known, obj[name], below)
        if obj[name] in ({}, []):
            del obj[name]


def _pruned(known: schema.Field, value: Any, gone: _Tree) -> Any:
    if isinstance(value, list) and known.list_keys:
        kept = []
        for item in value:
            below = gone.get(_item_key(known, item), {})
            if _END not in below:
                _prune(known.element, item, {p: tree for p, tree in below.items() if p[2:] not in known.list_keys})
                kept.append(item)
        return kept
    if isinstance(value, list):
        return [item for item in value if f"v:{json.dumps(item)}" not in gone]
    if known.is_map and isinstance(value, dict):
        for part, below in gone.items():
            if _END in below:
                value.pop(part[2:], None)
            elif isinstance(value.get(part[2:]), dict):
                _prune(known.element, value[part[2:]], below)
        return value
    _prune(known.element, value, gone)
    return value
