"""Validation of pods and of their updates, with upstream's field errors."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from mooring.controlplane.registry.validation import (
    LABEL_RULE,
    SUBDOMAIN_RULE,
    is_label,
    is_subdomain,
    keep,
    numbered,
    one_of,
    validate_affinity,
    validate_gates,
    validate_labels,
    validate_spread,
    validate_tolerations,
)
from mooring.controlplane.types import quantities
from mooring.controlplane.types.kind import Object
from mooring.controlplane.types.status import (
    Cause,
    duplicate,
    field_not_found,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)

UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative),"
    "`spec.tolerations` (only additions to existing tolerations),`spec.schedulingGates` (only deletions of existing "
    "gates)"
)
_encode = msgspec.json.Encoder().encode
_known_valid: set[bytes] = set()
MAX_KNOWN_VALID = 4096


def validate(pod: Object) -> list[Cause]:
    """Validate a pod. Pods of one template share one spec, which is validated once."""
    spec = pod.get("spec") or {}
    key = _encode(spec)
    if key in _known_valid:
        return []
    found = validate_pod_spec(spec, "spec")
    if not found:
        if len(_known_valid) >= MAX_KNOWN_VALID:
            _known_valid.clear()
        _known_valid.add(key)
    return found


def validate_pod_spec(spec: Object, at: str) -> list[Cause]:
    """Apply the rules of a pod spec, also inside a template (``at`` is then ``spec.template.spec``)."""
    found: list[Cause] = []
    volumes = _validate_volumes(spec.get("volumes"), f"{at}.volumes", found)
    claims = _validate_claims(spec.get("resourceClaims"), f"{at}.resourceClaims", found)
    if not spec.get("containers"):
        found.append(required(f"{at}.containers"))
    names: set[str] = set()
    host_ports: set[str] = set()
    for group in ("initContainers", "containers"):
        for where, container in numbered(spec.get(group), f"{at}.{group}"):
            _validate_name(container.get("name", ""), f"{where}.name", names, found)
            found += _validate_container(container, where, volumes, claims)
            if group == "containers":
                _check_host_ports(container, where, host_ports, found)
    found += one_of(spec, at, "restartPolicy", ("Always", "OnFailure", "Never"))
    found += one_of(spec, at, "dnsPolicy", ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"))
    found += one_of(spec, at, "preemptionPolicy", ("PreemptLowerPriority", "Never"))
    if (spec.get("activeDeadlineSeconds") or 1) < 1:
        why = "must be greater than or equal to 1"
        found.append(invalid_value(f"{at}.activeDeadlineSeconds", spec["activeDeadlineSeconds"], why))
    for name in ("nodeName", "priorityClassName"):
        if spec.get(name) and not is_subdomain(spec[name]):
            found.append(invalid_value(f"{at}.{name}", spec[name], SUBDOMAIN_RULE))
    found += validate_labels(spec.get("nodeSelector") or {}, f"{at}.nodeSelector")
    found += validate_affinity(spec.get("affinity") or {}, f"{at}.affinity")
    found += validate_tolerations(spec.get("tolerations") or (), f"{at}.tolerations")
    found += validate_spread(spec.get("topologySpreadConstraints") or (), f"{at}.topologySpreadConstraints")
    found += validate_gates(spec.get("schedulingGates") or (), f"{at}.schedulingGates")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        found.append(forbidden_field(f"{at}.nodeName", "cannot be set until all schedulingGates have been cleared"))
    found += _validate_requirements(spec.get("resources") or {}, f"{at}.resources")
    found += _validate_resource_list(spec.get("overhead") or {}, f"{at}.overhead")
    return found


def _validate_name(name: str, where: str, seen: set[str], found: list[Cause]) -> None:
    """Require a name that is a label and unique in its list."""
    if not name:
        found.append(required(where))
    elif not is_label(name):
        found.append(invalid_value(where, name, LABEL_RULE))
    elif name in seen:
        found.append(duplicate(where, name))
    seen.add(name)


def _validate_container(container: Object, where: str, volumes: set[str], claims: set[str]) -> list[Cause]:
    found: list[Cause] = []
    image = container.get("image", "")
    if not image:
        found.append(required(f"{where}.image"))
    elif image != image.strip():
        found.append(invalid_value(f"{where}.image", image, "must not have leading or trailing whitespace"))
    found += one_of(container, where, "imagePullPolicy", ("Always", "IfNotPresent", "Never"))
    found += one_of(container, where, "terminationMessagePolicy", ("File", "FallbackToLogsOnError"))
    for place, port in numbered(container.get("ports"), f"{where}.ports"):
        found += _validate_port(port, place)
    resources = container.get("resources") or {}
    found += _validate_requirements(resources, f"{where}.resources")
    for place, claim in numbered(resources.get("claims"), f"{where}.resources.claims"):
        if claim.get("name") not in claims:
            found.append(field_not_found(f"{place}.name", claim.get("name", "")))
    for place, mount in numbered(container.get("volumeMounts"), f"{where}.volumeMounts"):
        if not mount.get("name"):
            found.append(required(f"{place}.name"))
        elif mount["name"] not in volumes:
            found.append(field_not_found(f"{place}.name", mount["name"]))
        if not mount.get("mountPath"):
            found.append(required(f"{place}.mountPath"))
    variables = numbered(container.get("env"), f"{where}.env")
    return found + [required(f"{place}.name") for place, variable in variables if not variable.get("name")]


def _validate_port(port: Object, where: str) -> list[Cause]:
    found: list[Cause] = []
    if not port.get("containerPort"):
        found.append(required(f"{where}.containerPort"))
    for name in ("containerPort", "hostPort"):
        if port.get(name) and not 0 < port[name] < 65536:
            found.append(invalid_value(f"{where}.{name}", port[name], "must be between 1 and 65535, inclusive"))
    if port.get("protocol") not in ("TCP", "UDP", "SCTP"):
        found.append(unsupported(f"{where}.protocol", port.get("protocol"), ("SCTP", "TCP", "UDP")))
    return found


def _check_host_ports(container: Object, where: str, seen: set[str], found: list[Cause]) -> None:
    for place, port in numbered(container.get("ports"), f"{where}.ports"):
        if port.get("hostPort"):
            name = f"{port.get('protocol')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if name in seen:
                found.append(duplicate(f"{place}.hostPort", name))
            seen.add(name)


def _validate_resource_list(resources: dict[str, Any], at: str) -> list[Cause]:
    found = validate_labels(dict.fromkeys(resources, ""), at)
    if not found:
        unknown = [name for name in resources if "/" not in name and not _is_standard(name)]
        whys = ("must be a standard resource type or fully qualified", "must be a standard resource for containers")
        found += [invalid_value(f"{at}[{name}]", name, why) for name in unknown for why in whys]
    for name, value in resources.items():
        amount = quantities.parse(value)
        if amount < 0:
            found.append(invalid_value(f"{at}[{name}]", value, "must be greater than or equal to 0"))
        elif _is_integral(name) and amount.denominator != 1:
            found.append(invalid_value(f"{at}[{name}]", value, "must be an integer"))
    return found


def _is_standard(name: str) -> bool:
    return name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-")


def _is_integral(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def _validate_requirements(requirements: Object, at: str) -> list[Cause]:
    """Validate requests and limits: valid numbers, and no request above its limit."""
    requests, limits = requirements.get("requests") or {}, requirements.get("limits") or {}
    found = _validate_resource_list(limits, f"{at}.limits") + _validate_resource_list(requests, f"{at}.requests")
    for name, value in requests.items():
        if name in limits:
            wanted, limit = quantities.parse(value), quantities.parse(limits[name])
            is_exact = _is_integral(name) or name.startswith("hugepages-")
            if wanted > limit or (is_exact and wanted != limit):
                rule = "equal to" if is_exact else "less than or equal to"
                why = f"must be {rule} {name} limit of {limits[name]}"
                found.append(invalid_value(f"{at}.requests", value, why))
        elif _is_integral(name):
            found.append(required(f"{at}.limits", "Limit must be set for non overcommitable resources"))
    return found


def _validate_volumes(volumes: Any, at: str, found: list[Cause]) -> set[str]:
    names: set[str] = set()
    for where, volume in numbered(volumes, at):
        _validate_name(volume.get("name", ""), f"{where}.name", names, found)
        if len(volume) > 2:
            found.append(forbidden_field(where, "may not specify more than 1 volume type"))
        claim = volume.get("persistentVolumeClaim")
        if claim is not None and not claim.get("claimName"):
            found.append(required(f"{where}.persistentVolumeClaim.claimName"))
    return names


def _validate_claims(claims: Any, at: str, found: list[Cause]) -> set[str]:
    names: set[str] = set()
    for where, claim in numbered(claims, at):
        name = claim.get("name", "")
        if not name:
            found.append(required(f"{where}.name"))
        elif name in names:
            found.append(duplicate(f"{where}.name", name))
        names.add(name)
        sources = [claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")]
        if all(source is None for source in sources):
            why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            found.append(invalid_value(where, claim, why))
        elif None not in sources:
            why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            found.append(invalid_value(where, claim, why))
    return names


# Updates


def prepare_update(new: Object, old: Object) -> None:
    """Restore fields that the server owns and a client may omit in an update."""
    spec, before = new.setdefault("spec", {}), old.get("spec") or {}
    for name in ("priority", "preemptionPolicy", "enableServiceLinks", "nodeName"):
        if name in before:
            spec.setdefault(name, before[name])


def prepare_status(new: Object, old: Object) -> None:
    """Keep what admission decided, the owners, and the observed generations of conditions in a status write."""
    state, before = new.setdefault("status", {}), old.get("status") or {}
    if "observedGeneration" in before:
        state.setdefault("observedGeneration", before["observedGeneration"])
    seen = {c.get("type"): c["observedGeneration"] for c in before.get("conditions") or () if "observedGeneration" in c}
    for condition in state.get("conditions") or ():
        if condition.get("type") in seen:
            condition.setdefault("observedGeneration", seen[condition["type"]])
    if "qosClass" in before:
        state["qosClass"] = before["qosClass"]
    keep(new["metadata"], old["metadata"], "ownerReferences")


def prepare_resize(new: Object, old: Object) -> None:
    """Keep everything but the containers' resources in a resize."""
    spec = copy.deepcopy(old.get("spec") or {})
    for group in ("containers", "initContainers"):
        wanted = {c.get("name"): c["resources"] for c in (new.get("spec") or {}).get(group) or () if "resources" in c}
        for container in spec.get(group) or ():
            if container.get("name") in wanted:
                container["resources"] = wanted[container["name"]]
    new["metadata"].clear()
    new["metadata"].update(copy.deepcopy(old["metadata"]))
    new["spec"] = spec
    keep(new, copy.deepcopy(old), "status")


