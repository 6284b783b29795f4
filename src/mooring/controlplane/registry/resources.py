"""Defaults, first states and validation of the kinds besides pods, as far as scheduling and kubectl depend on them."""

from __future__ import annotations

from typing import Any

from mooring.controlplane.registry.pod_defaults import default_pod_spec
from mooring.controlplane.registry.pod_validation import validate_pod_spec
from mooring.controlplane.registry.scheduling_validation import (
    validate_label_selector,
    validate_node_selector,
    validate_taints,
)
from mooring.controlplane.registry.strategy import Context, Strategy
from mooring.controlplane.storage.selectors import from_object
from mooring.controlplane.types import quantities
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import Cause, forbidden_field, invalid_value, required, unsupported

_ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")


def _immutable(new: Object, old: Object, at: str, *path: str) -> list[Cause]:
    """An error when the value at ``path`` changed."""
    value, before = new, old
    for part in path:
        value, before = (value or {}).get(part), (before or {}).get(part)  # type: ignore[assignment]
    if value == before:
        return []
    return [invalid_value(at, value, "field is immutable")]


# Namespaces


def _default_namespace(obj: Object) -> None:
    name = obj["metadata"].get("name")
    if name:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _admit_namespace(obj: Object, _: Context) -> None:
    spec = obj.setdefault("spec", {})
    finalizers = spec.setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    obj["status"] = {"phase": "Active"}


def _update_namespace(new: Object, old: Object) -> None:
    new["spec"] = old.get("spec") or {}


# Nodes


