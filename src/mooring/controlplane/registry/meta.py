"""Object metadata: names, generated names, timestamps, and the rules that hold for every kind."""

from __future__ import annotations

import random
import re
from typing import Any

from mooring.api import times
from mooring.api.errors import ParseError
from mooring.controlplane.storage import selectors
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import Cause, duplicate, forbidden_field, invalid_value, required, too_long

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"

LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def parse_time(text: str) -> float | None:
    """Seconds since the epoch, or None for what is not a timestamp."""
    try:
        return times.parse_time(text)
    except ParseError:
        return None


def generated_name(base: str, rng: random.Random) -> str:
    """A name for ``generateName``: the base, and five letters and digits that make no words."""
    return base[:58] + "".join(rng.choices(SUFFIX_ALPHABET, k=5))


def is_label(name: str) -> bool:
    return len(name) <= 63 and _LABEL.fullmatch(name) is not None


def is_subdomain(name: str) -> bool:
    return len(name) <= 253 and _SUBDOMAIN.fullmatch(name) is not None


def name_problems(field: str, name: str, style: str) -> list[Cause]:
    if style == "path":
        if name in (".", "..") or "/" in name or "%" in name:
            return [invalid_value(field, name, "may not contain '/' or '%', nor be '.' or '..'")]
        return []
    if style == "label":
        if len(name) > 63:
            return [invalid_value(field, name, "must be no more than 63 characters")]
        return [] if _LABEL.fullmatch(name) else [invalid_value(field, name, LABEL_RULE)]
    if len(name) > 253:
        return [invalid_value(field, name, "must be no more than 253 characters")]
    return [] if _SUBDOMAIN.fullmatch(name) else [invalid_value(field, name, SUBDOMAIN_RULE)]


def label_problems(field: str, labels: dict[str, str]) -> list[Cause]:
    found = []
    for key, value in labels.items():
        if not selectors.is_label_key(key):
            found.append(invalid_value(field, key, QUALIFIED_RULE))
        if not selectors.is_label_value(value):
            rule = "must be no more than 63 characters" if len(value) > 63 else LABEL_VALUE_RULE
            found.append(invalid_value(field, value, rule))
    return found


def annotation_problems(annotations: dict[str, str]) -> list[Cause]:
    found = [
        invalid_value("metadata.annotations", key, QUALIFIED_RULE)
        for key in annotations
        if not selectors.is_label_key(key.lower())
    ]
    if sum(len(key) + len(value) for key, value in annotations.items()) > 256 * 1024:
        found.append(too_long("metadata.annotations", 262144))
    return found


def validate(metadata: dict[str, Any], *, is_namespaced: bool, style: str) -> list[Cause]:
    found: list[Cause] = []
    name = metadata.get("name", "")
    if not name:
        found.append(required("metadata.name", "name or generateName is required"))
    else:
        found += name_problems("metadata.name", name, style)
    if is_namespaced and not metadata.get("namespace"):
        found.append(required("metadata.namespace"))
    if metadata.get("labels"):
        found += label_problems("metadata.labels", metadata["labels"])
    if annotations := metadata.get("annotations"):
        found += annotation_problems(annotations)
    controllers = 0
    for i, reference in enumerate(metadata.get("ownerReferences") or ()):
        where = f"metadata.ownerReferences[{i}]"
        for field in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(field):
                found.append(invalid_value(f"{where}.{field}", "", f"{_WORDS.get(field, field)} must not be empty"))
        controllers += bool(reference.get("controller"))
    if controllers > 1:
        found.append(
            invalid_value("metadata.ownerReferences", "", "Only one reference can have Controller set to true")
        )
    seen = set()
    for finalizer in metadata.get("finalizers") or ():
        if not selectors.is_label_key(finalizer):
            found.append(invalid_value("metadata.finalizers", finalizer, QUALIFIED_RULE))
        if finalizer in seen:
            found.append(duplicate("metadata.finalizers", finalizer))
        seen.add(finalizer)
    return found


_WORDS = {"apiVersion": "version"}


def validate_update(new: Object, old: Object) -> list[Cause]:
    found: list[Cause] = []
    if old.get("deletionTimestamp"):
        known = set(old.get("finalizers") or ())
        added = [name for name in new.get("finalizers") or () if name not in known]
        if added:
            text = "no new finalizers can be added if the object is being deleted, found new finalizers "
            found.append(forbidden_field("metadata.finalizers", text + repr(added).replace("'", '"')))
    return found


def immutable(new: Object, old: Object, at: str, *path: str) -> list[Cause]:
    """An error when the value at ``path`` changed."""
    value: Any = new
    before: Any = old
    for part in path:
        value, before = (value or {}).get(part), (before or {}).get(part)
    return [] if value == before else [invalid_value(at, value, "field is immutable")]