def validate_update(new: Object, old: Object) -> list[Cause]:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec == before:
        return []
    found: list[Cause] = []
    for group in ("containers", "initContainers"):
        if len(spec.get(group) or ()) != len(before.get(group) or ()):
            return [forbidden_field(f"spec.{group}", "pod updates may not add or remove containers")]
    found += _only_added_tolerations(spec.get("tolerations") or [], before.get("tolerations") or [])
    found += _only_removed_gates(spec.get("schedulingGates") or [], before.get("schedulingGates") or [])
    munged = copy.deepcopy(spec)
    for group in ("containers", "initContainers"):
        for container, known in zip(munged.get(group) or (), before.get(group) or (), strict=True):
            keep(container, known, "image")
    keep(munged, before, "tolerations", "schedulingGates", "activeDeadlineSeconds")
    found += _check_deadline(spec, before)
    if before.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        keep(munged, before, "terminationGracePeriodSeconds")
    if before.get("schedulingGates"):
        found += _gated_changes(munged, before)
    if munged != before:
        found.append(forbidden_field("spec", f"pod updates may not change fields other than {UPDATABLE}"))
    return found


def _check_deadline(spec: Object, before: Object) -> list[Cause]:
    new, old = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if new is None:
        if old is None:
            return []
        why = "must not update from a positive integer to nil value"
        return [invalid_value("spec.activeDeadlineSeconds", None, why)]
    if old is not None and old < new:
        return [invalid_value("spec.activeDeadlineSeconds", new, "must be less than or equal to previous value")]
    return []


