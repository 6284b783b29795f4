"""Create, read, update, patch and delete, without HTTP: the effect of requests on the store.

Everything here is synchronous, so that no other task in the event loop runs during a write. In-process controllers use
it directly; ``serving`` only translates.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mooring.api.clock import Clock, SystemClock
from mooring.api.times import format_time
from mooring.controlplane.registry import deletion, pod_validation
from mooring.controlplane.registry.groups.core import NAMESPACES
from mooring.controlplane.registry.validation import generated_name, keep, validate, validate_update
from mooring.controlplane.storage import selectors
from mooring.controlplane.storage.store import Store, StoredEntry
from mooring.controlplane.types import apply, patch, schema, status
from mooring.controlplane.types.kind import Kind, Object
from mooring.core.config.versions import KubernetesVersion

MAX_NAME_RETRIES = 8


@dataclass(slots=True)
class Options:
    """Options of a request besides its object; ``warnings`` collects messages for the client."""

    dry_run: bool = False
    field_validation: str = "Warn"
    manager: str = ""
    force: bool = False
    warnings: list[str] = field(default_factory=list)
    check: Callable[[Object, Object | None], None] | None = None
    """Checks the object to be written, and the one that it replaces (None for a new object); may reject the write."""


def _random_uid() -> str:
    """Return a random UUID (version 4), four times as fast as ``uuid.uuid4``: nothing here is a secret."""
    digits = f"{_uids.getrandbits(128) & _RANDOM_BITS | _VERSION_4:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


_uids = random.Random()
_RANDOM_BITS = ~(0xF000 << 64 | 0xC000 << 48)
_VERSION_4 = 0x4000 << 64 | 0x8000 << 48


_IDENTITY = (
    *("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    *("generation", "generateName", "managedFields"),
)
"""Metadata that a write does not change."""
_SERVERS_OWN = frozenset(["name", "namespace", "resourceVersion", "selfLink", *_IDENTITY])
"""Metadata that ``_begin`` normalises, fills in or drops."""


class Api:
    """The API server's verbs on a store."""

    def __init__(
        self,
        store: Store,
        clock: Clock | None = None,
        *,
        new_uid: Callable[[], str] = _random_uid,
        rng: random.Random | None = None,
        default_tolerations: bool = False,
        version: KubernetesVersion | None = None,
    ) -> None:
        """``version`` is the one that is spoken; without one everything is served."""
        self.store = store
        self.version = version
        self._later_fields = version.later_api_fields if version is not None else frozenset()
        self.clock = clock or SystemClock()
        self._new_uid = new_uid
        self._rng = rng or random.Random()
        self._default_tolerations = default_tolerations
        self.completes: dict[Kind, Callable[[Object], None]] = {}
        """By kind, the function that fills in what the creator of a new object would have set."""

    def timestamp(self) -> str:
        return format_time(self.clock.now())

    def carry_out(self, work: Callable[[], None]) -> None:
        """Run some work; here, a write is complete when its call returns."""
        work()

    def has_default_tolerations(self) -> bool:
        return self._default_tolerations

    # Decoding

    def decode(self, kind: Kind, body: bytes, options: Options) -> Object:
        """Decode a request body as an object of ``kind`` with defaults; unknown fields as ``fieldValidation`` says."""
        obj, unknown = schema.decode(kind.type_name, body, kind.kind, kind.version)
        self._report_unknown(kind, unknown + self._without_later(kind, obj), options)
        api_version, name = obj.get("apiVersion", ""), obj.get("kind", "")
        if name and name != kind.kind:
            raise status.bad_request(
                f'{name[:60]} in version "{api_version[:60]}" cannot be handled as a {kind.kind}: '
                f'no kind "{name[:60]}" is registered for this path'
            )
        if api_version and api_version != kind.api_version:
            raise status.bad_request(
                f"the API version in the data ({api_version[:60]}) does not match the expected API version "
                f"({kind.api_version})"
            )
        return self._canonical(kind, obj)

    def _without_later(self, kind: Kind, obj: Object) -> list[str]:
        """Drop fields that the version does not know."""
        return schema.without(kind.type_name, obj, self._later_fields) if self._later_fields else []

    def copies_topology_labels(self) -> bool:
        return self.version is None or "BindingCopiesTopologyLabels" in self.version.changes

    @staticmethod
    def _canonical(kind: Kind, obj: Object) -> Object:
        metadata = obj.get("metadata", {})
        rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion", "metadata")}
        return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata, **rest}

    @staticmethod
    def _report_unknown(kind: Kind, unknown: list[str], options: Options) -> None:
        if not unknown or options.field_validation == "Ignore":
            return
        texts = [f'unknown field "{name}"' for name in unknown[:32]]
        if options.field_validation == "Strict":
            raise status.bad_request(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                f"strict decoding error: {', '.join(texts)}"
            )
        options.warnings += texts

    # Reading

    def find(self, kind: Kind, namespace: str, name: str) -> StoredEntry | None:
        return self.store.get(kind.storage, namespace, name)

    def each(self, kind: Kind, namespace: str = "") -> Iterator[StoredEntry]:
        return self.store.iterate(kind.storage, namespace)

    def get(self, kind: Kind, namespace: str, name: str) -> StoredEntry:
        entry = self.store.get(kind.storage, namespace, name)
        if entry is None:
            raise status.not_found(kind.plural, kind.group, name)
        return entry

    def objects(self, kind: Kind, namespace: str = "", labels: str = "") -> list[Object]:
        """Return current objects as new dicts, by namespace and label selector."""
        selector = selectors.parse_labels(labels)
        found = self.store.iterate(kind.storage, namespace)
        return [kind.shown(entry.object()) for entry in found if selector.matches(entry.labels)]

    # Creating

    def create(self, kind: Kind, namespace: str, obj: Object, options: Options | None = None) -> StoredEntry:
        """Store a new object; the returned entry is what clients see from now on (or would, on a dry run).

        ``obj`` then belongs to the server, which changes it, and fills in its type if it is missing.
        """
        options = options or Options()
        stored = kind.storage
        obj = kind.stored(obj)
        if obj.get("kind") != stored.kind or obj.get("apiVersion") != stored.api_version:
            obj = self._canonical(stored, obj)
        metadata = obj.setdefault("metadata", {})
        self._check_namespace(stored, namespace, metadata)
        if metadata.get("resourceVersion"):
            raise status.bad_request("resourceVersion should not be set on objects to be created")
        generated = not metadata.get("name") and bool(metadata.get("generateName"))
        if stored.is_namespaced:
            self._require_namespace(stored, metadata["namespace"], metadata.get("name", ""))
        metadata = self._begin(stored, obj)
        stored.default(obj)
        stored.admit(obj, self)
        if generated:
            self._generate_name(stored, metadata)
        if (complete := self.completes.get(stored)) is not None:
            complete(obj)
        causes = validate(metadata, is_namespaced=stored.is_namespaced, style=stored.name_style)
        causes += stored.validate(obj)
        if causes:
            name = metadata.get("name") or metadata.get("generateName", "")
            raise status.invalid(kind.kind, kind.group, name, causes)
        if options.check is not None:
            options.check(obj, None)
        key = f"{metadata['namespace']}/{metadata['name']}" if stored.is_namespaced else metadata["name"]
        if options.dry_run:
            if self.store.entry(stored, key) is not None:
                raise status.already_exists(kind.plural, kind.group, metadata["name"])
            return StoredEntry(stored, key, 0, obj)
        return self.store.create(stored, obj)

    def _check_namespace(self, kind: Kind, namespace: str, metadata: Object) -> None:
        if not kind.is_namespaced:
            if metadata.pop("namespace", ""):
                raise status.bad_request("namespace is not allowed on this type")
            return
        given = metadata.get("namespace") or namespace
        if given != namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        metadata["namespace"] = given

    def _require_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        entry = self.store.get(NAMESPACES, "", namespace)
        if entry is None:
            raise status.not_found("namespaces", "", namespace)
        if entry.fields and entry.fields.get("status.phase") == "Terminating":
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            error = status.forbidden(kind.plural, kind.group, name, why)
            text = f"namespace {namespace} is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": text, "field": "metadata.namespace"}
            error.details["causes"] = [cause]
            raise error

    def _begin(self, kind: Kind, obj: Object) -> Object:
        """Fill in what the server decides: identity, time, generation, an empty status. Returns the new metadata."""
        given = obj["metadata"]
        metadata: Object = {}
        for name in ("name", "generateName", "namespace"):
            if (value := given.get(name)) is not None:
                metadata[name] = value
        metadata["uid"] = self._new_uid()
        metadata["resourceVersion"] = ""
        if kind.has_generation:
            metadata["generation"] = 1
        metadata["creationTimestamp"] = self.timestamp()
        for name, value in given.items():
            if name not in _SERVERS_OWN and (value or value in ("", 0)):
                metadata[name] = value
        obj["metadata"] = metadata
        if kind.has_status and not kind.keeps_status_at_create:
            obj.pop("status", None)
        return metadata

    def _generate_name(self, kind: Kind, metadata: Object) -> None:
        base = metadata["generateName"]
        for _ in range(MAX_NAME_RETRIES):
            name = generated_name(base, self._rng)
            if self.store.get(kind, metadata.get("namespace", ""), name) is None:
                rest = {key: value for key, value in metadata.items() if key != "name"}
                metadata.clear()
                metadata.update({"name": name, **rest})
                return
        raise status.already_exists(kind.plural, kind.group, base[:58])

    # Updating

    def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        obj: Object,
        options: Options | None = None,
        *,
        subresource: str = "",
    ) -> tuple[StoredEntry, bool]:
        """Replace an object (or its status); also return whether this created it."""
        options = options or Options()
        stored = kind.storage
        obj = kind.stored(obj)
        if obj.get("kind") != stored.kind or obj.get("apiVersion") != stored.api_version:
            obj = self._canonical(stored, obj)
        metadata = obj.setdefault("metadata", {})
        self._check_namespace(stored, namespace, metadata)
        given = metadata.setdefault("name", name)
        if given != name:
            raise status.bad_request(
                f"the name of the object ({given[:253]}) does not match the name on the URL ({name})"
            )
        old = self.store.get(stored, namespace, name)
        if old is None:
            if stored.creates_on_update and not subresource:
                metadata.pop("resourceVersion", None)
                metadata.pop("uid", None)
                return self.create(stored, namespace, obj, options), True
            raise status.not_found(kind.plural, kind.group, name)
        version = metadata.get("resourceVersion", "")
        if not version and not stored.allows_unconditional_update:
            text = "Invalid value: 0x0: must be specified for an update"
            cause = status.Cause("FieldValueInvalid", "metadata.resourceVersion", text)
            raise status.invalid(kind.kind, kind.group, name, [cause])
        if version and version != str(old.rv):
            raise status.conflict(kind.plural, kind.group, name)
        return self._replace(kind, old, old.object(), obj, options, subresource), False

    def modify(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Callable[[Object], object],
        options: Options | None = None,
        *,
        subresource: str = "",
    ) -> StoredEntry:
        """Read, let ``change`` work on a private copy in place (its return value is ignored), and write back."""
        entry = self.get(kind, namespace, name)
        obj = entry.object()
        change(obj)
        return self._replace(kind, entry, entry.object(), obj, options or Options(), subresource)

    def _replace(
        self, kind: Kind, entry: StoredEntry, old: Object, new: Object, options: Options, subresource: str
    ) -> StoredEntry:
        stored = kind.storage
        metadata, before = new["metadata"], old["metadata"]
        if metadata.get("uid") and metadata["uid"] != entry.uid:
            raise status.uid_conflict(kind.plural, kind.group, entry.name, metadata["uid"], entry.uid)
        self._keep_identity(metadata, before)
        if subresource != "status" or stored.keeps_status_at_create:
            stored.default(new)  # fields that a status write does not change have their defaults already
        if subresource == "status":
            for key in [key for key in new if key not in ("metadata", "status")]:
                if key not in old:
                    del new[key]
            new.update({key: value for key, value in old.items() if key not in ("metadata", "status")})
            stored.prepare_status(new, old)
        elif not subresource:
            if stored.has_status:
                keep(new, old, "status")
            stored.prepare_update(new, old)
        elif subresource == "resize":
            pod_validation.prepare_resize(new, old)
        if stored.has_generation and new.get("spec") != old.get("spec"):
            metadata["generation"] = before.get("generation", 0) + 1
        causes = validate(metadata, is_namespaced=stored.is_namespaced, style=stored.name_style)
        causes += validate_update(metadata, before)
        causes += stored.validate_update(new, old) if subresource not in ("status", "resize") else []
        if subresource != "status":
            causes += stored.validate(new)
        if causes:
            raise status.invalid(kind.kind, kind.group, entry.name, causes)
        if options.check is not None:
            options.check(new, old)
        apply.track(stored, old, new, options.manager, subresource, self.timestamp())
        return self.write(stored, entry, old, new, options.dry_run)

    def write(self, stored: Kind, entry: StoredEntry, old: Object, new: Object, dry_run: bool = False) -> StoredEntry:
        """Store a checked change; an unchanged object is not written, and a finished deletion is carried out."""
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if dry_run:
            return StoredEntry(stored, entry.key, entry.rv, new)
        if deletion.is_finished(stored, new):
            return self.store.delete(stored, entry, new)
        if new == old:
            return entry
        return self.store.update(stored, entry, new)

    @staticmethod
    def _keep_identity(metadata: Object, before: Object) -> None:
        keep(metadata, before, *_IDENTITY)
        metadata.pop("selfLink", None)
        for key in ("labels", "annotations", "ownerReferences", "finalizers"):
            if not metadata.get(key, True):
                del metadata[key]

    # Patching

    def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        content_type: str,
        body: bytes,
        options: Options | None = None,
        *,
        subresource: str = "",
    ) -> tuple[StoredEntry, bool]:
        """Change an object by a patch of any of the four types; also return whether apply created it."""
        options = options or Options()
        stored = kind.storage
        entry = self.store.get(stored, namespace, name)
        if content_type == patch.APPLY:
            return self._apply(kind, namespace, name, entry, body, options, subresource)
        if entry is None:
            raise status.not_found(kind.plural, kind.group, name)
        old = entry.object()
        current = kind.shown(entry.object())
        new = patch.patched(content_type, kind.type_name, current, body)
        unknown = schema.check(kind.type_name, new, kind.kind, kind.version)
        self._report_unknown(kind, unknown + self._without_later(kind, new), options)
        new = kind.stored(self._same_object(kind, new, entry))
        return self._replace(kind, entry, old, new, options, subresource), False

    def _same_object(self, kind: Kind, new: Object, entry: StoredEntry) -> Object:
        """Reject a patch that changes the object's identity, or that names a version that is not current."""
        metadata = new.setdefault("metadata", {})
        if metadata.setdefault("name", entry.name) != entry.name:
            cause = status.invalid_value("metadata.name", metadata["name"], "field is immutable")
            raise status.invalid(kind.kind, kind.group, entry.name, [cause])
        if kind.is_namespaced and metadata.setdefault("namespace", entry.namespace) != entry.namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        if not kind.is_namespaced:
            metadata.pop("namespace", None)
        if metadata.setdefault("resourceVersion", str(entry.rv)) not in (str(entry.rv), ""):
            raise status.conflict(kind.plural, kind.group, entry.name)
        for key, right in (("kind", kind.kind), ("apiVersion", kind.api_version)):
            if new.setdefault(key, right) != right:
                raise status.bad_request(f"a patch cannot change {key} from {right} to {str(new[key])[:60]}")
        return self._canonical(kind, new)

    def _apply(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        entry: StoredEntry | None,
        body: bytes,
        options: Options,
        subresource: str,
    ) -> tuple[StoredEntry, bool]:
        if not options.manager:
            causes = [status.required("fieldManager", "is required for apply patch")]
            raise status.invalid("PatchOptions", "meta.k8s.io", "", causes)
        applied = self.decode(kind, patch.yaml_to_json(body), options)
        if applied["metadata"].get("managedFields"):
            raise status.bad_request("metadata.managedFields must be nil")
        if applied["metadata"].setdefault("name", name) != name:
            raise status.bad_request("the name of the object does not match the name on the URL")
        now = self.timestamp()
        if entry is None:
            if subresource:
                raise status.not_found(kind.plural, kind.group, name)
            managed = apply.entry_for(kind, applied, options.manager, subresource, now)
            created = self.create(kind, namespace, applied, replace(options, warnings=[]))
            obj = created.object()
            obj["metadata"]["managedFields"] = [managed]
            if options.dry_run:
                return StoredEntry(created.kind, created.key, created.rv, obj), True
            return self.store.update(created.kind, created, obj), True
        self._check_namespace(kind, namespace, applied["metadata"])
        old = entry.object()
        given = applied["metadata"].pop("resourceVersion", "")
        if given and given != str(entry.rv):
            raise status.conflict(kind.plural, kind.group, name)
        merged = apply.applied(kind, old, applied, options.manager, options.force, subresource, now)
        # Apply has decided which manager owns which field. A plain write keeps the ownership that the old object
        # records, # and changes it for its manager: so the old object gets the new ownership, and the write has no
        # manager.
        before = entry.object()
        before["metadata"]["managedFields"] = merged["metadata"].get("managedFields")
        options = replace(options, manager="")
        return self._replace(kind, entry, before, merged, options, subresource), False

    # Deleting

    def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        delete_options: Mapping[str, Any] | None = None,
        *,
        dry_run: bool = False,
    ) -> tuple[StoredEntry, bool]:
        """Delete or begin to; also return whether the object is gone."""
        entry = self.get(kind, namespace, name)
        return deletion.delete(self, kind.storage, entry, delete_options or {}, dry_run)
