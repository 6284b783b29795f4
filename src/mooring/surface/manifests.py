"""Manifests wherever they are: files, directories, globs, text that kubectl printed, dicts."""

from __future__ import annotations

import glob
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from mooring.api.manifests import Manifests, load_manifests, parse_manifests
from mooring.api.meta import Object
from mooring.errors import InputError

Source: TypeAlias = str | Path | bytes | Mapping[str, Any]
"""A path or glob, the bytes of a manifest, or a manifest as a dict."""


def read_manifests(sources: Iterable[Source], context: Manifests | None = None) -> Manifests:
    """All objects of these sources together, complete as an API server would store them."""
    paths: list[str] = []
    texts: list[bytes] = []
    for source in sources:
        match source:
            case bytes():
                texts.append(source)
            case Mapping():
                texts.append(json.dumps(source, default=str).encode())
            case str() | Path():
                paths += _paths(str(source))
            case _:
                raise InputError(f"found {source!r}; expected a path, a manifest as a dict, or the bytes of one")
    found = load_manifests(paths, context)
    for text in texts:
        before: list[Object] = [*(context.objects if context is not None else ()), *found.objects]
        more = parse_manifests(text, "the given manifest", Manifests(objects=before))
        found.objects += more.objects
        found.places += more.places
        found.workloads += more.workloads
        found.unknown += more.unknown
        found.ignored += more.ignored
        found.server_release = max(found.server_release, more.server_release)
        found.kubelet_release = max(found.kubelet_release, more.kubelet_release)
    return found


def warn(notes: Iterable[str]) -> None:
    """Tell whoever called mooring: fields that have no effect, plugins that do nothing."""
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=4)


def _paths(path: str) -> Iterator[str]:
    """The path itself, or what a pattern matches."""
    if not glob.has_magic(path) or Path(path).exists():
        yield path
        return
    matching = sorted(glob.glob(path, recursive=True))
    if not matching:
        raise InputError(f"{path}: no file matches this pattern")
    yield from matching
