"""What the kinds with a pod template share: defaults, first status, validation, columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mooring.controlplane.registry.columns import AGE, NAME, at, get, number, selector_cell, wide
from mooring.controlplane.registry.groups.pods import default_pod_spec
from mooring.controlplane.registry.groups.volumes import default_claim
from mooring.controlplane.registry.pod_validation import validate_pod_spec
from mooring.controlplane.registry.validation import immutable, validate_label_selector
from mooring.controlplane.storage.selectors import from_object
from mooring.controlplane.types import quantities
from mooring.controlplane.types.kind import Cell, Column, Context, Fields, Kind, Object, Strategy
from mooring.controlplane.types.status import Cause, invalid_value, required, unsupported

PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
ANY_PERCENT = 10**18


def default_template(spec: Object) -> None:
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def default_replicas(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    default_template(spec)


def first_status(status: Object) -> Callable[[Object, Context], None]:
    """Admission that gives a new object this status."""

    def admit(obj: Object, _: Context) -> None:
        obj["status"] = dict(status)

    return admit


def validate_workload(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found: list[Cause] = []
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if obj["kind"] == "ReplicationController":
        selector: Any = {"matchLabels": spec.get("selector") or {}}
        empty = not spec.get("selector")
    else:
        selector = spec.get("selector")
        empty = not selector
    if empty:
        found.append(required("spec.selector"))
    else:
        problems = validate_label_selector(selector, "spec.selector")
        found += problems
        parsed = from_object(selector)
        if not problems and parsed is not None and not parsed.matches(labels):
            why = "`selector` does not match template `labels`"
            found.append(invalid_value("spec.template.metadata.labels", labels, why))
    if spec.get("replicas", 0) < 0:
        found.append(invalid_value("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
    pod_spec = template.get("spec") or {}
    found += validate_pod_spec(pod_spec, "spec.template.spec")
    if pod_spec.get("restartPolicy") != "Always":
        found.append(unsupported("spec.template.spec.restartPolicy", pod_spec.get("restartPolicy"), ("Always",)))
    return found


def validate_share(value: Any, at: str, *, limit: int = 100) -> list[Cause]:
    """A number of pods, or a percentage of them: of at most ``limit`` percent."""
    if isinstance(value, str):
        percent = quantities.whole(value[:-1]) if value.endswith("%") else None
        if percent is None or percent < 0:
            return [invalid_value(at, value, PERCENT_RULE)]
        return [invalid_value(at, value, f"must not be greater than {limit}%")] if percent > limit else []
    if isinstance(value, int) and value < 0:
        return [invalid_value(at, value, "must be greater than or equal to 0")]
    return []


def is_none(value: Any) -> bool:
    """Whether a number or percentage of pods is zero."""
    return value in (0, None) or (isinstance(value, str) and not quantities.whole(value.removesuffix("%")))


def selector_is_immutable(new: Object, old: Object) -> list[Cause]:
    return immutable(new, old, "spec.selector", "spec", "selector")


def keep_metadata(new: Object, old: Object) -> None:
    """Status writes of workloads leave metadata alone."""
    for name in ("labels", "annotations", "ownerReferences", "finalizers"):
        if name in old["metadata"]:
            new["metadata"][name] = old["metadata"][name]
        else:
            new["metadata"].pop(name, None)


def template_columns(*path: str) -> tuple[Column, ...]:
    """Columns of a workload whose pod template and selector are at a path."""

    def names(name: str) -> Cell:
        def cell(obj: Object, _: float) -> str:
            containers = get(obj, *path, "template", "spec", "containers") or ()
            return ",".join(container.get(name, "") for container in containers)

        return cell

    return (
        wide("Containers", names("name")),
        wide("Images", names("image")),
        wide("Selector", selector_cell(*path, "selector")),
    )


WORKLOAD = template_columns("spec")


REPLICA_COLUMNS = (
    NAME,
    number("Desired", "spec", "replicas"),
    number("Current", "status", "replicas"),
    number("Ready", "status", "readyReplicas"),
    AGE,
    *WORKLOAD,
)


def _replica_fields(obj: Mapping[str, Any]) -> dict[str, str]:
    return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}


REPLICA_FIELDS = Fields(("status.replicas",), _replica_fields)


# --------------------------------------------------------------------------------------------------------------------
# The apps group: Deployments, ReplicaSets, StatefulSets, DaemonSets and the revisions of the latter two.


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


# --------------------------------------------------------------------------------------------------------------------
# The policy group: PodDisruptionBudgets.


def _validate_budget(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found = validate_label_selector(spec.get("selector"), "spec.selector")
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        found.append(invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for name in ("minAvailable", "maxUnavailable"):
        found += validate_share(spec.get(name), f"spec.{name}")
    return found


def _admit_budget(obj: Object, _: Context) -> None:
    obj.setdefault("spec", {})
    obj["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}


BUDGETS = Kind(
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    "policy",
    short_names=("pdb",),
    subresources=("status",),
    has_generation=True,
    strategy=Strategy(admit=_admit_budget, validate=_validate_budget, allows_unconditional_update=False),
    columns=(
        NAME,
        Column("Min Available", lambda obj, _: str(at("spec", "minAvailable", default="N/A")(obj, 0))),
        Column("Max Unavailable", lambda obj, _: str(at("spec", "maxUnavailable", default="N/A")(obj, 0))),
        number("Allowed Disruptions", "status", "disruptionsAllowed"),
        AGE,
    ),
)