def _default_node(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    for name in ("taints", "unschedulable"):
        if name in spec and not spec[name]:
            del spec[name]
    state = obj.setdefault("status", {})
    quantities.canonicalize(state.get("capacity"))
    if state.get("capacity") and not state.get("allocatable"):
        state["allocatable"] = dict(state["capacity"])
    quantities.canonicalize(state.get("allocatable"))
    state.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    info = state.setdefault("nodeInfo", {})
    for name in _NODE_INFO:
        info.setdefault(name, "")


_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def _validate_node(obj: Object) -> list[Cause]:
    found = validate_taints((obj.get("spec") or {}).get("taints") or (), "spec.taints")
    state = obj.get("status") or {}
    for group in ("capacity", "allocatable"):
        for name, value in (state.get(group) or {}).items():
            if quantities.parse(value) < 0:
                where = f"status.{group}[{name}]"
                found.append(invalid_value(where, value, "must be greater than or equal to 0"))
    return found


def _update_node(new: Object, old: Object) -> list[Cause]:
    found = []
    for name in ("podCIDR", "providerID"):
        before, after = (old.get("spec") or {}).get(name), (new.get("spec") or {}).get(name)
        if before and before != after:
            why = f'node updates may not change {name} except from "" to valid'
            found.append(forbidden_field(f"spec.{name}", why))
    return found


# Storage


def _default_volume(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    quantities.canonicalize(spec.get("capacity"))
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")


def _admit_volume(obj: Object, context: Context) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": context.timestamp()}


def _validate_volume(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found: list[Cause] = []
    if not spec.get("accessModes"):
        found.append(required("spec.accessModes"))
    found += _validate_modes(spec)
    storage = (spec.get("capacity") or {}).get("storage")
    if storage is None:
        found.append(required("spec.capacity"))
    elif quantities.parse(storage) <= 0:
        found.append(invalid_value("spec.capacity[storage]", storage, "must be greater than zero"))
    node_affinity = (spec.get("nodeAffinity") or {}).get("required")
    if node_affinity is not None:
        found += validate_node_selector(node_affinity, "spec.nodeAffinity.required")
    known = {
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "volumeMode",
        "nodeAffinity",
        "volumeAttributesClassName",
    }
    sources = [name for name in spec if name not in known]
    if not sources:
        found.append(required("spec", "must specify a volume type"))
    elif len(sources) > 1:
        found.append(forbidden_field(f"spec.{sources[1]}", "may not specify more than 1 volume type"))
    if "local" in sources and node_affinity is None:
        found.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return found


def _validate_modes(spec: Object) -> list[Cause]:
    return [
        unsupported("spec.accessModes", mode, _ACCESS_MODES)
        for mode in spec.get("accessModes") or ()
        if mode not in _ACCESS_MODES
    ]


def _default_claim(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    quantities.canonicalize_requirements(spec.get("resources"))
    spec.setdefault("volumeMode", "Filesystem")


def _admit_claim(obj: Object, context: Context) -> None:
    obj["status"] = {"phase": "Pending"}
    spec = obj["spec"]
    if spec.get("storageClassName") is None and not spec.get("volumeName"):
        marked = [
            entry.object()
            for entry in context.store.iterate(_storage_classes())
            if b'"storageclass.kubernetes.io/is-default-class":"true"' in entry.raw
        ]
        if marked:
            newest = max(marked, key=lambda found: found["metadata"].get("creationTimestamp", ""))
            spec["storageClassName"] = newest["metadata"]["name"]


def _storage_classes() -> Any:
    from mooring.controlplane.registry.catalog import by_resource

    return by_resource("storageclasses.storage.k8s.io")


def _validate_claim(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found: list[Cause] = []
    if not spec.get("accessModes"):
        found.append(required("spec.accessModes", "at least 1 access mode is required"))
    found += _validate_modes(spec)
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        found.append(required("spec.resources[storage]"))
    elif quantities.parse(storage) <= 0:
        found.append(invalid_value("spec.resources[storage]", storage, "must be greater than zero"))
    found += validate_label_selector(spec.get("selector"), "spec.selector")
    return found


def _update_claim(new: Object, old: Object) -> list[Cause]:
    spec, before = dict(new.get("spec") or {}), dict(old.get("spec") or {})
    if not before.get("volumeName"):
        spec.pop("volumeName", None)
        before.pop("volumeName", None)
    spec.pop("resources", None)
    before.pop("resources", None)
    if before.get("storageClassName") is None:
        spec.pop("storageClassName", None)
    for name in ("volumeAttributesClassName",):
        spec.pop(name, None)
        before.pop(name, None)
    if spec == before:
        return []
    why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
    return [forbidden_field("spec", why)]


def _default_storage_class(obj: Object) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _validate_storage_class(obj: Object) -> list[Cause]:
    found = [] if obj.get("provisioner") else [required("provisioner")]
    if obj.get("volumeBindingMode") not in ("Immediate", "WaitForFirstConsumer"):
        found.append(
            unsupported("volumeBindingMode", obj.get("volumeBindingMode"), ("Immediate", "WaitForFirstConsumer"))
        )
    return found


def _update_storage_class(new: Object, old: Object) -> list[Cause]:
    return [
        cause
        for name in ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")
        for cause in _immutable(new, old, name, name)
    ]


def _default_csi_driver(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    for name, value in (
        ("attachRequired", True),
        ("podInfoOnMount", False),
        ("volumeLifecycleModes", ["Persistent"]),
        ("storageCapacity", False),
        ("fsGroupPolicy", "ReadWriteOnceWithFSType"),
        ("requiresRepublish", False),
        ("seLinuxMount", False),
    ):
        spec.setdefault(name, value)


def _default_capacity(obj: Object) -> None:
    for name in ("capacity", "maximumVolumeSize"):
        if obj.get(name) is not None:
            obj[name] = quantities.canonical(obj[name])


# Networking


def _default_network_policy(obj: Object) -> None:
    """Nothing here enforces a policy; it is served so that manifests with one can be applied."""
    spec = obj.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")


# Scheduling


def _default_priority_class(obj: Object) -> None:
    obj.setdefault("value", 0)
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _validate_priority_class(obj: Object) -> list[Cause]:
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    known = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
    if name.startswith("system-") and known.get(name) != value:
        why = "priority class names with 'system-' prefix are reserved for system use only"
        return [forbidden_field("metadata.name", why)]
    if value > 1000000000 and name not in known:
        why = "maximum allowed value of a user defined priority is 1000000000"
        return [forbidden_field("value", why)]
    if obj["preemptionPolicy"] not in ("PreemptLowerPriority", "Never"):
        return [unsupported("preemptionPolicy", obj["preemptionPolicy"], ("PreemptLowerPriority", "Never"))]
    return []


def _update_priority_class(new: Object, old: Object) -> list[Cause]:
    found = []
    if new.get("value") != old.get("value"):
        found.append(forbidden_field("value", "may not be changed in an update."))
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        found += _immutable(new, old, "preemptionPolicy", "preemptionPolicy")
    return found


def _validate_budget(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found = validate_label_selector(spec.get("selector"), "spec.selector")
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        found.append(invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for name in ("minAvailable", "maxUnavailable"):
        value = spec.get(name)
        if isinstance(value, int) and value < 0:
            found.append(invalid_value(f"spec.{name}", value, "must be greater than or equal to 0"))
        if isinstance(value, str) and not (value.endswith("%") and value[:-1].isdigit() and int(value[:-1]) <= 100):
            why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%', or '93%')"
            found.append(invalid_value(f"spec.{name}", value, why))
    return found


def _admit_budget(obj: Object, _: Context) -> None:
    obj.setdefault("spec", {})
    obj["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}


def _default_runtime_class(obj: Object) -> None:
    quantities.canonicalize((obj.get("overhead") or {}).get("podFixed"))


def _validate_runtime_class(obj: Object) -> list[Cause]:
    return [] if obj.get("handler") else [required("handler")]


def _update_runtime_class(new: Object, old: Object) -> list[Cause]:
    return _immutable(new, old, "handler", "handler")


# Dynamic resource allocation


def _default_requests(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for exact in [request.get("exactly"), *(request.get("firstAvailable") or ())]:
            if exact is None:
                continue
            mode = exact.setdefault("allocationMode", "ExactCount")
            if mode == "ExactCount":
                exact.setdefault("count", 1)
            for toleration in exact.get("tolerations") or ():
                toleration.setdefault("operator", "Equal")


def _default_resource_claim(obj: Object) -> None:
    _default_requests(obj.setdefault("spec", {}))


def _admit_resource_claim(obj: Object, _: Context) -> None:
    obj["status"] = {}


def _default_claim_template(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("metadata", {})
    _default_requests(spec.setdefault("spec", {}))


def _update_spec(new: Object, old: Object) -> list[Cause]:
    return _immutable(new, old, "spec", "spec")


def _default_slice(obj: Object) -> None:
    for device in (obj.setdefault("spec", {})).get("devices") or ():
        for capacity in (device.get("capacity") or {}).values():
            if capacity.get("value") is not None:
                capacity["value"] = quantities.canonical(capacity["value"])


def _admit_slice(obj: Object, context: Context) -> None:
    for device in obj["spec"].get("devices") or ():
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", context.timestamp())


# Workloads


def _default_template(spec: Object) -> None:
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


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
    _default_template(spec)


def _default_replica_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _default_template(spec)


def _default_replication_controller(obj: Object) -> None:
    _default_replica_set(obj)
    spec = obj["spec"]
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


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
        _default_claim(claim)
        claim.setdefault("status", {"phase": "Pending"})
    _default_template(spec)


def _default_daemon_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxSurge", 0)
        rolling.setdefault("maxUnavailable", 1)
    _default_template(spec)


def _default_job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    spec.setdefault("manualSelector", False) if spec.get("manualSelector") is not None else None
    _default_template(spec)


def _admit_job(obj: Object, _: Context) -> None:
    spec = obj["spec"]
    if spec.get("manualSelector"):
        return
    name, uid = obj["metadata"].get("name", ""), obj["metadata"]["uid"]
    labels = spec["template"]["metadata"].setdefault("labels", {})
    labels.update(
        {
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": name,
            "controller-uid": uid,
            "job-name": name,
        }
    )
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _workload_status(status: Object) -> Any:
    def admit(obj: Object, _: Context) -> None:
        obj["status"] = dict(status)

    return admit


def _validate_workload(obj: Object) -> list[Cause]:
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


def _validate_job(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    pod_spec = (spec.get("template") or {}).get("spec") or {}
    found: list[Cause] = []
    for name in ("parallelism", "completions", "backoffLimit"):
        if spec.get(name) is not None and spec[name] < 0:
            found.append(invalid_value(f"spec.{name}", spec[name], "must be greater than or equal to 0"))
    found += validate_pod_spec(pod_spec, "spec.template.spec")
    if pod_spec.get("restartPolicy") not in ("OnFailure", "Never"):
        where = "spec.template.spec.restartPolicy"
        found.append(unsupported(where, pod_spec.get("restartPolicy"), ("OnFailure", "Never")))
    return found


def _update_selector(new: Object, old: Object) -> list[Cause]:
    return _immutable(new, old, "spec.selector", "spec", "selector")


def _update_job(new: Object, old: Object) -> list[Cause]:
    found = _update_selector(new, old)
    if (new.get("spec") or {}).get("completionMode") != (old.get("spec") or {}).get("completionMode"):
        found += _immutable(new, old, "spec.completionMode", "spec", "completionMode")
    suspended = (old.get("spec") or {}).get("suspend")
    if not suspended:
        found += _immutable(new, old, "spec.template", "spec", "template")
    return found


def _keep_labels(new: Object, old: Object) -> None:
    """Status writes of workloads leave metadata alone."""
    for name in ("labels", "annotations", "ownerReferences", "finalizers"):
        if name in old["metadata"]:
            new["metadata"][name] = old["metadata"][name]
        else:
            new["metadata"].pop(name, None)


# The rest


def _default_service(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port", 0))


def _admit_service(obj: Object, _: Context) -> None:
    obj["status"] = {"loadBalancer": {}}


def _default_secret(obj: Object) -> None:
    obj.setdefault("type", "Opaque")
    plain = obj.pop("stringData", None)
    if plain:
        import base64

        data = obj.setdefault("data", {})
        data.update({key: base64.b64encode(value.encode()).decode() for key, value in plain.items()})


def _default_event(obj: Object) -> None:
    obj.setdefault("involvedObject", {})
    obj.setdefault("source", {})
    for name in ("reportingComponent", "reportingInstance"):
        obj.setdefault(name, "")


def _update_config(new: Object, old: Object) -> list[Cause]:
    if not old.get("immutable"):
        return []
    found = []
    if not new.get("immutable"):
        found.append(forbidden_field("immutable", "field is immutable when `immutable` is set"))
    for name in ("data", "binaryData"):
        if new.get(name) != old.get(name):
            found.append(forbidden_field(name, "field is immutable when `immutable` is set"))
    return found


def _validate_role_binding(obj: Object) -> list[Cause]:
    reference = obj.get("roleRef") or {}
    found = []
    if reference.get("kind") not in ("Role", "ClusterRole"):
        found.append(unsupported("roleRef.kind", reference.get("kind", ""), ("Role", "ClusterRole")))
    if not reference.get("name"):
        found.append(required("roleRef.name"))
    return found


def _default_role_binding(obj: Object) -> None:
    obj.setdefault("roleRef", {}).setdefault("apiGroup", "rbac.authorization.k8s.io")
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def _update_role_binding(new: Object, old: Object) -> list[Cause]:
    if new.get("roleRef") != old.get("roleRef"):
        return [invalid_value("roleRef", new.get("roleRef"), "cannot change roleRef")]
    return []


_BINDING = Strategy(
    default=_default_role_binding,
    validate=_validate_role_binding,
    validate_update=_update_role_binding,
    name_style="path",
)

STRATEGIES: dict[str, Strategy] = {
    "namespaces": Strategy(
        default=_default_namespace, admit=_admit_namespace, prepare_update=_update_namespace, name_style="label"
    ),
    "nodes": Strategy(
        default=_default_node, validate=_validate_node, validate_update=_update_node, keeps_status_at_create=True
    ),
    "persistentvolumes": Strategy(
        default=_default_volume, admit=_admit_volume, validate=_validate_volume, returns_deleted=True
    ),
    "persistentvolumeclaims": Strategy(
        default=_default_claim,
        admit=_admit_claim,
        validate=_validate_claim,
        validate_update=_update_claim,
        returns_deleted=True,
    ),
    "services": Strategy(default=_default_service, admit=_admit_service, name_style="label", returns_deleted=True),
    "secrets": Strategy(default=_default_secret, validate_update=_update_config),
    "configmaps": Strategy(validate_update=_update_config),
    "serviceaccounts": Strategy(returns_deleted=True),
    "events": Strategy(default=_default_event, creates_on_update=True),
    "replicationcontrollers": Strategy(
        default=_default_replication_controller,
        admit=_workload_status({"replicas": 0}),
        prepare_status=_keep_labels,
        validate=_validate_workload,
    ),
    "deployments.apps": Strategy(
        default=_default_deployment,
        admit=_workload_status({}),
        prepare_status=_keep_labels,
        validate=_validate_workload,
        validate_update=_update_selector,
    ),
    "replicasets.apps": Strategy(
        default=_default_replica_set,
        admit=_workload_status({"replicas": 0}),
        prepare_status=_keep_labels,
        validate=_validate_workload,
        validate_update=_update_selector,
    ),
    "statefulsets.apps": Strategy(
        default=_default_stateful_set,
        admit=_workload_status({"replicas": 0, "availableReplicas": 0}),
        prepare_status=_keep_labels,
        validate=_validate_workload,
        validate_update=_update_selector,
    ),
    "daemonsets.apps": Strategy(
        default=_default_daemon_set,
        admit=_workload_status(
            {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}
        ),
        prepare_status=_keep_labels,
        validate=_validate_workload,
        validate_update=_update_selector,
    ),
    "jobs.batch": Strategy(
        default=_default_job,
        admit=_admit_job,
        prepare_status=_keep_labels,
        validate=_validate_job,
        validate_update=_update_job,
    ),
    "leases.coordination.k8s.io": Strategy(allows_unconditional_update=False, creates_on_update=True),
    "networkpolicies.networking.k8s.io": Strategy(default=_default_network_policy),
    "runtimeclasses.node.k8s.io": Strategy(
        default=_default_runtime_class, validate=_validate_runtime_class, validate_update=_update_runtime_class
    ),
    "poddisruptionbudgets.policy": Strategy(
        admit=_admit_budget, validate=_validate_budget, allows_unconditional_update=False
    ),
    "clusterroles.rbac.authorization.k8s.io": Strategy(name_style="path"),
    "roles.rbac.authorization.k8s.io": Strategy(name_style="path"),
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "resourceclaims.resource.k8s.io": Strategy(
        default=_default_resource_claim,
        admit=_admit_resource_claim,
        validate_update=_update_spec,
        returns_deleted=True,
    ),
    "resourceclaimtemplates.resource.k8s.io": Strategy(default=_default_claim_template, validate_update=_update_spec),
    "resourceslices.resource.k8s.io": Strategy(default=_default_slice, admit=_admit_slice),
    "priorityclasses.scheduling.k8s.io": Strategy(
        default=_default_priority_class, validate=_validate_priority_class, validate_update=_update_priority_class
    ),
    "storageclasses.storage.k8s.io": Strategy(
        default=_default_storage_class, validate=_validate_storage_class, validate_update=_update_storage_class
    ),
    "csidrivers.storage.k8s.io": Strategy(default=_default_csi_driver),
    "csistoragecapacities.storage.k8s.io": Strategy(default=_default_capacity),
}
