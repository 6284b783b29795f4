"""Object metadata: names, generated names, timestamps, and the rules that hold for every kind."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mooring.api import times
from mooring.api.errors import ParseError
from mooring.controlplane.storage import selectors
from mooring.controlplane.storage.selectors import is_label_key, is_label_value
from mooring.controlplane.types.kind import Object
from mooring.controlplane.types.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    too_long,
    unsupported,
)

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


# --------------------------------------------------------------------------------------------------------------------
# Validation of what scheduling reads: selectors, affinity, tolerations, taints, spread constraints, gates.

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character"
)


def validate_labels(labels: Mapping[str, str], at: str) -> list[Cause]:
    return label_problems(at, dict(labels))


def validate_label_selector(selector: Mapping[str, Any] | None, at: str) -> list[Cause]:
    if not selector:
        return []
    found = validate_labels(selector.get("matchLabels") or {}, f"{at}.matchLabels")
    for i, expression in enumerate(selector.get("matchExpressions") or ()):
        where = f"{at}.matchExpressions[{i}]"
        operator, values = expression.get("operator", ""), expression.get("values") or []
        if operator in ("In", "NotIn"):
            if not values:
                found.append(required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                found.append(forbidden_field(f"{where}.values", why))
        else:
            found.append(invalid_value(f"{where}.operator", operator, "not a valid selector operator"))
        if not is_label_key(expression.get("key", "")):
            found.append(invalid_value(f"{where}.key", expression.get("key", ""), _NAME_RULE))
        for j, value in enumerate(values):
            if not is_label_value(value):
                found.append(invalid_value(f"{where}.values[{j}]", value, "a valid label value is expected"))
    return found


def validate_node_selector(selector: Mapping[str, Any], at: str) -> list[Cause]:
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{at}.nodeSelectorTerms", "must have at least one node selector term")]
    return [cause for i, term in enumerate(terms) for cause in validate_node_term(term, f"{at}.nodeSelectorTerms[{i}]")]


def validate_node_term(term: Mapping[str, Any], at: str) -> list[Cause]:
    found: list[Cause] = []
    for i, expression in enumerate(term.get("matchExpressions") or ()):
        found += _validate_node_requirement(expression, f"{at}.matchExpressions[{i}]")
    for i, expression in enumerate(term.get("matchFields") or ()):
        where = f"{at}.matchFields[{i}]"
        if expression.get("operator") not in ("In", "NotIn"):
            found.append(
                invalid_value(f"{where}.operator", expression.get("operator", ""), "not a valid selector operator")
            )
        elif len(expression.get("values") or ()) != 1:
            why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            found.append(required(f"{where}.values", why))
        if expression.get("key") != "metadata.name":
            found.append(invalid_value(f"{where}.key", expression.get("key", ""), "not a valid field selector key"))
    return found


def _validate_node_requirement(expression: Mapping[str, Any], where: str) -> list[Cause]:
    found: list[Cause] = []
    operator, values = expression.get("operator", ""), expression.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            found.append(required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(forbidden_field(f"{where}.values", why))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            found.append(required(f"{where}.values", why))
    else:
        found.append(invalid_value(f"{where}.operator", operator, "not a valid selector operator"))
    if not is_label_key(expression.get("key", "")):
        found.append(invalid_value(f"{where}.key", expression.get("key", ""), _NAME_RULE))
    return found


def validate_affinity(affinity: Mapping[str, Any], at: str) -> list[Cause]:
    found: list[Cause] = []
    node = affinity.get("nodeAffinity") or {}
    if node.get("requiredDuringSchedulingIgnoredDuringExecution") is not None:
        where = f"{at}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        found += validate_node_selector(node["requiredDuringSchedulingIgnoredDuringExecution"], where)
    for i, preferred in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        where = f"{at}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
        found += _validate_weight(preferred, where)
        found += validate_node_term(preferred.get("preference") or {}, f"{where}.preference")
    for name in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(name) or {}
        for i, term in enumerate(terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
            found += _validate_pod_term(term, f"{at}.{name}.requiredDuringSchedulingIgnoredDuringExecution[{i}]")
        for i, weighted in enumerate(terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
            where = f"{at}.{name}.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
            found += _validate_weight(weighted, where)
            found += _validate_pod_term(weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")
    return found


def _validate_weight(weighted: Mapping[str, Any], where: str) -> list[Cause]:
    weight = weighted.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid_value(f"{where}.weight", weight, "must be in the range 1-100")]


def _validate_pod_term(term: Mapping[str, Any], where: str) -> list[Cause]:
    found = validate_label_selector(term.get("labelSelector"), f"{where}.labelSelector")
    found += validate_label_selector(term.get("namespaceSelector"), f"{where}.namespaceSelector")
    key = term.get("topologyKey", "")
    if not key:
        found.append(required(f"{where}.topologyKey", "can not be empty"))
    elif not is_label_key(key):
        found.append(invalid_value(f"{where}.topologyKey", key, _NAME_RULE))
    both = set(term.get("matchLabelKeys") or ()) & set(term.get("mismatchLabelKeys") or ())
    for shared in sorted(both):
        why = "exists in both matchLabelKeys and mismatchLabelKeys"
        found.append(invalid_value(f"{where}.matchLabelKeys", shared, why))
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        if term.get(name) and term.get("labelSelector") is None:
            found.append(forbidden_field(f"{where}.{name}", "must not be specified when labelSelector is not set"))
    return found


def validate_tolerations(tolerations: Sequence[Mapping[str, Any]], at: str) -> list[Cause]:
    found: list[Cause] = []
    for i, toleration in enumerate(tolerations):
        where = f"{at}[{i}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        if key and not is_label_key(key):
            found.append(invalid_value(f"{where}.key", key, _NAME_RULE))
        if not key and operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            found.append(invalid_value(f"{where}.operator", operator, why))
        if operator in ("Equal", ""):
            if not is_label_value(toleration.get("value", "")):
                found.append(invalid_value(f"{where}.operator", toleration["value"], "a valid label value is expected"))
        elif operator == "Exists":
            if toleration.get("value"):
                why = "value must be empty when `operator` is 'Exists'"
                found.append(invalid_value(f"{where}.operator", toleration["value"], why))
        else:
            found.append(unsupported(f"{where}.operator", operator, ("Equal", "Exists")))
        if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            found.append(invalid_value(f"{where}.effect", toleration.get("effect", ""), why))
        if toleration.get("effect") and toleration["effect"] not in _EFFECTS:
            found.append(unsupported(f"{where}.effect", toleration["effect"], _EFFECTS))
    return found


def validate_taints(taints: Sequence[Mapping[str, Any]], at: str) -> list[Cause]:
    found: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        where = f"{at}[{i}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        if not is_label_key(key):
            found.append(invalid_value(f"{where}.key", key, _NAME_RULE))
        if not is_label_value(taint.get("value", "")):
            found.append(invalid_value(f"{where}.value", taint["value"], "a valid label value is expected"))
        if not effect:
            found.append(required(f"{where}.effect"))
        elif effect not in _EFFECTS:
            found.append(unsupported(f"{where}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            found.append(duplicate(where, dict(taint)))
        seen.add((key, effect))
    return found


def validate_spread(constraints: Sequence[Mapping[str, Any]], at: str) -> list[Cause]:
    found: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(constraints):
        where = f"{at}[{i}]"
        if constraint.get("maxSkew", 0) <= 0:
            found.append(invalid_value(f"{where}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero"))
        key, when = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        if not key:
            found.append(required(f"{where}.topologyKey", "can not be empty"))
        elif not is_label_key(key):
            found.append(invalid_value(f"{where}.topologyKey", key, _NAME_RULE))
        if when not in ("DoNotSchedule", "ScheduleAnyway"):
            found.append(unsupported(f"{where}.whenUnsatisfiable", when, ("DoNotSchedule", "ScheduleAnyway")))
        if (key, when) in seen:
            found.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {when}}}"))
        seen.add((key, when))
        domains = constraint.get("minDomains")
        if domains is not None:
            if domains <= 0:
                found.append(invalid_value(f"{where}.minDomains", domains, "must be greater than zero"))
            if when != "DoNotSchedule":
                why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
                found.append(invalid_value(f"{where}.minDomains", domains, why))
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if constraint.get(name) is not None and constraint[name] not in ("Ignore", "Honor"):
                found.append(unsupported(f"{where}.{name}", constraint[name], ("Ignore", "Honor")))
        found += validate_label_selector(constraint.get("labelSelector"), f"{where}.labelSelector")
        if constraint.get("matchLabelKeys") and constraint.get("labelSelector") is None:
            why = "must not be specified when labelSelector is not set"
            found.append(forbidden_field(f"{where}.matchLabelKeys", why))
    return found


def validate_gates(gates: Sequence[Mapping[str, Any]], at: str) -> list[Cause]:
    found: list[Cause] = []
    seen: set[str] = set()
    for i, gate in enumerate(gates):
        name = gate.get("name", "")
        if not name or not is_label_key(name):
            found.append(invalid_value(f"{at}[{i}]", name, _NAME_RULE))
        if name in seen:
            found.append(duplicate(f"{at}[{i}]", name))
        seen.add(name)
    return found
