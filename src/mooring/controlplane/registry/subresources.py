"""Binding, eviction, scale, finalize: writes that are not plain updates."""

from __future__ import annotations

from mooring.api.times import format_time
from mooring.controlplane.registry.columns import get
from mooring.controlplane.registry.groups.core import NAMESPACES
from mooring.controlplane.registry.groups.pods import PODS, copy_topology_labels
from mooring.controlplane.registry.groups.workloads import BUDGETS
from mooring.controlplane.registry.validation import fill
from mooring.controlplane.registry.verbs import Api, Options
from mooring.controlplane.storage import selectors
from mooring.controlplane.storage.store import StoredEntry
from mooring.controlplane.types import patch, schema, status
from mooring.controlplane.types.kind import Kind, Object

SUCCESS_201: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def bind(api: Api, namespace: str, name: str, body: bytes, options: Options) -> Object:
    """Assign a pod to a node, once: set nodeName and PodScheduled, and remove the nomination."""
    binding, _ = schema.decode("core.v1.Binding", body, "Binding", "v1")
    target = binding.get("target") or {}
    causes = []
    if target.get("kind") not in (None, "", "Node"):
        causes.append(status.unsupported("target.kind", target.get("kind"), ("Node", "<empty>")))
    if not target.get("name"):
        causes.append(status.required("target.name"))
    if causes:
        raise status.invalid("Binding", "", (binding.get("metadata") or {}).get("name", ""), causes)
    given = (binding.get("metadata") or {}).get("name", name)
    if given != name:
        raise status.bad_request("name in URL does not match name in Binding object")
    bind_pod(api, namespace, name, target["name"], binding.get("metadata") or {}, options.dry_run)
    return SUCCESS_201