def _only_added_tolerations(new: list[Object], old: list[Object]) -> list[Cause]:
    def bare(toleration: Object) -> Object:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [bare(toleration) for toleration in new]
    if all(bare(toleration) in kept for toleration in old):
        return []
    why = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden_field("spec.tolerations", why)]


def _only_removed_gates(new: list[Object], old: list[Object]) -> list[Cause]:
    known = {gate.get("name") for gate in old}
    why = "only deletion is allowed, but found new scheduling gate"
    return [
        forbidden_field(f"{where}.name", f"{why} '{gate.get('name')}'")
        for where, gate in numbered(new, "spec.schedulingGates")
        if gate.get("name") not in known
    ]


def _gated_changes(munged: Object, before: Object) -> list[Cause]:
    """Allow a gated pod's node selector and node affinity to become stricter."""
    found: list[Cause] = []
    wanted, known = munged.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(wanted.get(key) != value for key, value in known.items()):
        why = "only additions are allowed; no mutations or deletions"
        found.append(invalid_value("spec.nodeSelector", wanted, why))
    keep(munged, before, "nodeSelector")
    new = (munged.get("affinity") or {}).get("nodeAffinity")
    old = (before.get("affinity") or {}).get("nodeAffinity")
    if new != old:
        found += _affinity_changes(new, old)
        affinity = {key: value for key, value in (munged.get("affinity") or {}).items() if key != "nodeAffinity"}
        if old is not None:
            affinity["nodeAffinity"] = old
        if affinity or "affinity" in before:
            munged["affinity"] = affinity
        else:
            munged.pop("affinity", None)
    return found


def _affinity_changes(new: Object | None, old: Object | None) -> list[Cause]:
    must = "requiredDuringSchedulingIgnoredDuringExecution"
    at = f"spec.affinity.nodeAffinity.{must}.nodeSelectorTerms"
    known = ((old or {}).get(must) or {}).get("nodeSelectorTerms")
    if known is None:
        return []
    terms = ((new or {}).get(must) or {}).get("nodeSelectorTerms") or []
    if len(terms) != len(known):
        why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid_value(at, terms, why)]
    return [
        invalid_value(f"{at}[{i}]", term, "only additions are allowed to the term")
        for i, (term, before) in enumerate(zip(terms, known, strict=True))
        for part in ("matchExpressions", "matchFields")
        if any(item not in (term.get(part) or []) for item in before.get(part) or ())
    ]
