"""Pods: admission, what may change, binding, eviction, deletion."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.clock import VirtualClock
from mooring.controlplane.cluster.garbage import expire_events
from mooring.controlplane.registry.catalog import NAMESPACES, NODES, PODS, by_resource
from mooring.controlplane.registry.groups.pods import qos_class
from mooring.controlplane.registry.subresources import bind_pod, evict
from mooring.controlplane.registry.verbs import Options
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.types.status import StatusError

from ..conftest import make_node, make_pod

PRIORITIES = by_resource("priorityclasses.scheduling.k8s.io")


@pytest.fixture
def plane() -> ControlPlane:
    """Not listening: these tests need no HTTP."""
    return ControlPlane(use_tls=False, clock=VirtualClock(1_000_000))


def create(plane: ControlPlane, pod: dict[str, Any]) -> dict[str, Any]:
    return plane.api.create(PODS, "default", pod).object()


def labels_of(pod: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = pod["metadata"]["labels"]
    return found


def test_priority_comes_from_the_class(plane: ControlPlane) -> None:
    plane.api.create(PRIORITIES, "", {"metadata": {"name": "high"}, "value": 100, "preemptionPolicy": "Never"})
    spec = create(plane, make_pod(priorityClassName="high"))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (100, "Never")
    plain = create(plane, make_pod("plain"))["spec"]
    assert (plain["priority"], plain["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    plane.api.create(PRIORITIES, "", {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    usual = create(plane, make_pod("usual"))["spec"]
    assert (usual["priority"], usual["priorityClassName"]) == (7, "usual")
    with pytest.raises(StatusError, match="must not be provided in pod spec"):
        create(plane, make_pod("cheat", priority=1000))


def test_the_system_classes_exist(plane: ControlPlane) -> None:
    assert create(plane, make_pod(priorityClassName="system-node-critical"))["spec"]["priority"] == 2000001000


def test_a_runtime_class_adds_overhead_selector_and_tolerations(plane: ControlPlane) -> None:
    classes = by_resource("runtimeclasses.node.k8s.io")
    toleration = {"key": "vm", "operator": "Exists"}
    plane.api.create(
        classes,
        "",
        {
            "metadata": {"name": "vm"},
            "handler": "vm",
            "overhead": {"podFixed": {"cpu": "0.25", "memory": "64Mi"}},
            "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [toleration]},
        },
    )
    spec = create(plane, make_pod(runtimeClassName="vm"))["spec"]
    assert spec["overhead"] == {"cpu": "250m", "memory": "64Mi"}
    assert spec["nodeSelector"] == {"vm": "yes"} and spec["tolerations"] == [toleration]
    with pytest.raises(StatusError, match='RuntimeClass "none" not found'):
        create(plane, make_pod("x", runtimeClassName="none"))


def test_a_gated_pod_has_the_condition_from_the_start(plane: ControlPlane) -> None:
    (condition,) = create(plane, make_pod(schedulingGates=[{"name": "x/wait"}]))["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


def test_label_keys_are_merged_into_selectors(plane: ControlPlane) -> None:
    pod = make_pod(
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
                "matchLabelKeys": ["app", "absent"],
            }
        ],
        affinity={
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {}, "mismatchLabelKeys": ["app"]}
                ]
            }
        },
    )
    spec = create(plane, pod)["spec"]
    (constraint,) = spec["topologySpreadConstraints"]
    assert constraint["labelSelector"]["matchExpressions"] == [{"key": "app", "operator": "In", "values": ["web"]}]
    (term,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchExpressions"] == [{"key": "app", "operator": "NotIn", "values": ["web"]}]


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        pytest.param([{}], "BestEffort", id="nothing asked"),
        pytest.param([{"requests": {"cpu": "1"}}], "Burstable", id="requests only"),
        pytest.param(
            [{"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1024Mi"}}],
            "Guaranteed",
            id="equal amounts written differently",
        ),
        pytest.param(
            [{"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}, {}],
            "Burstable",
            id="one container without limits",
        ),
        pytest.param([{"requests": {"example.com/gpu": "1"}}], "BestEffort", id="extended resources do not count"),
    ],
)
def test_qos_class(resources: list[dict[str, Any]], want: str) -> None:
    assert qos_class({"containers": [{"resources": part} for part in resources]}) == want


def test_limits_become_requests_and_quantities_become_canonical(plane: ControlPlane) -> None:
    container = {"name": "c", "image": "app", "resources": {"limits": {"cpu": "1500m", "memory": "0.5Gi"}}}
    (made,) = create(plane, make_pod(containers=[container]))["spec"]["containers"]
    assert made["resources"]["requests"] == {"cpu": "1500m", "memory": "512Mi"}
    assert made["imagePullPolicy"] == "Always"


def test_pod_level_requests_default_to_what_the_containers_ask_for(plane: ControlPlane) -> None:
    containers = [
        {"name": name, "image": "i", "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}}}
        for name in ("a", "b")
    ]
    spec = create(plane, make_pod(containers=containers, resources={"limits": {"cpu": "2", "memory": "4Gi"}}))["spec"]
    assert spec["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    spec = create(plane, make_pod("bare", resources={"limits": {"cpu": "2"}}))["spec"]
    assert spec["resources"]["requests"] == {"cpu": "2"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
                ]
            },
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
            id="more requested than allowed",
        ),
        pytest.param(
            {"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]},
            'spec.containers[1].name: Duplicate value: "c"',
            id="two containers of one name",
        ),
        pytest.param({"containers": [{"name": "c"}]}, "spec.containers[0].image: Required value", id="no image"),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            "spec.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
            id="exists with a value",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
            id="no skew allowed",
        ),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
                }
            },
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: "
            "Required value: must have at least one node selector term",
            id="node affinity without terms",
        ),
        pytest.param(
            {"nodeName": "n", "schedulingGates": [{"name": "g"}]},
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
            id="gated and placed",
        ),
        pytest.param(
            {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/x"}]}]},
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
            id="a mount of nothing",
        ),
    ],
)
def test_invalid_pods_are_refused_with_the_field(plane: ControlPlane, spec: dict[str, Any], message: str) -> None:
    with pytest.raises(StatusError) as refused:
        create(plane, make_pod(**spec))
    assert refused.value.code == 422 and message in str(refused.value)


GATED = {"schedulingGates": [{"name": "a"}, {"name": "b"}], "nodeSelector": {"x": "1"}}


@pytest.mark.parametrize(
    ("start", "change", "allowed"),
    [
        pytest.param({}, {"containers": [{"name": "c", "image": "app:2"}]}, True, id="another image"),
        pytest.param({}, {"tolerations": [{"key": "a", "operator": "Exists"}]}, True, id="a toleration more"),
        pytest.param({"tolerations": [{"key": "a", "operator": "Exists"}]}, {"tolerations": []}, False, id="one less"),
        pytest.param({}, {"nodeSelector": {"a": "b"}}, False, id="a node selector"),
        pytest.param({}, {"nodeName": "node-1"}, False, id="a node, past the binding"),
        pytest.param({}, {"schedulerName": "other"}, False, id="another scheduler"),
        pytest.param(GATED, {"schedulingGates": [{"name": "b"}]}, True, id="a gate less"),
        pytest.param({}, {"schedulingGates": [{"name": "b"}]}, False, id="a gate more"),
        pytest.param(GATED, {"nodeSelector": {"x": "1", "y": "2"}}, True, id="a gated pod becomes pickier"),
        pytest.param(GATED, {"nodeSelector": {"y": "2"}}, False, id="a gated pod becomes less picky"),
        pytest.param({}, {"activeDeadlineSeconds": 5}, True, id="a deadline"),
        pytest.param({"activeDeadlineSeconds": 5}, {"activeDeadlineSeconds": 9}, False, id="a later deadline"),
    ],
)
def test_what_of_a_pod_may_change(plane: ControlPlane, start: Any, change: Any, allowed: bool) -> None:
    create(plane, make_pod(**start))

    def edit(pod: dict[str, Any]) -> None:
        for name, value in change.items():
            if name == "containers":
                pod["spec"]["containers"][0]["image"] = value[0]["image"]
            else:
                pod["spec"][name] = value

    if allowed:
        assert plane.api.modify(PODS, "default", "web", edit).object()["metadata"]["generation"] == 2
    else:
        with pytest.raises(StatusError) as refused:
            plane.api.modify(PODS, "default", "web", edit)
        assert refused.value.code == 422


def test_binding_places_once(plane: ControlPlane) -> None:
    plane.api.create(NODES, "", make_node("n1", **{"topology.kubernetes.io/zone": "z1"}))
    uid = create(plane, make_pod())["metadata"]["uid"]
    plane.api.modify(PODS, "default", "web", lambda p: p["status"].update(nominatedNodeName="n0"), subresource="status")
    with pytest.raises(StatusError) as refused:
        bind_pod(plane.api, "default", "web", "n1", {"uid": "another"})
    assert refused.value.code == 409
    pod = bind_pod(plane.api, "default", "web", "n1", {"uid": uid}).object()
    assert pod["spec"]["nodeName"] == "n1" and "nominatedNodeName" not in pod["status"]
    assert labels_of(pod)["topology.kubernetes.io/zone"] == "z1"
    assert [(c["type"], c["status"]) for c in pod["status"]["conditions"]] == [("PodScheduled", "True")]
    assert pod["metadata"]["generation"] == 1
    assert [entry.name for entry in plane.store.pods_on("n1")] == ["web"]
    with pytest.raises(StatusError, match='pod web is already assigned to node "n1"') as again:
        bind_pod(plane.api, "default", "web", "n2")
    assert again.value.code == 409


@pytest.mark.parametrize(
    ("pod", "message"),
    [pytest.param({"schedulingGates": [{"name": "g"}]}, "has non-empty .spec.schedulingGates", id="gated")],
)
def test_binding_refusals(plane: ControlPlane, pod: dict[str, Any], message: str) -> None:
    create(plane, make_pod(**pod))
    with pytest.raises(StatusError, match=message):
        bind_pod(plane.api, "default", "web", "n1")


def test_an_unbound_pod_is_deleted_immediately_and_a_bound_one_by_its_kubelet(plane: ControlPlane) -> None:
    create(plane, make_pod("loose"))
    assert plane.api.delete(PODS, "default", "loose")[1] is True
    create(plane, make_pod("held"))
    bind_pod(plane.api, "default", "held", "n1")
    entry, gone = plane.api.delete(PODS, "default", "held")
    metadata = entry.object()["metadata"]
    assert not gone and metadata["deletionGracePeriodSeconds"] == 30 and metadata["generation"] == 2
    assert metadata["deletionTimestamp"] == "1970-01-12T13:47:10Z"
    again, gone = plane.api.delete(PODS, "default", "held")
    assert not gone and again.rv == entry.rv
    shorter, _ = plane.api.delete(PODS, "default", "held", {"gracePeriodSeconds": 5})
    assert shorter.object()["metadata"]["deletionGracePeriodSeconds"] == 5
    assert plane.api.delete(PODS, "default", "held", {"gracePeriodSeconds": 0})[1] is True
    assert plane.store.get(PODS, "default", "held") is None


def test_finalizers_hold_an_object_until_they_are_gone(plane: ControlPlane) -> None:
    pod = make_pod()
    pod["metadata"]["finalizers"] = ["x/hold"]
    create(plane, pod)
    entry, gone = plane.api.delete(PODS, "default", "web")
    assert not gone and entry.object()["metadata"]["deletionTimestamp"]

    def add(pod: dict[str, Any]) -> None:
        pod["metadata"]["finalizers"] = ["x/hold", "x/more"]

    with pytest.raises(StatusError, match="no new finalizers can be added"):
        plane.api.modify(PODS, "default", "web", add)
    plane.api.modify(PODS, "default", "web", lambda p: p["metadata"].pop("finalizers"))
    assert plane.store.get(PODS, "default", "web") is None


def test_delete_preconditions(plane: ControlPlane) -> None:
    create(plane, make_pod())
    for wrong in ({"uid": "x"}, {"resourceVersion": "1"}):
        with pytest.raises(StatusError, match="Precondition failed") as refused:
            plane.api.delete(PODS, "default", "web", {"preconditions": wrong})
        assert refused.value.code == 409


def test_eviction_counts_against_the_budget(plane: ControlPlane) -> None:
    budgets = by_resource("poddisruptionbudgets.policy")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    plane.api.create(budgets, "default", {"metadata": {"name": "b"}, "spec": spec})
    create(plane, make_pod())
    bind_pod(plane.api, "default", "web", "n1")

    def run(pod: dict[str, Any]) -> None:
        pod["status"].update(phase="Running", conditions=[{"type": "Ready", "status": "True"}])

    plane.api.modify(PODS, "default", "web", run, subresource="status")

    def allow(count: int) -> None:
        state = {"observedGeneration": 1, "disruptionsAllowed": count, "currentHealthy": 1, "desiredHealthy": 1}
        plane.api.modify(budgets, "default", "b", lambda b: b.update(status=state), subresource="status")

    allow(0)
    with pytest.raises(StatusError) as refused:
        evict(plane.api, "default", "web", b"", Options())
    assert refused.value.code == 429
    assert refused.value.details["causes"][0]["reason"] == "DisruptionBudget"
    allow(1)
    evict(plane.api, "default", "web", b"", Options())
    pod = plane.api.get(PODS, "default", "web").object()
    assert pod["metadata"]["deletionTimestamp"]
    assert pod["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    assert plane.api.get(budgets, "default", "b").object()["status"]["disruptionsAllowed"] == 0


def owned(name: str, owner: dict[str, Any], block: bool = True) -> dict[str, Any]:
    pod = make_pod(name)
    pod["metadata"]["ownerReferences"] = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": block,
        }
    ]
    return pod


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        pytest.param("Background", [], id="in the background"),
        pytest.param("Foreground", [], id="in the foreground"),
        pytest.param("Orphan", ["child"], id="orphaned"),
    ],
)
def test_garbage_collection(plane: ControlPlane, policy: str, left: list[str]) -> None:
    assert plane.garbage is not None
    plane.garbage.start()
    configs = by_resource("configmaps")
    owner = plane.api.create(configs, "default", {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "o"}})
    create(plane, owned("child", owner.object()))
    plane.garbage.drain()
    assert plane.store.count(PODS) == 1
    _, gone = plane.api.delete(configs, "default", "o", {"propagationPolicy": policy})
    assert gone is (policy == "Background")
    plane.garbage.drain()
    assert plane.store.get(configs, "default", "o") is None
    assert [entry.name for entry in plane.store.iterate(PODS)] == left
    if left:
        assert "ownerReferences" not in plane.api.get(PODS, "default", "child").object()["metadata"]


def test_foreground_deletion_waits_for_a_pod_that_terminates(plane: ControlPlane) -> None:
    assert plane.garbage is not None
    plane.garbage.start()
    configs = by_resource("configmaps")
    owner = plane.api.create(configs, "default", {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "o"}})
    create(plane, owned("child", owner.object()))
    bind_pod(plane.api, "default", "child", "n1")
    plane.api.delete(configs, "default", "o", {"propagationPolicy": "Foreground"})
    plane.garbage.drain()
    assert plane.store.get(configs, "default", "o") is not None
    plane.api.delete(PODS, "default", "child", {"gracePeriodSeconds": 0})
    plane.garbage.drain()
    assert plane.store.get(configs, "default", "o") is None


def test_an_owner_that_never_was_does_not_keep_a_child(plane: ControlPlane) -> None:
    assert plane.garbage is not None
    plane.garbage.start()
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ghost", "uid": "never"}}
    create(plane, owned("child", ghost))
    plane.garbage.drain()
    assert plane.store.count(PODS) == 0


def test_a_deleted_namespace_refuses_newcomers_and_empties(plane: ControlPlane) -> None:
    assert plane.garbage is not None
    plane.garbage.start()
    plane.api.create(NAMESPACES, "", {"metadata": {"name": "team"}})
    plane.api.create(PODS, "team", make_pod())
    bind_pod(plane.api, "team", "web", "n1")
    plane.api.delete(NAMESPACES, "", "team")
    plane.garbage.drain()
    with pytest.raises(StatusError, match="because it is being terminated") as refused:
        plane.api.create(PODS, "team", make_pod("late"))
    assert refused.value.code == 403
    assert plane.store.get(NAMESPACES, "", "team") is not None
    plane.api.delete(PODS, "team", "web", {"gracePeriodSeconds": 0})
    plane.garbage.drain()
    assert plane.store.get(NAMESPACES, "", "team") is None


@pytest.mark.parametrize(
    ("resource", "obj", "message"),
    [
        pytest.param(
            "nodes",
            {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "Sometimes"}]}},
            'spec.taints[0].effect: Unsupported value: "Sometimes"',
            id="a taint without sense",
        ),
        pytest.param(
            "persistentvolumes",
            {"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}},
            "spec: Required value: must specify a volume type",
            id="a volume of nothing",
        ),
        pytest.param(
            "priorityclasses.scheduling.k8s.io",
            {"metadata": {"name": "p"}, "value": 2_000_000_000},
            "maximum allowed value of a user defined priority is 1000000000",
            id="a priority above the system's",
        ),
        pytest.param(
            "storageclasses.storage.k8s.io",
            {"metadata": {"name": "s"}},
            "provisioner: Required value",
            id="no provisioner",
        ),
        pytest.param(
            "nodes", {"metadata": {"name": "N!"}}, "a lowercase RFC 1123 subdomain must consist of", id="a bad name"
        ),
    ],
)
def test_other_kinds_are_validated_too(plane: ControlPlane, resource: str, obj: dict[str, Any], message: str) -> None:
    with pytest.raises(StatusError) as refused:
        plane.api.create(by_resource(resource), "", obj)
    assert refused.value.code == 422 and message in str(refused.value)


def test_the_system_namespaces_stay(plane: ControlPlane) -> None:
    with pytest.raises(StatusError, match='namespaces "default" is forbidden: this namespace may not be deleted'):
        plane.api.delete(NAMESPACES, "", "default")


def test_a_device_taint_remembers_when_it_came(plane: ControlPlane) -> None:
    slices = by_resource("resourceslices.resource.k8s.io")
    device = {"name": "d", "taints": [{"key": "a", "effect": "NoSchedule"}]}
    made = plane.api.create(slices, "", {"metadata": {"name": "s"}, "spec": {"devices": [device]}})
    assert made.object()["spec"]["devices"][0]["taints"][0]["timeAdded"] == "1970-01-12T13:46:40Z"


def test_events_expire(plane: ControlPlane) -> None:
    events = by_resource("events")
    for name in ("old", "renewed"):
        plane.api.create(events, "default", {"metadata": {"name": name}, "involvedObject": {"kind": "Pod"}})
    clock = plane.api.clock
    assert isinstance(clock, VirtualClock)
    clock.advance(3000)
    seen = {"count": 2, "lastObservedTime": plane.api.timestamp()}
    plane.api.modify(events, "default", "renewed", lambda event: event.update(series=seen))
    clock.advance(1000)
    assert expire_events(plane.api, 3600) == 1
    assert [entry.name for entry in plane.store.iterate(events)] == ["renewed"]
