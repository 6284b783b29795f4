"""Validation that many kinds share: metadata, and fields for scheduling (selectors, affinity, taints, gates)."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mooring.api import times
from mooring.api.errors import ParseError
from mooring.controlplane.storage.selectors import is_label_key, is_label_value
from mooring.controlplane.types.kind import Context, Object
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


# Functions for the hooks of a write


def fill(obj: Object, /, **values: Any) -> Object:
    """Set fields that an object leaves open; return the object."""
    for name, value in values.items():
        obj.setdefault(name, value)
    return obj


def keep(new: Object, old: Object, *names: str) -> None:
    """Restore fields to their old values."""
    for name in names:
        if name in old:
            new[name] = old[name]
        else:
            new.pop(name, None)


def first_status(status: Object) -> Callable[[Object, Context], None]:
    """Return an admission hook that gives a new object this status."""

    def admit(obj: Object, _: Context) -> None:
        obj["status"] = copy.deepcopy(status)

    return admit


def immutable(new: Object, old: Object, *paths: str) -> list[Cause]:
    """Return an error for each path whose value changed."""
    found = []
    for path in paths:
        value: Any = new
        before: Any = old
        for part in path.split("."):
            value, before = (value or {}).get(part), (before or {}).get(part)
        if value != before:
            found.append(invalid_value(path, value, "field is immutable"))
    return found


def one_of(obj: Mapping[str, Any], at: str, name: str, options: Sequence[str]) -> list[Cause]:
    """Return an error if a field is set to a value that is not among the options."""
    value = obj.get(name)
    return [] if value is None or value in options else [unsupported(f"{at}.{name}", value, options)]


def not_negative(obj: Mapping[str, Any], at: str, *names: str) -> list[Cause]:
    why = "must be greater than or equal to 0"
    return [invalid_value(f"{at}.{name}", obj[name], why) for name in names if (obj.get(name) or 0) < 0]


def numbered(items: Sequence[Object] | None, at: str) -> Iterator[tuple[str, Object]]:
    """Yield the items of a list, each with its path."""
    for i, item in enumerate(items or ()):
        yield f"{at}[{i}]", item


# Metadata


def parse_time(text: str) -> float | None:
    """Return seconds since the epoch, or None if the text is not a timestamp."""
    try:
        return times.parse_time(text)
    except ParseError:
        return None


def generated_name(base: str, rng: random.Random) -> str:
    """Return a name for ``generateName``: the base, and five letters and digits that make no words."""
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
    limit, pattern, rule = (63, _LABEL, LABEL_RULE) if style == "label" else (253, _SUBDOMAIN, SUBDOMAIN_RULE)
    if len(name) > limit:
        return [invalid_value(field, name, f"must be no more than {limit} characters")]
    return [] if pattern.fullmatch(name) else [invalid_value(field, name, rule)]


def validate_labels(labels: Mapping[str, str], at: str) -> list[Cause]:
    found = []
    for key, value in labels.items():
        if not is_label_key(key):
            found.append(invalid_value(at, key, QUALIFIED_RULE))
        if not is_label_value(value):
            rule = "must be no more than 63 characters" if len(value) > 63 else LABEL_VALUE_RULE
            found.append(invalid_value(at, value, rule))
    return found


def _validate_annotations(annotations: dict[str, str]) -> list[Cause]:
    at = "metadata.annotations"
    found = [invalid_value(at, key, QUALIFIED_RULE) for key in annotations if not is_label_key(key.lower())]
    if sum(len(key) + len(value) for key, value in annotations.items()) > 256 * 1024:
        found.append(too_long(at, 262144))
    return found


def validate(metadata: dict[str, Any], *, is_namespaced: bool, style: str) -> list[Cause]:
    """Apply the rules of metadata for all kinds."""
    found: list[Cause] = []
    name = metadata.get("name", "")
    if not name:
        found.append(required("metadata.name", "name or generateName is required"))
    else:
        found += name_problems("metadata.name", name, style)
    if is_namespaced and not metadata.get("namespace"):
        found.append(required("metadata.namespace"))
    if metadata.get("labels"):
        found += validate_labels(metadata["labels"], "metadata.labels")
    if annotations := metadata.get("annotations"):
        found += _validate_annotations(annotations)
    if references := metadata.get("ownerReferences"):
        found += _validate_owners(references)
    if finalizers := metadata.get("finalizers"):
        found += _validate_finalizers(finalizers)
    return found


def _validate_owners(references: list[Object]) -> list[Cause]:
    found: list[Cause] = []
    for where, reference in numbered(references, "metadata.ownerReferences"):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(field):
                called = "version" if field == "apiVersion" else field
                found.append(invalid_value(f"{where}.{field}", "", f"{called} must not be empty"))
    if sum(bool(reference.get("controller")) for reference in references) > 1:
        why = "Only one reference can have Controller set to true"
        found.append(invalid_value("metadata.ownerReferences", "", why))
    return found


def _validate_finalizers(finalizers: list[str]) -> list[Cause]:
    found: list[Cause] = []
    for i, finalizer in enumerate(finalizers):
        if not is_label_key(finalizer):
            found.append(invalid_value("metadata.finalizers", finalizer, QUALIFIED_RULE))
        if finalizer in finalizers[:i]:
            found.append(duplicate("metadata.finalizers", finalizer))
    return found


def validate_update(new: Object, old: Object) -> list[Cause]:
    """Reject new finalizers on an object that is being deleted: it could never be removed."""
    if not old.get("deletionTimestamp"):
        return []
    known = old.get("finalizers") or ()
    added = [name for name in new.get("finalizers") or () if name not in known]
    if not added:
        return []
    text = "no new finalizers can be added if the object is being deleted, found new finalizers "
    return [forbidden_field("metadata.finalizers", text + repr(added).replace("'", '"'))]


# Fields for scheduling

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character"
)
_NEEDS_SELECTOR = "must not be specified when labelSelector is not set"


def _validate_key(key: str, where: str) -> list[Cause]:
    return [] if is_label_key(key) else [invalid_value(where, key, _NAME_RULE)]


def _validate_topology_key(term: Mapping[str, Any], where: str) -> list[Cause]:
    key = term.get("topologyKey", "")
    if not key:
        return [required(f"{where}.topologyKey", "can not be empty")]
    return _validate_key(key, f"{where}.topologyKey")


def _validate_expression(expression: Mapping[str, Any], where: str, *, is_for_nodes: bool) -> list[Cause]:
    """Validate a requirement on labels. Nodes are also compared with numbers; their values are not checked, as
    upstream.
    """
    found: list[Cause] = []
    operator, values = expression.get("operator", ""), expression.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            found.append(required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(forbidden_field(f"{where}.values", why))
    elif is_for_nodes and operator in ("Gt", "Lt"):
        if len(values) != 1:
            why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            found.append(required(f"{where}.values", why))
    else:
        found.append(invalid_value(f"{where}.operator", operator, "not a valid selector operator"))
    found += _validate_key(expression.get("key", ""), f"{where}.key")
    for j, value in enumerate(() if is_for_nodes else values):
        if not is_label_value(value):
            found.append(invalid_value(f"{where}.values[{j}]", value, "a valid label value is expected"))
    return found


def validate_label_selector(selector: Mapping[str, Any] | None, at: str) -> list[Cause]:
    if not selector:
        return []
    found = validate_labels(selector.get("matchLabels") or {}, f"{at}.matchLabels")
    for where, expression in numbered(selector.get("matchExpressions"), f"{at}.matchExpressions"):
        found += _validate_expression(expression, where, is_for_nodes=False)
    return found


def validate_node_selector(selector: Mapping[str, Any], at: str) -> list[Cause]:
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{at}.nodeSelectorTerms", "must have at least one node selector term")]
    return [
        cause for where, term in numbered(terms, f"{at}.nodeSelectorTerms") for cause in validate_node_term(term, where)
    ]


def validate_node_term(term: Mapping[str, Any], at: str) -> list[Cause]:
    found: list[Cause] = []
    for where, expression in numbered(term.get("matchExpressions"), f"{at}.matchExpressions"):
        found += _validate_expression(expression, where, is_for_nodes=True)
    for where, expression in numbered(term.get("matchFields"), f"{at}.matchFields"):
        operator, key = expression.get("operator", ""), expression.get("key", "")
        if operator not in ("In", "NotIn"):
            found.append(invalid_value(f"{where}.operator", operator, "not a valid selector operator"))
        elif len(expression.get("values") or ()) != 1:
            why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            found.append(required(f"{where}.values", why))
        if key != "metadata.name":
            found.append(invalid_value(f"{where}.key", key, "not a valid field selector key"))
    return found


def validate_affinity(affinity: Mapping[str, Any], at: str) -> list[Cause]:
    must, may = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
    found: list[Cause] = []
    node = affinity.get("nodeAffinity") or {}
    if node.get(must) is not None:
        found += validate_node_selector(node[must], f"{at}.nodeAffinity.{must}")
    for where, preferred in numbered(node.get(may), f"{at}.nodeAffinity.{may}"):
        found += _validate_weight(preferred, where)
        found += validate_node_term(preferred.get("preference") or {}, f"{where}.preference")
    for name in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(name) or {}
        for where, term in numbered(terms.get(must), f"{at}.{name}.{must}"):
            found += _validate_pod_term(term, where)
        for where, weighted in numbered(terms.get(may), f"{at}.{name}.{may}"):
            found += _validate_weight(weighted, where)
            found += _validate_pod_term(weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")
    return found


def _validate_weight(weighted: Mapping[str, Any], where: str) -> list[Cause]:
    weight = weighted.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid_value(f"{where}.weight", weight, "must be in the range 1-100")]


def _validate_pod_term(term: Mapping[str, Any], where: str) -> list[Cause]:
    found = validate_label_selector(term.get("labelSelector"), f"{where}.labelSelector")
    found += validate_label_selector(term.get("namespaceSelector"), f"{where}.namespaceSelector")
    found += _validate_topology_key(term, where)
    for shared in sorted(set(term.get("matchLabelKeys") or ()) & set(term.get("mismatchLabelKeys") or ())):
        why = "exists in both matchLabelKeys and mismatchLabelKeys"
        found.append(invalid_value(f"{where}.matchLabelKeys", shared, why))
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        if term.get(name) and term.get("labelSelector") is None:
            found.append(forbidden_field(f"{where}.{name}", _NEEDS_SELECTOR))
    return found


def validate_tolerations(tolerations: Sequence[Object], at: str) -> list[Cause]:
    found: list[Cause] = []
    for where, toleration in numbered(tolerations, at):
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            found += _validate_key(key, f"{where}.key")
        elif operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            found.append(invalid_value(f"{where}.operator", operator, why))
        if operator in ("Equal", ""):
            if not is_label_value(value):
                found.append(invalid_value(f"{where}.operator", value, "a valid label value is expected"))
        elif operator != "Exists":
            found.append(unsupported(f"{where}.operator", operator, ("Equal", "Exists")))
        elif value:
            found.append(invalid_value(f"{where}.operator", value, "value must be empty when `operator` is 'Exists'"))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            found.append(invalid_value(f"{where}.effect", effect, why))
        if effect and effect not in _EFFECTS:
            found.append(unsupported(f"{where}.effect", effect, _EFFECTS))
    return found


def validate_taints(taints: Sequence[Object], at: str) -> list[Cause]:
    found: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for where, taint in numbered(taints, at):
        key, effect = taint.get("key", ""), taint.get("effect", "")
        found += _validate_key(key, f"{where}.key")
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


def validate_spread(constraints: Sequence[Object], at: str) -> list[Cause]:
    found: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for where, constraint in numbered(constraints, at):
        if constraint.get("maxSkew", 0) <= 0:
            found.append(invalid_value(f"{where}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero"))
        key, when = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        found += _validate_topology_key(constraint, where)
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
            found += one_of(constraint, where, name, ("Ignore", "Honor"))
        found += validate_label_selector(constraint.get("labelSelector"), f"{where}.labelSelector")
        if constraint.get("matchLabelKeys") and constraint.get("labelSelector") is None:
            found.append(forbidden_field(f"{where}.matchLabelKeys", _NEEDS_SELECTOR))
    return found


def validate_gates(gates: Sequence[Object], at: str) -> list[Cause]:
    found: list[Cause] = []
    seen: set[str] = set()
    for where, gate in numbered(gates, at):
        name = gate.get("name", "")
        found += _validate_key(name, where)
        if name in seen:
            found.append(duplicate(where, name))
        seen.add(name)
    return found
