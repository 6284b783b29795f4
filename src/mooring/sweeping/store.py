"""Results of rows in a folder: one file for each, named after the row. A row that has its file is done."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mooring.errors import InputError
from mooring.sweeping.specification import Row

_SUFFIX = ".json"


class Store:
    """A folder with results. Several processes may write into it: files appear whole or not at all."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def has(self, row: Row) -> bool:
        return self._file(row).exists()

    def put(self, row: Row, exit_code: int, result: Any) -> None:
        value = {"key": row.key, **row.specification, "exitCode": exit_code, "result": result}
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".{row.key}.{os.getpid()}"
        draft.write_text(json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
        draft.replace(self._file(row))

    def get(self, row: Row) -> Mapping[str, Any] | None:
        file = self._file(row)
        return _read(file) if file.exists() else None

    def all(self) -> Iterator[Mapping[str, Any]]:
        """Everything that is there, in the order of the names."""
        return read_folders([self.folder])

    def _file(self, row: Row) -> Path:
        return self.folder / (row.key + _SUFFIX)


def read_folders(folders: Iterable[str | Path]) -> Iterator[Mapping[str, Any]]:
    """The results in several folders; a row that is in more than one counts once."""
    seen: set[str] = set()
    for folder in folders:
        path = Path(folder)
        if not path.is_dir():
            raise InputError(f"{folder}: no such folder; expected one that mooring sweep run wrote")
        for file in sorted(path.glob(f"*{_SUFFIX}")):
            if file.stem not in seen:
                seen.add(file.stem)
                yield _read(file)


def _read(file: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: not a result of a sweep: {error}") from None
    if not isinstance(value, Mapping) or not {"key", "values", "result"} <= value.keys():
        raise InputError(f"{file}: not a result of a sweep; expected key, values and result")
    return value
