"""Objects from files: YAML or JSON, several documents, Lists, directories, what ``kubectl get`` prints."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mooring.api import yaml
from mooring.api.checks import problems_in
from mooring.api.codec import KINDS, decoder, from_plain, struct_of
from mooring.api.core import Node
from mooring.api.defaults import is_stored, set_default_meta, set_defaults
from mooring.api.errors import InputError
from mooring.api.memory import without_collecting
from mooring.api.meta import Object, Struct
from mooring.api.pod_templates import is_workload
from mooring.api.type_table import unknown_fields
from mooring.api.version import UNKNOWN, Release, release_of
from mooring.api.workloads import ResourceQuota, RuntimeClass

# --------------------------------------------------------------------------------------------------------------------
# Large dumps, read quickly: lists that ``kubectl get -o json`` printed, straight from bytes to structs.
#
# Only what is plainly an API server's own output is read so. Everything else is left to the reader of manifests, which
# allows more, looks for unknown and repeated fields, and says what is wrong.

_KIND = re.compile(rb'"kind":\s*"(\w+)"')
_HEAD = 256  # kubectl sorts keys: the kind comes right after apiVersion


class _List(Struct):
    kind: str = ""
    items: list[msgspec.Raw] = []


class _NodeInfo(Struct):
    kubelet_version: str = ""


class _NodeStatus(Struct):
    node_info: _NodeInfo = msgspec.field(default_factory=_NodeInfo)


class _Kubelet(Struct):
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


_LISTS = msgspec.json.Decoder(_List)
_KUBELETS = msgspec.json.Decoder(_Kubelet)
Item = tuple[Object | None, str, bytes]
"""A stored object and, of a node, its kubelet's version; or the bytes of an unread item."""


def stored_items(text: bytes, kinds: dict[str, type[Object]]) -> Iterator[Item] | None:
    """Yield the items of a list of mixed kinds; None for another text. Only ``kinds`` are read."""
    try:
        found = _LISTS.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if found.kind != "List":
        return None
    return (_item(raw, kinds) for raw in found.items)


def _item(raw: msgspec.Raw, kinds: dict[str, type[Object]]) -> Item:
    named = _KIND.search(memoryview(raw), 0, _HEAD)
    kind = kinds.get(named[1].decode()) if named is not None else None
    if kind is None:
        return None, "", bytes(raw)
    try:
        obj: Object = decoder(kind).decode(raw)
        kubelet = _KUBELETS.decode(raw).status.node_info.kubelet_version if kind is Node else ""
    except (msgspec.MsgspecError, RecursionError):
        return None, "", bytes(raw)
    if obj.kind != kind.__name__ or not is_stored(obj):
        return None, "", bytes(raw)
    return obj, kubelet, b""


T = TypeVar("T", bound=Object)
MAX_NOTES = 10
SUFFIXES = (".yaml", ".yml", ".json")

# Kinds that scheduling or admission reads. The group counts too: there is more than one "Service" in the world.
READ_KINDS: dict[str, type[Object]] = {**KINDS, "RuntimeClass": RuntimeClass, "ResourceQuota": ResourceQuota}
GROUPS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("Pod", "Node", "Namespace", "Service", "ReplicationController", "PersistentVolume", "PersistentVolumeClaim"),
        ("",),
    ),
    **dict.fromkeys(("ReplicaSet", "StatefulSet"), ("apps", "extensions")),
    **dict.fromkeys(
        ("StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment"), ("storage.k8s.io",)
    ),
    **dict.fromkeys(
        ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice", "DeviceTaintRule"),
        ("resource.k8s.io",),
    ),
    "PodDisruptionBudget": ("policy",),
    "PriorityClass": ("scheduling.k8s.io",),
    "PodGroup": ("scheduling.k8s.io", "scheduling.x-k8s.io"),
    "RuntimeClass": ("node.k8s.io",),
    "ResourceQuota": ("",),
}


