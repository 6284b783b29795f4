"""Encoding of objects in a record.

A pod is written in a few bytes: its own fields, and the number of its spec. A spec is written with the first pod that
has it, and again in each keyframe, without the node: for a thousand pods of one template, it is written and read once.
Other objects are written whole, and the compressor removes redundancy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from mooring.api.codec import KINDS
from mooring.api.core import Pod, PodSpec, PodStatus
from mooring.api.errors import InputError
from mooring.api.meta import Object, ObjectMeta, OwnerReference
from mooring.api.pod_groups import CoschedulingPodGroup
from mooring.record.entries import Entry

RECORDED: dict[str, type[Object]] = {**KINDS, CoschedulingPodGroup.__name__: CoschedulingPodGroup}
"""The kinds that a record can hold. An unknown one, from a newer mooring, is skipped."""
MAX_SHARED = 20_000  # parts that a reader caches
MAX_PACKED = 20_000  # packed objects that a writer caches, some hundred bytes each: keyframes repeat them

_encode = msgspec.msgpack.Encoder().encode
_EMPTY = msgspec.Raw(b"\x80")  # a map without entries
_NO_STATUS = PodStatus()


class PackedPut(Entry, tag=1, frozen=True):
    """An encoded Put, before the object is decoded."""

    kind: str
    object: msgspec.Raw


class PackedSpec(Entry, tag=4, frozen=True):
    """The spec of pods that follow, which refer to its number. Their nodes are separate."""

    number: int
    spec: msgspec.Raw


class PackedPod(Entry, tag=5, frozen=True):
    """An encoded Put of a pod. Rare fields are last, and left out."""

    namespace: str
    name: str
    uid: str
    spec: int  # the number
    node: str = ""
    status: msgspec.Raw = _EMPTY
    labels: dict[str, str] = {}
    creation_timestamp: str | None = None
    owner_references: list[OwnerReference] = []
    generate_name: str = ""
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] = []
    api_version: str = "v1"
    kind: str = "Pod"


class _Spec(msgspec.Struct, gc=False):
    """A numbered spec."""

    number: int
    plain: PodSpec  # without a node
    likely: PodSpec  # a copy that gets the node of a spec for comparison
    encoded: bytes


class _Known(msgspec.Struct, gc=False):
    """A pod known to a reader, and its encoding."""

    pod: Pod
    packed: PackedPod
    spec: _Spec


class Packer:
    """Packs objects, and tracks what a reader knows already. ``redact`` filters annotations."""

    def __init__(self, redact: Callable[[dict[str, str]], dict[str, str]] = dict) -> None:
        self._redact = redact
        self._known: dict[tuple[str, str], int] = {}  # hashes of packed objects
        self._packed: dict[tuple[str, str], tuple[Object, PackedPut, int]] = {}  # encodings for the next keyframe
        self._pods: dict[str, _Known] = {}
        self._is_stale = False  # pods were packed with other annotations
        # During a keyframe: what was known before it. An unchanged pod is written again without being packed: in a
        # large cluster that is nearly all of them.
        self._before: dict[str, _Known] = {}
        self._specs = _Specs()
        self._told = self._specs.told

    def redact_by(self, redact: Callable[[dict[str, str]], dict[str, str]]) -> None:
        """Replace the redaction.

        Packed objects are packed again when they are next written.
        """
        self._redact = redact
        self._packed.clear()
        self._is_stale = True

    def begin_keyframe(self) -> None:
        """Begin a keyframe: a reader starts here without any state, and the whole state follows."""
        self._packed = {place: each for place, each in self._packed.items() if place in self._known}
        self._known.clear()
        self._before, self._pods = {} if self._is_stale else self._pods, {}
        self._is_stale = False
        self._specs.told.clear()

    def end_keyframe(self) -> None:
        """End a keyframe: drop what was not in the state."""
        self._before = {}
        self._specs.forget_untold()

    def pack(self, obj: Object) -> Entry | list[Entry]:
        """Return the entries for the object; none if nothing recorded has changed."""
        if type(obj) is Pod:
            return self.pack_pod(obj)
        kind, meta = type(obj).__name__, obj.metadata
        place = kind, f"{meta.namespace}/{meta.name}"
        known = self._packed.get(place)
        if known is not None and known[0] is obj:
            _, put, content = known
        else:
            packed = self._encoded(obj)
            put, content = PackedPut(kind, msgspec.Raw(packed)), hash(packed)
            if known is not None or len(self._packed) < MAX_PACKED:
                self._packed[place] = obj, put, content
        if self._known.get(place) == content:
            return []
        self._known[place] = content
        return put

    def _encoded(self, obj: Object) -> bytes:
        stripped = obj.__copy__()
        meta = stripped.metadata = obj.metadata.__copy__()
        meta.resource_version, meta.generation = "", 0  # they change with every heartbeat
        if meta.annotations:
            meta.annotations = self._redact(meta.annotations)
        return _encode(stripped)

    def pack_pod(self, pod: Pod) -> Entry | list[Entry]:
        """Return the entries for a pod."""
        meta, spec, status = pod.metadata, pod.spec, pod.status
        key = f"{meta.namespace}/{meta.name}"
        known = self._pods.get(key)
        if known is None and self._before:
            repeated = self._before.get(key)
            if repeated is not None and repeated.pod is pod:
                self._pods[key] = repeated
                packed = repeated.packed
                return packed if packed.spec in self._told else [self._specs.tell(repeated.spec), packed]
        if known is None:
            numbered = self._specs.find(spec)
        else:  # mostly a newly bound pod; struct comparison is one call of C, fast for shared parts
            numbered = known.spec
            numbered.likely.node_name = spec.node_name
            if numbered.likely != spec:
                numbered = known.spec = self._specs.find(spec)
        number = numbered.number
        packed = PackedPod(
            meta.namespace,
            meta.name,
            meta.uid,
            number,
            spec.node_name,
            _EMPTY if status == _NO_STATUS else status,  # type: ignore[arg-type]  # its bytes are made with the others
            meta.labels,
            meta.creation_timestamp,
            meta.owner_references,
            meta.generate_name,
            self._redact(meta.annotations) if meta.annotations else meta.annotations,
            meta.deletion_timestamp,
            meta.deletion_grace_period_seconds,
            meta.finalizers,
            pod.api_version,
            pod.kind,
        )
        if known is None:
            self._pods[key] = _Known(pod, packed, numbered)
        else:
            known.pod = pod
            if known.packed == packed:
                return []
            known.packed = packed
        return packed if number in self._told else [self._specs.tell(numbered), packed]

    def forget(self, kind: str, key: str) -> None:
        """Drop a deleted object."""
        if "/" not in key:
            key = f"/{key}"
        if kind == "Pod":
            self._pods.pop(key, None)
        else:
            self._known.pop((kind, key), None)
            self._packed.pop((kind, key), None)


class _Specs:
    """Specs without their nodes, by number. Numbers are unique within a file."""

    def __init__(self) -> None:
        self.told: set[int] = set()  # known to a reader
        self._next = 0
        self._by_bytes: dict[bytes, _Spec] = {}
        # By the identity of the plain spec, which is held: pods of a simulated workload share one object.
        self._by_identity: dict[int, _Spec] = {}

    def find(self, spec: PodSpec) -> _Spec:
        """Return the spec with its number; assign one if necessary."""
        found = self._by_identity.get(id(spec))
        if found is not None and found.plain is spec:
            return found
        plain = spec
        if spec.node_name:
            plain = spec.__copy__()
            plain.node_name = ""
        encoded = _encode(plain)
        found = self._by_bytes.get(encoded)
        if found is None:
            found = self._by_bytes[encoded] = _Spec(self._next, plain, plain.__copy__(), encoded)
            self._next += 1
        else:
            self._by_identity.pop(id(found.plain), None)
            found.plain, found.likely = plain, plain.__copy__()
        self._by_identity[id(plain)] = found
        return found

    def tell(self, spec: _Spec) -> PackedSpec:
        """Return the entry for a spec that a reader does not know."""
        self.told.add(spec.number)
        return PackedSpec(spec.number, msgspec.Raw(spec.encoded))

    def forget_untold(self) -> None:
        """Drop specs that are no longer referenced."""
        self._by_bytes = {each.encoded: each for each in self._by_bytes.values() if each.number in self.told}
        self._by_identity = {id(each.plain): each for each in self._by_bytes.values()}


class _PodParts(msgspec.Struct, rename="camel"):
    """A pod with undecoded parts."""

    api_version: str = ""
    kind: str = ""
    metadata: msgspec.Raw = _EMPTY
    spec: msgspec.Raw = _EMPTY
    status: msgspec.Raw = _EMPTY


_pod_parts = msgspec.msgpack.Decoder(_PodParts).decode
_metadata = msgspec.msgpack.Decoder(ObjectMeta).decode


class _Shared:
    """Values of a type, shared by equal bytes."""

    def __init__(self, kind: type[Any]) -> None:
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._values: dict[bytes, Any] = {}

    def __call__(self, data: msgspec.Raw) -> Any:
        key = bytes(data)
        found = self._values.get(key)
        if found is None:
            if len(self._values) >= MAX_SHARED:
                self._values.clear()
            found = self._values[key] = self._decode(data)
        return found


class Unpacker:
    """Decodes what a packer wrote; ``known`` are the existing objects."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Object] = {}
        self._spec, self._status = _Shared(PodSpec), _Shared(PodStatus)
        self._specs: dict[int, PodSpec] = {}
        self._placed: dict[tuple[int, str], PodSpec] = {}  # with their nodes

    def begin_keyframe(self) -> None:
        """Begin a keyframe: specs are repeated."""
        self._specs.clear()
        self._placed.clear()

    def learn(self, packed: PackedSpec) -> None:
        """Store the spec of pods that follow; raise InputError if it is damaged."""
        try:
            self._specs[packed.number] = self._spec(packed.spec)
        except msgspec.DecodeError as error:
            raise InputError(f"damaged: PodSpec: {error}") from None

    def unpack(self, packed: PackedPut | PackedPod) -> Object | None:
        """Decode an object; return None for an unknown kind; raise InputError if it is damaged."""
        if isinstance(packed, PackedPod):
            pod = self._numbered_pod(packed)
            self.known["Pod", f"{packed.namespace}/{packed.name}" if packed.namespace else packed.name] = pod
            return pod
        kind = RECORDED.get(packed.kind)
        if kind is None:
            return None
        try:
            obj: Object = self._pod(packed.object) if kind is Pod else _decoder(kind).decode(packed.object)
        except msgspec.DecodeError as error:
            raise InputError(f"damaged: {packed.kind}: {error}") from None
        self.known[packed.kind, obj.key] = obj
        return obj

    def _numbered_pod(self, packed: PackedPod) -> Pod:
        spec = self._specs.get(packed.spec)
        if spec is None:
            raise InputError(f"damaged: Pod: no spec has the number {packed.spec}")
        if packed.node:
            spec = self._placed.get((packed.spec, packed.node)) or self._place(packed.spec, packed.node)
        try:
            status = self._status(packed.status)
        except msgspec.DecodeError as error:
            raise InputError(f"damaged: PodStatus: {error}") from None
        # By position: half of the time of field names.
        meta = ObjectMeta(
            packed.name,
            packed.generate_name,
            packed.namespace,
            packed.uid,
            "",
            0,
            packed.creation_timestamp,
            packed.deletion_timestamp,
            packed.deletion_grace_period_seconds,
            packed.labels,
            packed.annotations,
            packed.owner_references,
            packed.finalizers,
        )
        return Pod(api_version=packed.api_version, kind=packed.kind, metadata=meta, spec=spec, status=status)

    def _place(self, number: int, node: str) -> PodSpec:
        if len(self._placed) >= MAX_SHARED:
            self._placed.clear()
        spec = self._placed[number, node] = self._specs[number].__copy__()
        spec.node_name = node
        return spec

    def _pod(self, data: msgspec.Raw) -> Pod:
        """Decode a pod of format 1."""
        parts = _pod_parts(data)
        return Pod(
            api_version=parts.api_version,
            kind=parts.kind,
            metadata=_metadata(parts.metadata),
            spec=self._spec(parts.spec),
            status=self._status(parts.status),
        )

    def forget(self, kind: str, key: str) -> None:
        """Drop a deleted object."""
        self.known.pop((kind, key), None)


@cache
def _decoder(kind: type[Object]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)
