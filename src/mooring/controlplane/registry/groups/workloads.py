"""Kinds with a pod template (the apps group and ReplicationControllers), and PodDisruptionBudgets."""

from __future__ import annotations

from typing import Any

from mooring.controlplane.registry.columns import columns, get, number, selector_cell, wide
from mooring.controlplane.registry.groups.pods import default_pod_spec
from mooring.controlplane.registry.groups.volumes import default_claim
from mooring.controlplane.registry.pod_validation import validate_pod_spec
from mooring.controlplane.registry.validation import (
    fill,
    first_status,
    immutable,
    keep,
    not_negative,
    validate_label_selector,
)
from mooring.controlplane.storage.selectors import from_object
from mooring.controlplane.types import quantities
from mooring.controlplane.types.kind import Cell, Column, Context, Fields, Kind, Object
from mooring.controlplane.types.status import Cause, invalid_value, required, unsupported

# Shared by kinds with a pod template

_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_ANY_PERCENT = 10**18


def default_template(spec: Object) -> None:
    template = fill(spec.setdefault("template", {}), metadata={})
    default_pod_spec(template.setdefault("spec", {}))


def _default_replicas(obj: Object) -> None:
    default_template(fill(obj.setdefault("spec", {}), replicas=1))


def _validate_workload(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found: list[Cause] = []
    template, selector = spec.get("template") or {}, spec.get("selector")
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not selector:
        found.append(required("spec.selector"))
    else:
        if obj["kind"] == "ReplicationController":
            selector = {"matchLabels": selector}
        problems = validate_label_selector(selector, "spec.selector")
        found += problems
        parsed = from_object(selector)
        if not problems and parsed is not None and not parsed.matches(labels):
            why = "`selector` does not match template `labels`"
            found.append(invalid_value("spec.template.metadata.labels", labels, why))
    found += not_negative(spec, "spec", "replicas")
    pod_spec = template.get("spec") or {}
    found += validate_pod_spec(pod_spec, "spec.template.spec")
    if pod_spec.get("restartPolicy") != "Always":
        found.append(unsupported("spec.template.spec.restartPolicy", pod_spec.get("restartPolicy"), ("Always",)))
    return found


def _validate_share(value: Any, at: str, *, limit: int = 100) -> list[Cause]:
    """Validate a number of pods, or a percentage of them: of at most ``limit`` percent."""
    if isinstance(value, str):
        percent = quantities.whole(value[:-1]) if value.endswith("%") else None
        if percent is None or percent < 0:
            return [invalid_value(at, value, _PERCENT_RULE)]
        return [invalid_value(at, value, f"must not be greater than {limit}%")] if percent > limit else []
    if isinstance(value, int) and value < 0:
        return [invalid_value(at, value, "must be greater than or equal to 0")]
    return []


def _is_none(value: Any) -> bool:
    """Report whether a number or percentage of pods is zero."""
    return value in (0, None) or (isinstance(value, str) and not quantities.whole(value.removesuffix("%")))


def selector_is_immutable(new: Object, old: Object) -> list[Cause]:
    return immutable(new, old, "spec.selector")


def keep_metadata(new: Object, old: Object) -> None:
    """Keep the metadata: status writes of workloads do not change it."""
    keep(new["metadata"], old["metadata"], "labels", "annotations", "ownerReferences", "finalizers")


def template_columns(path: str) -> tuple[Column, ...]:
    """Return wide columns of a workload whose pod template and selector are at a path."""

    def names(name: str) -> Cell:
        def cell(obj: Object, _: float) -> str:
            containers = get(obj, f"{path}.template.spec.containers") or ()
            return ",".join(container.get(name, "") for container in containers)

        return cell

    selector = wide("Selector", selector_cell(f"{path}.selector"))
    return (wide("Containers", names("name")), wide("Images", names("image")), selector)


TEMPLATE_COLUMNS = template_columns("spec")
_REPLICA_COLUMNS = columns(
    "Name",
    number("Desired", "spec.replicas"),
    number("Current", "status.replicas"),
    number("Ready", "status.readyReplicas"),
    "Age",
    *TEMPLATE_COLUMNS,
)
_REPLICA_FIELDS = Fields(
    ("status.replicas",), lambda obj: {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}
)
_READY = Column("Ready", lambda obj, _: f"{get(obj, 'status.readyReplicas') or 0}/{get(obj, 'spec.replicas') or 0}")


def _workload(kind: str, short_name: str, *, status: Object, group: str = "apps", **given: Any) -> Kind:
    """Return a kind with a pod template."""
    return Kind(
        kind,
        group,
        short_names=(short_name,),
        categories=("all",),
        has_generation=True,
        admit=first_status(status),
        prepare_status=keep_metadata,
        **given,
    )


# ReplicaSets and ReplicationControllers


def _default_replication_controller(obj: Object) -> None:
    _default_replicas(obj)
    spec = obj["spec"]
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


REPLICA_SETS = _workload(
    "ReplicaSet",
    "rs",
    status={"replicas": 0},
    subresources=("scale", "status"),
    fields=_REPLICA_FIELDS,
    default=_default_replicas,
    validate=_validate_workload,
    validate_update=selector_is_immutable,
    columns=_REPLICA_COLUMNS,
)

REPLICATION_CONTROLLERS = _workload(
    "ReplicationController",
    "rc",
    group="",
    status={"replicas": 0},
    subresources=("scale", "status"),
    fields=_REPLICA_FIELDS,
    default=_default_replication_controller,
    validate=_validate_workload,
    columns=_REPLICA_COLUMNS,
)


# Deployments, DaemonSets, StatefulSets: these are updated in steps


def _default_rolling(spec: Object, name: str, **values: Any) -> None:
    strategy = spec.setdefault(name, {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), **values)


def _rolling(obj: Object, name: str) -> Object | None:
    strategy = (obj.get("spec") or {}).get(name) or {}
    return (strategy.get("rollingUpdate") or {}) if strategy.get("type") == "RollingUpdate" else None


def _default_deployment(obj: Object) -> None:
    spec = fill(obj.setdefault("spec", {}), replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    _default_rolling(spec, "strategy", maxUnavailable="25%", maxSurge="25%")
    default_template(spec)


def _validate_deployment(obj: Object) -> list[Cause]:
    found = _validate_workload(obj)
    rolling = _rolling(obj, "strategy")
    if rolling is not None:
        at = "spec.strategy.rollingUpdate"
        down, more = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        found += _validate_share(down, f"{at}.maxUnavailable")
        found += _validate_share(more, f"{at}.maxSurge", limit=_ANY_PERCENT)
        if _is_none(down) and _is_none(more):
            found.append(invalid_value(f"{at}.maxUnavailable", down, "may not be 0 when `maxSurge` is 0"))
    return found


DEPLOYMENTS = _workload(
    "Deployment",
    "deploy",
    status={},
    subresources=("scale", "status"),
    default=_default_deployment,
    validate=_validate_deployment,
    validate_update=selector_is_immutable,
    columns=columns(
        "Name",
        _READY,
        Column("Up-to-date", lambda obj, _: get(obj, "status.updatedReplicas") or 0),
        Column("Available", lambda obj, _: get(obj, "status.availableReplicas") or 0),
        "Age",
        *TEMPLATE_COLUMNS,
    ),
)


def _default_daemon_set(obj: Object) -> None:
    spec = fill(obj.setdefault("spec", {}), revisionHistoryLimit=10)
    _default_rolling(spec, "updateStrategy", maxSurge=0, maxUnavailable=1)
    default_template(spec)


def _validate_daemon_set(obj: Object) -> list[Cause]:
    found = _validate_workload(obj)
    rolling = _rolling(obj, "updateStrategy")
    if rolling is not None:
        at = "spec.updateStrategy.rollingUpdate"
        down, more = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        found += _validate_share(down, f"{at}.maxUnavailable") + _validate_share(more, f"{at}.maxSurge")
        if _is_none(down) and _is_none(more):
            found.append(required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
        elif not _is_none(down) and not _is_none(more):
            found.append(invalid_value(f"{at}.maxSurge", more, "may not be set when maxUnavailable is non-zero"))
    return found


DAEMON_SETS = _workload(
    "DaemonSet",
    "ds",
    status={"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0},
    subresources=("status",),
    default=_default_daemon_set,
    validate=_validate_daemon_set,
    validate_update=selector_is_immutable,
    columns=columns(
        "Name",
        number("Desired", "status.desiredNumberScheduled"),
        number("Current", "status.currentNumberScheduled"),
        number("Ready", "status.numberReady"),
        number("Up-to-date", "status.updatedNumberScheduled"),
        number("Available", "status.numberAvailable"),
        Column("Node Selector", selector_cell("spec.template.spec.nodeSelector")),
        "Age",
        *TEMPLATE_COLUMNS,
    ),
)


def _default_stateful_set(obj: Object) -> None:
    spec = fill(obj.setdefault("spec", {}), replicas=1, serviceName="", revisionHistoryLimit=10)
    fill(spec, podManagementPolicy="OrderedReady")
    _default_rolling(spec, "updateStrategy", partition=0)
    fill(spec, persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"})
    for claim in spec.get("volumeClaimTemplates") or ():
        fill(claim, kind="PersistentVolumeClaim", apiVersion="v1")
        default_claim(claim)
        fill(claim, status={"phase": "Pending"})
    default_template(spec)


def _with_claims(obj: Object) -> Object:
    """Return a StatefulSet whose template has the volumes that its controller will add: containers may mount them."""
    spec = obj.get("spec") or {}
    named = [(claim.get("metadata") or {}).get("name") for claim in spec.get("volumeClaimTemplates") or ()]
    template = spec.get("template") or {}
    if not named or not isinstance(template.get("spec"), dict):
        return obj
    volumes: list[Object] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in named if name]
    volumes += [each for each in template["spec"].get("volumes") or () if each.get("name") not in named]
    return {**obj, "spec": {**spec, "template": {**template, "spec": {**template["spec"], "volumes": volumes}}}}


def _validate_stateful_set(obj: Object) -> list[Cause]:
    found = _validate_workload(_with_claims(obj))
    return found + not_negative(_rolling(obj, "updateStrategy") or {}, "spec.updateStrategy.rollingUpdate", "partition")


STATEFUL_SETS = _workload(
    "StatefulSet",
    "sts",
    status={"replicas": 0, "availableReplicas": 0},
    subresources=("scale", "status"),
    default=_default_stateful_set,
    validate=_validate_stateful_set,
    validate_update=selector_is_immutable,
    columns=columns("Name", _READY, "Age", *TEMPLATE_COLUMNS[:2]),
)


def _controller(obj: Object, _: float) -> str:
    for reference in get(obj, "metadata.ownerReferences") or ():
        if reference.get("controller"):
            return f"{reference.get('kind', '').lower()}.apps/{reference.get('name', '')}"
    return "<none>"


CONTROLLER_REVISIONS = Kind(
    "ControllerRevision",
    "apps",
    columns=columns(
        "Name", Column("Controller", _controller), Column("Revision", lambda obj, _: obj.get("revision") or 0), "Age"
    ),
)


# PodDisruptionBudgets


def _admit_budget(obj: Object, _: Context) -> None:
    obj.setdefault("spec", {})
    obj["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}


def _validate_budget(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found = validate_label_selector(spec.get("selector"), "spec.selector")
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        found.append(invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for name in ("minAvailable", "maxUnavailable"):
        found += _validate_share(spec.get(name), f"spec.{name}")
    return found


def _share(name: str) -> Cell:
    def cell(obj: Object, _: float) -> str:
        value = get(obj, f"spec.{name}")
        return "N/A" if value in (None, "") else str(value)

    return cell


BUDGETS = Kind(
    "PodDisruptionBudget",
    "policy",
    short_names=("pdb",),
    subresources=("status",),
    has_generation=True,
    admit=_admit_budget,
    validate=_validate_budget,
    allows_unconditional_update=False,
    columns=columns(
        "Name",
        Column("Min Available", _share("minAvailable")),
        Column("Max Unavailable", _share("maxUnavailable")),
        number("Allowed Disruptions", "status.disruptionsAllowed"),
        "Age",
    ),
)