def bind_pod(
    api: Api, namespace: str, name: str, node: str, metadata: Object | None = None, dry_run: bool = False
) -> StoredEntry:
    """Bind a pod, also for callers in this process."""
    metadata = metadata or {}
    entry = api.get(PODS, namespace, name)
    pod = entry.object()

    def refuse(why: str) -> status.StatusError:
        return status.conflict("pods/binding", "", name, why)

    if metadata.get("uid") and metadata["uid"] != entry.uid:
        raise status.uid_conflict("pods/binding", "", name, metadata["uid"], entry.uid)
    spec = pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        raise refuse(f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise refuse(f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise refuse(f"pod {name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = node
    for part in ("annotations", "labels"):
        if metadata.get(part):
            pod["metadata"].setdefault(part, {}).update(metadata[part])
    copy_topology_labels(pod, node, api)
    state = pod.setdefault("status", {})
    state.pop("nominatedNodeName", None)
    _set_scheduled(state, api.timestamp())
    if dry_run:
        return StoredEntry(PODS, entry.key, entry.rv, pod)
    return api.store.update(PODS, entry, pod)


def _set_scheduled(state: Object, now: str) -> None:
    conditions = state.setdefault("conditions", [])
    for condition in conditions:
        if condition.get("type") == "PodScheduled":
            if condition.get("status") != "True":
                condition["lastTransitionTime"] = now
            condition["status"] = "True"
            for name in ("reason", "message", "observedGeneration"):
                condition.pop(name, None)
            return
    conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": now})


def evict(api: Api, namespace: str, name: str, body: bytes, options: Options) -> Object:
    """Delete a pod unless a disruption budget forbids it (429)."""
    eviction, _ = schema.decode("policy.v1.Eviction", body, "Eviction", "v1") if body.strip() else ({}, [])
    given = (eviction.get("metadata") or {}).get("name", name)
    if given != name:
        raise status.bad_request("name in URL does not match name in Eviction object")
    entry = api.get(PODS, namespace, name)
    pod = entry.object()
    delete_options = eviction.get("deleteOptions") or {}
    phase = (pod.get("status") or {}).get("phase")
    ignores_budgets = phase in ("Succeeded", "Failed", "Pending") or pod["metadata"].get("deletionTimestamp")
    if not ignores_budgets:
        allow(api, pod, options.dry_run)
    if not options.dry_run and not pod["metadata"].get("deletionTimestamp"):
        api.modify(PODS, namespace, name, lambda p: _mark_evicted(p, api.timestamp()), subresource="status")
    api.delete(PODS, namespace, name, delete_options, dry_run=options.dry_run)
    return SUCCESS_201


def _mark_evicted(pod: Object, now: str) -> None:
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [condition for condition in conditions if condition.get("type") != "DisruptionTarget"]
    conditions.append(
        {
            "type": "DisruptionTarget",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
    )


# Disruption budgets: evictions are counted in the budget's status, as upstream does


def allow(api: Api, pod: Object, dry_run: bool) -> None:
    """Use one disruption of the pod's budget, or raise 429."""
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    matching = []
    for entry in api.store.iterate(BUDGETS, metadata["namespace"]):
        selector = selectors.from_object(get(entry.object(), "spec.selector"))
        if selector is not None and selector.matches(labels):
            matching.append(entry.object())
    if not matching:
        return
    if len(matching) > 1:
        why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise status.StatusError(500, "InternalError", why)
    budget = matching[0]
    name, state = budget["metadata"]["name"], budget.get("status") or {}
    policy = get(budget, "spec.unhealthyPodEvictionPolicy") or "IfHealthyBudget"
    healthy, desired = state.get("currentHealthy", 0), state.get("desiredHealthy", 0)
    conditions = get(pod, "status.conditions") or ()
    is_ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    if not is_ready and (policy == "AlwaysAllow" or healthy >= desired > 0):
        return
    if state.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refuse(f"The disruption budget {name} is still being processed by the server.", 10)
    if state.get("disruptionsAllowed", 0) <= 0:
        raise _refuse(f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently", 0)
    if dry_run:
        return

    def take_one(current: Object) -> None:
        current["status"]["disruptionsAllowed"] -= 1
        current["status"].setdefault("disruptedPods", {})[metadata["name"]] = api.timestamp()

    api.modify(BUDGETS, metadata["namespace"], name, take_one, subresource="status")


def _refuse(message: str, retry_after_s: int) -> status.StatusError:
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    return status.too_many_requests(text, retry_after_s, {"reason": "DisruptionBudget", "message": message})


# Scale


def scale_of(obj: Object) -> Object:
    """Return the Scale of a workload."""
    metadata = obj["metadata"]
    spec, state = obj.get("spec") or {}, obj.get("status") or {}
    shown: Object = {"replicas": state.get("replicas", 0)}
    selector = selectors.text_of(spec.get("selector"))
    if selector:
        shown["selector"] = selector
    shared = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in shared if key in metadata},
        "spec": {"replicas": spec.get("replicas", 0)} if spec.get("replicas") else {},
        "status": shown,
    }


def set_scale(api: Api, kind: Kind, namespace: str, name: str, scale: Object, options: Options) -> Object:
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        causes = [status.invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")]
        raise status.invalid("Scale", "autoscaling", name, causes)
    entry = api.get(kind, namespace, name)
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version and version != str(entry.rv):
        raise status.conflict(kind.plural, kind.group, name)

    def change(obj: Object) -> None:
        obj.setdefault("spec", {})["replicas"] = replicas

    return scale_of(api.modify(kind, namespace, name, change, options).object())


def patch_scale(
    api: Api, kind: Kind, namespace: str, name: str, content_type: str, body: bytes, options: Options
) -> Object:
    current = scale_of(api.get(kind, namespace, name).object())
    if content_type == patch.APPLY:
        changed = patch.merge_patch(current, patch._decode(patch.yaml_to_json(body)))
    else:
        changed = patch.patched(content_type, "autoscaling.v1.Scale", current, body)
    schema.normalize("autoscaling.v1.Scale", changed, "Scale", "v1")
    return set_scale(api, kind, namespace, name, changed, options)


# Namespaces


def finalize(api: Api, name: str, obj: Object, options: Options) -> StoredEntry:
    """Replace a namespace's finalizers; one that is being deleted and has none left is removed."""
    entry = api.get(NAMESPACES, "", name)
    old = entry.object()
    version = obj.get("metadata", {}).get("resourceVersion")
    if version and version != str(entry.rv):
        raise status.conflict("namespaces", "", name)
    new = entry.object()
    finalizers = (obj.get("spec") or {}).get("finalizers")
    new["spec"] = {"finalizers": finalizers} if finalizers else {}
    return api.write(NAMESPACES, entry, old, new, options.dry_run)


def request_token(api: Api, namespace: str, name: str, body: bytes, token: str) -> Object:
    """Return a TokenRequest for a service account: an opaque token that is nominally valid for an hour."""
    request, _ = schema.decode("authentication.v1.TokenRequest", body, "TokenRequest", "v1")
    fill(request, kind="TokenRequest", apiVersion="authentication.k8s.io/v1")
    expires_s = request.setdefault("spec", {}).setdefault("expirationSeconds", 3600)
    ends = format_time(api.clock.now() + min(max(expires_s, 600), 2**31))
    request["status"] = {"token": token, "expirationTimestamp": ends}
    return request
