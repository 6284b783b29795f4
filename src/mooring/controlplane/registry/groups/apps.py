"""The apps group: Deployments, ReplicaSets, StatefulSets, DaemonSets and the revisions of the latter two."""

from __future__ import annotations

from mooring.controlplane.registry.columns import AGE, NAME, at, get, number, selector_cell
from mooring.controlplane.registry.groups.volumes import default_claim
from mooring.controlplane.registry.workloads import (
    ANY_PERCENT,
    REPLICA_COLUMNS,
    REPLICA_FIELDS,
    WORKLOAD,
    default_replicas,
    default_template,
    first_status,
    is_none,
    keep_metadata,
    selector_is_immutable,
    validate_share,
    validate_workload,
)
from mooring.controlplane.types.kind import Cell, Column, Kind, Strategy
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import Cause, invalid_value, required


def _ready(ready: str, wanted: str = "replicas") -> Cell:
    def cell(obj: Object, _: float) -> str:
        return f"{get(obj, 'status', ready) or 0}/{get(obj, 'spec', wanted) or 0}"

    return cell


def _controller(obj: Object) -> str:
    for reference in get(obj, "metadata", "ownerReferences") or ():
        if reference.get("controller"):
            return f"{reference.get('kind', '').lower()}.apps/{reference.get('name', '')}"
    return "<none>"


def _default_deployment(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    default_template(spec)


def _default_stateful_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("serviceName", "")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("apiVersion", "v1")
        default_claim(claim)
        claim.setdefault("status", {"phase": "Pending"})
    default_template(spec)


def _default_daemon_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxSurge", 0)
        rolling.setdefault("maxUnavailable", 1)
    default_template(spec)


def _rolling(obj: Object, name: str) -> Object | None:
    strategy = (obj.get("spec") or {}).get(name) or {}
    return (strategy.get("rollingUpdate") or {}) if strategy.get("type") == "RollingUpdate" else None


def _validate_deployment(obj: Object) -> list[Cause]:
    found = validate_workload(obj)
    rolling = _rolling(obj, "strategy")
    if rolling is not None:
        at = "spec.strategy.rollingUpdate"
        down, more = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        found += validate_share(down, f"{at}.maxUnavailable") + validate_share(
            more, f"{at}.maxSurge", limit=ANY_PERCENT
        )
        if is_none(down) and is_none(more):
            found.append(invalid_value(f"{at}.maxUnavailable", down, "may not be 0 when `maxSurge` is 0"))
    return found


def _validate_daemon_set(obj: Object) -> list[Cause]:
    found = validate_workload(obj)
    rolling = _rolling(obj, "updateStrategy")
    if rolling is not None:
        at = "spec.updateStrategy.rollingUpdate"
        down, more = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        found += validate_share(down, f"{at}.maxUnavailable") + validate_share(more, f"{at}.maxSurge")
        if is_none(down) and is_none(more):
            found.append(required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
        elif not is_none(down) and not is_none(more):
            found.append(invalid_value(f"{at}.maxSurge", more, "may not be set when maxUnavailable is non-zero"))
    return found


def _with_claims(obj: Object) -> Object:
    """A StatefulSet whose template has the volumes that its controller will add: containers may mount them."""
    spec = obj.get("spec") or {}
    named = [(claim.get("metadata") or {}).get("name") for claim in spec.get("volumeClaimTemplates") or ()]
    template = spec.get("template") or {}
    if not named or not isinstance(template.get("spec"), dict):
        return obj
    volumes: list[Object] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in named if name]
    volumes += [each for each in template["spec"].get("volumes") or () if each.get("name") not in named]
    return {**obj, "spec": {**spec, "template": {**template, "spec": {**template["spec"], "volumes": volumes}}}}


def _validate_stateful_set(obj: Object) -> list[Cause]:
    found = validate_workload(_with_claims(obj))
    rolling = _rolling(obj, "updateStrategy")
    if rolling is not None and rolling.get("partition", 0) < 0:
        at = "spec.updateStrategy.rollingUpdate.partition"
        found.append(invalid_value(at, rolling["partition"], "must be greater than or equal to 0"))
    return found


CONTROLLER_REVISIONS = Kind(
    "ControllerRevision",
    "controllerrevisions",
    "apps",
    columns=(
        NAME,
        Column("Controller", lambda obj, _: _controller(obj)),
        Column("Revision", at("revision", default=0)),
        AGE,
    ),
)


DAEMON_SETS = Kind(
    "DaemonSet",
    "daemonsets",
    "apps",
    short_names=("ds",),
    subresources=("status",),
    categories=("all",),
    has_generation=True,
    strategy=Strategy(
        default=_default_daemon_set,
        admit=first_status(
            {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}
        ),
        prepare_status=keep_metadata,
        validate=_validate_daemon_set,
        validate_update=selector_is_immutable,
    ),
    columns=(
        NAME,
        number("Desired", "status", "desiredNumberScheduled"),
        number("Current", "status", "currentNumberScheduled"),
        number("Ready", "status", "numberReady"),
        number("Up-to-date", "status", "updatedNumberScheduled"),
        number("Available", "status", "numberAvailable"),
        Column("Node Selector", selector_cell("spec", "template", "spec", "nodeSelector")),
        AGE,
        *WORKLOAD,
    ),
)


DEPLOYMENTS = Kind(
    "Deployment",
    "deployments",
    "apps",
    short_names=("deploy",),
    subresources=("scale", "status"),
    categories=("all",),
    has_generation=True,
    strategy=Strategy(
        default=_default_deployment,
        admit=first_status({}),
        prepare_status=keep_metadata,
        validate=_validate_deployment,
        validate_update=selector_is_immutable,
    ),
    columns=(
        NAME,
        Column("Ready", _ready("readyReplicas")),
        Column("Up-to-date", at("status", "updatedReplicas", default=0)),
        Column("Available", at("status", "availableReplicas", default=0)),
        AGE,
        *WORKLOAD,
    ),
)


REPLICA_SETS = Kind(
    "ReplicaSet",
    "replicasets",
    "apps",
    short_names=("rs",),
    subresources=("scale", "status"),
    categories=("all",),
    has_generation=True,
    fields=REPLICA_FIELDS,
    strategy=Strategy(
        default=default_replicas,
        admit=first_status({"replicas": 0}),
        prepare_status=keep_metadata,
        validate=validate_workload,
        validate_update=selector_is_immutable,
    ),
    columns=REPLICA_COLUMNS,
)


STATEFUL_SETS = Kind(
    "StatefulSet",
    "statefulsets",
    "apps",
    short_names=("sts",),
    subresources=("scale", "status"),
    categories=("all",),
    has_generation=True,
    strategy=Strategy(
        default=_default_stateful_set,
        admit=first_status({"replicas": 0, "availableReplicas": 0}),
        prepare_status=keep_metadata,
        validate=_validate_stateful_set,
        validate_update=selector_is_immutable,
    ),
    columns=(NAME, Column("Ready", _ready("readyReplicas")), AGE, *WORKLOAD[:2]),
)