@dataclass(slots=True)
class Manifests:
    """The objects of files, with their defaults, and a count of the kinds that scheduling does not read."""

    objects: list[Object] = field(default_factory=list)
    places: list[str] = field(default_factory=list)  # file and document of each object
    ignored: Counter[str] = field(default_factory=Counter)
    other: list[Mapping[str, Any]] = field(default_factory=list)  # ignored ones, unchanged
    workloads: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)  # workloads, and where
    unknown: list[str] = field(default_factory=list)  # fields that Kubernetes does not know, a line for each
    server_release: Release = UNKNOWN
    kubelet_release: Release = UNKNOWN  # the newest

    def of(self, kind: type[T]) -> Iterator[T]:
        return (obj for obj in self.objects if isinstance(obj, kind))

    @property
    def ignored_note(self) -> str:
        """One line about ignored objects; empty if there were none."""
        if not self.ignored:
            return ""
        total = sum(self.ignored.values())
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.ignored.items()))
        return f"ignored {total} object{'s' if total != 1 else ''} that scheduling does not read: {kinds}"

    @property
    def release(self) -> Release:
        """Release of the cluster, if known from kubectl version or the newest kubelet.

        A kubelet is never newer than its API server.
        """
        return self.server_release if self.server_release != UNKNOWN else self.kubelet_release

    @property
    def unknown_notes(self) -> list[str]:
        """A few lines about unknown fields, which have no effect."""
        more = len(self.unknown) - MAX_NOTES
        return self.unknown[:MAX_NOTES] + ([f"{more} more fields that Kubernetes does not know"] if more > 0 else [])


def load_manifests(
    paths: Iterable[str | Path], context: Manifests | None = None, contents: Mapping[Path, bytes] | None = None
) -> Manifests:
    """Read files and directories into objects as a scheduler would see them on a cluster.

    ``context`` has objects that were read before, whose classes count. ``contents`` are of files that were read,
    because a pipe can be read only once. Objects are identified by kind and name. Dumps may overlap: a stored object
    may appear twice if both copies are equal.
    """
    found = Manifests()
    with without_collecting():
        for path in paths:
            for file in manifest_files(Path(path)):
                content = (contents or {}).get(file)
                _read(read_bytes(file) if content is None else content, str(file), found)
        _finish(found, context)
    return found


def parse_manifests(text: str | bytes, source: str, context: Manifests | None = None) -> Manifests:
    """Parse a text; ``source`` names it in errors."""
    found = Manifests()
    _read(text, source, found)
    _finish(found, context)
    return found


def read_values(values: Iterable[tuple[str, Any]], context: Manifests | None = None) -> Manifests:
    """Read plain values, each with the place that errors name."""
    found = Manifests()
    for where, value in values:
        _add(value, where, found)
    _finish(found, context)
    return found


def _finish(found: Manifests, context: Manifests | None) -> None:
    before = context.objects if context is not None else ()
    _drop_duplicates(found, before)
    try:
        set_defaults(found.objects, before)
    except InputError as error:
        raise InputError(f"{_place_of(str(error), found)}{error}") from None


def _drop_duplicates(found: Manifests, context: Iterable[Object]) -> None:
    """Keep one object of each kind and name.

    A copy under another name gets its own uid, as a server would assign it.
    """
    first: dict[tuple[type[Object], str], int] = {}
    owners = {(type(obj), obj.uid): obj.key for obj in context}
    kept: list[tuple[Object, str]] = []
    for obj, where in zip(found.objects, found.places, strict=True):
        set_default_meta(obj)
        earlier = first.setdefault((type(obj), obj.key), len(kept))
        if earlier == len(kept):
            if owners.setdefault((type(obj), obj.uid), obj.key) != obj.key:
                obj.metadata.uid = ""
                set_default_meta(obj)
            kept.append((obj, where))
        elif not is_stored(obj) or kept[earlier][0] != obj:
            known, there = f"{type(obj).__name__} {obj.key}", kept[earlier][1]
            raise InputError(f"{where}: {known} is already in {there}; there can be only one of that name")
    found.objects, found.places = [obj for obj, _ in kept], [where for _, where in kept]


def _place_of(text: str, found: Manifests) -> str:
    """Return the place of the object that an admission error names at its beginning."""
    for obj, where in zip(found.objects, found.places, strict=True):
        if text.startswith(f"{type(obj).__name__} {obj.key}:"):
            return f"{where}: "
    return ""


