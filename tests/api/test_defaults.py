"""What an API server would have filled in."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import to_plain
from mooring.api.core import Node, Pod
from mooring.api.errors import InputError
from mooring.api.manifests import Manifests, parse_manifests
from mooring.api.storage import CSIDriver, PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.api.workloads import PodDisruptionBudget

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web, pod-template-hash: abc}}
spec:
"""


def load(text: str) -> Manifests:
    return parse_manifests(text, "test.yaml")


def pod(spec: str, *more: str) -> Pod:
    """A pod with this spec (YAML, indented by two), and other documents beside it."""
    return next(load("\n---\n".join((POD + spec, *more))).of(Pod))


def priority_class(name: str, value: int, extra: str = "") -> str:
    return f"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: {value}\n{extra}"


def test_a_bare_pod_gets_namespace_uid_and_scheduler() -> None:
    found = pod("  containers: [{name: a}]")
    assert found.key == "default/web"
    assert found.uid
    assert found.spec.scheduler_name == "default-scheduler"
    assert found.spec.priority == 0


def test_requests_come_from_limits_where_they_are_missing() -> None:
    found = pod(
        "  containers: [{name: a, resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}}]\n"
        "  initContainers: [{name: i, resources: {limits: {cpu: 3}}}]"
    )
    assert found.spec.containers[0].resources.requests == {"cpu": 1, "memory": "1Gi"}
    assert found.spec.init_containers[0].resources.requests == {"cpu": 3}


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        pytest.param(
            "{limits: {cpu: 4, memory: 8Gi}}", {"cpu": "1500m", "memory": "8Gi"}, id="containers, then limits"
        ),
        pytest.param("{limits: {cpu: 4}, requests: {cpu: 3}}", {"cpu": 3}, id="what is said stays"),
        pytest.param("{requests: {cpu: 3}}", {"cpu": 3}, id="without limits nothing is added"),
    ],
)
def test_pod_level_requests(resources: str, want: dict[str, Any]) -> None:
    containers = "[{name: a, resources: {requests: {cpu: 1}}}, {name: b, resources: {requests: {cpu: 500m}}}]"
    found = pod(f"  resources: {resources}\n  containers: {containers}")
    assert found.spec.resources is not None
    assert found.spec.resources.requests == want


def test_the_host_network_takes_its_ports_from_the_host() -> None:
    found = pod("  hostNetwork: true\n  containers: [{name: a, ports: [{containerPort: 80}]}]")
    port = found.spec.containers[0].ports[0]
    assert (port.host_port, port.protocol) == (80, "TCP")


@pytest.mark.parametrize(
    ("spec", "classes", "want"),
    [
        pytest.param("  priorityClassName: gold", [priority_class("gold", 1000)], (1000, None), id="by its class"),
        pytest.param(
            "  containers: []",
            [priority_class("usual", 7, "globalDefault: true\npreemptionPolicy: Never")],
            (7, "Never"),
            id="by the global default, with its policy",
        ),
        pytest.param("  containers: []", [priority_class("gold", 1000)], (0, None), id="0 where no default exists"),
        pytest.param(
            "  priorityClassName: system-node-critical",
            [],
            (2_000_001_000, None),
            id="the system's classes always exist",
        ),
        pytest.param("  priority: 5", [], (5, None), id="a number that is there stays"),
    ],
)
def test_priority(spec: str, classes: list[str], want: tuple[int, str | None]) -> None:
    found = pod(spec, *classes)
    assert (found.spec.priority, found.spec.preemption_policy) == want


def test_an_unknown_priority_class_is_refused_as_the_api_server_would() -> None:
    with pytest.raises(
        InputError, match=r"test.yaml: Pod default/web: spec.priorityClassName: no PriorityClass with name"
    ):
        pod("  priorityClassName: gold")


RUNTIME = """
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata}
handler: kata
overhead: {podFixed: {cpu: 250m}}
scheduling:
  nodeSelector: {runtime: kata}
  tolerations: [{key: kata, operator: Exists}]
"""


def test_a_runtime_class_leaves_overhead_selector_and_tolerations() -> None:
    found = pod("  runtimeClassName: kata\n  nodeSelector: {disk: ssd}", RUNTIME)
    assert found.spec.overhead == {"cpu": "250m"}
    assert found.spec.node_selector == {"disk": "ssd", "runtime": "kata"}
    assert any(toleration.key == "kata" for toleration in found.spec.tolerations)


def test_a_contradiction_with_the_runtime_class_is_one_line() -> None:
    with pytest.raises(InputError, match=r"nodeSelector\[runtime\]: 'runc' contradicts 'kata'"):
        pod("  runtimeClassName: kata\n  nodeSelector: {runtime: runc}", RUNTIME)


