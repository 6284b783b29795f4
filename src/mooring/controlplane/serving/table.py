"""Tables, as ``kubectl get`` asks for them: columns and cells per kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from mooring.controlplane.registry.columns import columns_of
from mooring.controlplane.serving.listing import Selection, list_metadata, partial
from mooring.controlplane.storage.hub import Render
from mooring.controlplane.storage.store import Entry, Page
from mooring.controlplane.types.kind import Column, Kind
from mooring.controlplane.types.objects import Object

_encode = msgspec.json.Encoder().encode
_FORMATS = {"Name": "name"}


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": _FORMATS.get(column.name, ""),
        "description": column.name,
        "priority": column.priority,
    }


def _rows(kind: Kind, entries: Sequence[Entry], include: str, now: float, rv: int = 0) -> list[Object]:
    columns = columns_of(kind)
    rows = []
    for entry in entries:
        obj = entry.object()
        if rv:
            obj["metadata"]["resourceVersion"] = str(rv)
        row: Object = {"cells": [column.cell(obj, now) for column in columns]}
        if include == "Object":
            row["object"] = kind.shown(obj)
        elif include != "None":
            row["object"] = partial(obj)
        rows.append(row)
    return rows


def _table(kind: Kind, rows: list[Object], metadata: Object) -> Object:
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_definition(column) for column in columns_of(kind)],
        "rows": rows,
    }


def of_entries(kind: Kind, entries: Sequence[Entry], parameters: dict[str, str], rv: str, *, now: float) -> bytes:
    rows = _rows(kind, entries, parameters.get("includeObject", ""), now)
    return _encode(_table(kind, rows, {"resourceVersion": rv}))


def of_page(kind: Kind, page: Page, chosen: Selection, parameters: dict[str, str], *, now: float) -> bytes:
    rows = _rows(kind, page.entries, parameters.get("includeObject", ""), now)
    return _encode(_table(kind, rows, list_metadata(page, chosen)))


def renderer(kind: Kind, parameters: dict[str, str], now: Callable[[], float]) -> Render:
    """The objects of a watch as one-row tables; the columns come with the first only."""
    include = parameters.get("includeObject", "")
    is_first = True

    def render(_: str, entry: Entry, rv: int) -> bytes:
        nonlocal is_first
        table = _table(kind, _rows(kind, [entry], include, now(), rv), {"resourceVersion": str(rv)})
        if not is_first:
            table["columnDefinitions"] = None
        is_first = False
        return _encode(table)

    return render