def manifest_files(path: Path) -> Iterator[Path]:
    """Yield the file itself, or the manifests below a directory, in order of their names."""
    if not path.is_dir():
        yield path
        return
    files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    if not files:
        raise InputError(f"{path}: no manifests in this directory; expected files that end in {', '.join(SUFFIXES)}")
    yield from files


def read_bytes(path: Path) -> bytes:
    """Return the content of a file; raise a one-line InputError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from None


# Kinds whose stored objects can be read without checking their fields: workloads are also kept unchanged.
_QUICK_KINDS = {name: kind for name, kind in READ_KINDS.items() if not is_workload(name)}


def _read(text: str | bytes, source: str, found: Manifests) -> None:
    items = stored_items(text, _QUICK_KINDS) if isinstance(text, bytes) and text[:1] == b"{" else None
    if items is None:
        _read_documents(text, source, found)
        return
    for i, (obj, kubelet, rest) in enumerate(items):
        where = f"{source}, items[{i}]"
        if obj is None:
            _read_documents(rest, where, found)
        elif obj.api_version.rpartition("/")[0] not in GROUPS[obj.kind]:
            found.ignored[obj.kind] += 1
        else:
            found.kubelet_release = (
                max(found.kubelet_release, release_of(kubelet)) if kubelet else found.kubelet_release
            )
            _keep(obj, where, found)


def _read_documents(text: str | bytes, source: str, found: Manifests) -> None:
    documents = yaml.load_documents(text, source)
    for number, document in enumerate(documents, start=1):
        where = source if len(documents) == 1 else f"{source}, document {number} (line {document.line})"
        if document.duplicates:
            raise InputError(f"{where}: {document.duplicates[0]}")
        _add(document.value, where, found)


def _add(value: Any, where: str, found: Manifests) -> None:
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: {_said(value)}, expected a Kubernetes object (apiVersion, kind, metadata)")
    if "serverVersion" in value and "kind" not in value:  # output of kubectl version -o json
        found.server_release = release_of(_at(value, "serverVersion", "gitVersion"))
        return
    kind, version = value.get("kind"), value.get("apiVersion")
    if not isinstance(kind, str) or not kind:
        raise InputError(f"{where}: an object without kind; expected apiVersion, kind and metadata")
    if not isinstance(version, str | None):
        raise InputError(f"{where}: apiVersion: {_said(version)}, expected a string")
    if kind.endswith("List") and "items" in value:
        _add_items(value, kind.removesuffix("List"), where, found)
        return
    if is_workload(kind):
        found.workloads.append((where, value))
    if kind == "Node":
        found.kubelet_release = max(
            found.kubelet_release, release_of(_at(value, "status", "nodeInfo", "kubeletVersion"))
        )
    struct = struct_of(kind, version) or READ_KINDS.get(kind)
    group = (version or "").rpartition("/")[0]
    if struct is None or (version and group not in GROUPS[kind]):
        found.ignored[kind] += 1
        found.other.append(value)
        return
    try:
        obj: Object = from_plain(struct, value)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    obj.kind = kind
    _keep(obj, where, found)
    if not is_stored(obj):  # a server stores no unknown fields
        unknown = unknown_fields(value, kind, version or "v1")
        found.unknown += [f"{where}: {kind} {obj.key}: {each}" for each in unknown]


def _keep(obj: Object, where: str, found: Manifests) -> None:
    for problem in problems_in(obj):
        raise InputError(f"{where}: {obj.kind} {obj.key or 'without a name'}: {problem}")
    found.objects.append(obj)
    found.places.append(where)


def _add_items(value: Mapping[str, Any], item_kind: str, where: str, found: Manifests) -> None:
    items = value["items"] or []
    if not isinstance(items, list):
        raise InputError(f"{where}: items: {_said(items)}, expected a list")
    for i, item in enumerate(items):
        if isinstance(item, Mapping) and item_kind and "kind" not in item:
            item = {"kind": item_kind, "apiVersion": value.get("apiVersion"), **item}
        _add(item, f"{where}, items[{i}]", found)


def _at(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _said(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool() | int() | float():
            return f"the value {value}"
        case str():
            return f"the text {value[:40]!r}"
        case list():
            return "a list"
        case _:
            return "an object"