def test_a_runtime_class_that_is_not_at_hand_says_nothing() -> None:
    assert pod("  runtimeClassName: kata").spec.overhead == {}


def test_label_keys_are_merged_into_selectors_once() -> None:
    spec = """
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [pod-template-hash, gone],
     labelSelector: {matchLabels: {app: web}}}
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: zone, mismatchLabelKeys: [app], labelSelector: {}}
"""
    found = pod(spec)
    selector = found.spec.topology_spread_constraints[0].label_selector
    assert selector is not None
    assert [(e.key, e.operator, e.values) for e in selector.match_expressions] == [("pod-template-hash", "In", ["abc"])]
    affinity = found.spec.affinity
    assert affinity is not None and affinity.pod_anti_affinity is not None
    term = affinity.pod_anti_affinity.required[0].label_selector
    assert term is not None
    assert [(e.key, e.operator, e.values) for e in term.match_expressions] == [("app", "NotIn", ["web"])]


def test_new_pods_stay_five_minutes_on_a_silent_node() -> None:
    found = pod("  containers: []")
    assert {(t.key, t.effect, t.toleration_seconds) for t in found.spec.tolerations} == {
        ("node.kubernetes.io/not-ready", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    }


def test_what_a_server_has_stored_passes_unchanged() -> None:
    stored = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: u, resourceVersion: "7"}
spec:
  schedulerName: default-scheduler
  priorityClassName: gone-since
  priority: 12
  containers: [{name: a, resources: {requests: {cpu: 100m}}}]
"""
    found = next(load(stored).of(Pod))
    again = next(load(stored).of(Pod))
    assert found.spec.tolerations == []
    assert found.spec.priority == 12
    assert to_plain(found) == to_plain(again)


def test_a_node_without_allocatable_offers_its_capacity() -> None:
    node = next(load("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {capacity: {cpu: 4}}").of(Node))
    assert node.status.allocatable == {"cpu": 4}
    assert node.labels == {}  # no hostname is invented
    assert node.key == "n1"


CLASSES = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: slow}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
"""


def claim(spec: str) -> str:
    return f"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data}}\nspec: {spec}"


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param("{}", "fast", id="a claim that says nothing gets the default class"),
        pytest.param('{storageClassName: ""}', "", id="an empty name means no class"),
        pytest.param("{storageClassName: slow}", "slow", id="a class that is named stays"),
    ],
)
def test_the_storage_class_of_a_claim(spec: str, want: str) -> None:
    found = load(CLASSES + "---\n" + claim(spec))
    data = next(found.of(PersistentVolumeClaim))
    assert data.spec.storage_class_name == want
    assert data.spec.volume_mode == "Filesystem"
    assert {c.volume_binding_mode for c in found.of(StorageClass)} == {"Immediate"}


def test_a_claim_and_a_volume_written_down_as_a_pair_are_bound() -> None:
    volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv-1}\nspec: {capacity: {storage: 1Gi}}"
    found = load(claim("{volumeName: pv-1}") + "\n---\n" + volume)
    data, pv = next(found.of(PersistentVolumeClaim)), next(found.of(PersistentVolume))
    assert data.metadata.annotations["pv.kubernetes.io/bind-completed"] == "yes"
    assert pv.spec.claim_ref is not None
    assert (pv.spec.claim_ref.namespace, pv.spec.claim_ref.name, pv.spec.claim_ref.uid) == ("default", "data", data.uid)
    assert pv.status.phase == "Bound"


def test_an_unclaimed_volume_is_available() -> None:
    pv = next(load("apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv-1}\nspec: {}").of(PersistentVolume))
    assert (pv.status.phase, pv.spec.volume_mode) == ("Available", "Filesystem")


def test_a_csi_driver_attaches_unless_it_says_otherwise() -> None:
    driver = next(load("apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: d}\nspec: {}").of(CSIDriver))
    assert driver.spec.attach_required is True


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        pytest.param("minAvailable: 2", 1, id="three run and two must"),
        pytest.param("minAvailable: 50%", 1, id="half of three is two, rounded up"),
        pytest.param("maxUnavailable: 1", 1, id="one may be missing"),
        pytest.param("maxUnavailable: 0", 0, id="none may be missing"),
        pytest.param("minAvailable: 5", 0, id="already too few"),
    ],
)
def test_a_budget_counts_its_pods(spec: str, allowed: int) -> None:
    pods = [
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p{i}, labels: {{app: db}}}}\nspec: {{nodeName: n1}}"
        for i in range(3)
    ]
    budget = (
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\n"
        f"spec: {{{spec}, selector: {{matchLabels: {{app: db}}}}}}"
    )
    found = next(load("\n---\n".join((*pods, budget))).of(PodDisruptionBudget))
    assert found.status.disruptions_allowed == allowed
