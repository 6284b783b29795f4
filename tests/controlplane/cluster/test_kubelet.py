"""Fake kubelets: pods start, run, end and vanish; nodes register and renew their leases."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controlplane.cluster.kubelet import KUBELET, KubeletOptions, Kubelets, _seconds_of
from mooring.controlplane.registry.catalog import NODES, PODS, by_resource
from mooring.controlplane.types.status import StatusError

from .controllers.conftest import Lab


@pytest.fixture
def lab() -> Lab:
    return Lab()


def _phase(lab: Lab, name: str = "p") -> str:
    found = lab.get("pods", name)
    return "" if found is None else found["status"]["phase"]


@pytest.mark.parametrize(("text", "want"), [
    pytest.param("90", 90.0, id="a bare number is seconds"),
    pytest.param("1m30s", 90.0, id="minutes and seconds"),
    pytest.param("2h", 7200.0, id="hours"),
    pytest.param("0.5s", 0.5, id="half a second"),
    pytest.param("", None, id="nothing"),
    pytest.param("soon", None, id="a word"),
    pytest.param("-1s", None, id="before now"),
])  # fmt: skip
def test_durations_in_annotations(text: str, want: float | None) -> None:
    assert _seconds_of(text) == want


def test_a_node_registers_with_what_a_kubelet_reports(lab: Lab) -> None:
    lab.nodes(1)
    node = lab.must("nodes", "node1")
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node1"
    assert node["status"]["allocatable"]["pods"] == "110"
    assert {c["type"]: c["status"] for c in node["status"]["conditions"]} == {"Ready": "True"}
    assert lab.get("leases.coordination.k8s.io", "node1", "kube-node-lease") is not None


def test_what_a_manifest_says_of_a_node_stays(lab: Lab) -> None:
    status = {
        "capacity": {"cpu": "1", "memory": "1Gi", "pods": "3"},
        "conditions": [{"type": "Ready", "status": "False"}],
    }
    lab.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status})
    node = lab.must("nodes", "n")
    assert node["status"]["capacity"] == {"cpu": "1", "memory": "1Gi", "pods": "3"}
    assert [c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"] == ["False"]


@pytest.mark.parametrize("mode", ["", "not-ready", "stopped"])
@pytest.mark.parametrize(
    "status",
    [{}, {"capacity": {"cpu": "1", "pods": "3"}, "conditions": [{"type": "Ready", "status": "False"}]}],
    ids=["says nothing", "says much"],
)
def test_a_node_that_its_kubelet_creates_is_the_one_that_it_would_make_of_it(
    lab: Lab, mode: str, status: dict[str, Any]
) -> None:
    def made() -> tuple[dict[str, Any], dict[str, Any]]:
        metadata = {"name": "n", "annotations": {KUBELET: mode} if mode else {}}
        first = lab.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {**status}})
        last = lab.must("nodes", "n")
        lab.delete("nodes", "n")
        for each in (first, last):
            del each["metadata"]["uid"], each["metadata"]["resourceVersion"]
        return first, last

    _, in_the_end = made()
    lab.api.completes[NODES] = lab.kubelets.complete
    first, last = made()
    assert last == in_the_end
    assert (first["metadata"], first["status"]) == (last["metadata"], last["status"])  # taints come later


def test_a_kubelet_heeds_a_change_after_its_node_was_to_be_created_twice(lab: Lab) -> None:
    lab.api.completes[NODES] = lab.kubelets.complete
    lab.nodes(1)
    with pytest.raises(StatusError, match="already exists"):
        lab.nodes(1)
    lab.change("nodes", "node1", lambda n: n["metadata"].setdefault("annotations", {}).update({KUBELET: "not-ready"}))
    conditions = lab.must("nodes", "node1")["status"]["conditions"]
    assert [each["status"] for each in conditions if each["type"] == "Ready"] == ["False"]


def test_leases_are_renewed_until_the_kubelet_stops(lab: Lab) -> None:
    lab.nodes(2)

    def renewed() -> str:
        lease = lab.get("leases.coordination.k8s.io", "node1", "kube-node-lease")
        assert lease is not None
        return str(lease["spec"]["renewTime"])

    before = renewed()
    lab.advance(11)
    assert renewed() > before
    lab.change("nodes", "node1", lambda n: n["metadata"].setdefault("annotations", {}).update({KUBELET: "stopped"}))
    before = renewed()
    lab.advance(30, step=5)
    assert renewed() == before


@pytest.mark.parametrize(("annotations", "delay_s"), [
    pytest.param({}, 0, id="immediately"),
    pytest.param({"mooring/start-after": "5s"}, 5, id="after a while"),
])  # fmt: skip
def test_a_bound_pod_runs_and_is_ready(lab: Lab, annotations: dict[str, str], delay_s: int) -> None:
    lab.nodes(1)
    lab.create(lab.pod("p", annotations=annotations))
    if delay_s:
        assert _phase(lab) == "Pending"
        lab.advance(delay_s)
    pod = lab.must("pods", "p")
    assert pod["status"]["phase"] == "Running" and pod["status"]["podIP"]
    assert {c["type"]: c["status"] for c in pod["status"]["conditions"]}["Ready"] == "True"
    assert pod["status"]["containerStatuses"][0]["ready"] is True


@pytest.mark.parametrize(("code", "phase"), [
    pytest.param("0", "Succeeded", id="well"),
    pytest.param("2", "Failed", id="badly"),
])  # fmt: skip
def test_a_pod_ends_by_itself(lab: Lab, code: str, phase: str) -> None:
    lab.nodes(1)
    annotations = {"mooring/completes-after": "30s", "mooring/exit-code": code}
    lab.create(lab.pod("p", annotations=annotations, restartPolicy="Never"))
    lab.advance(29)
    assert _phase(lab) == "Running"
    lab.advance(2)
    assert _phase(lab) == phase
    terminated = lab.must("pods", "p")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert terminated["exitCode"] == int(code)


def test_failed_containers_are_started_again_after_longer_and_longer_waits(lab: Lab) -> None:
    lab.nodes(1)
    annotations = {"mooring/completes-after": "5s", "mooring/exit-code": "1"}
    lab.create(lab.pod("p", annotations=annotations, restartPolicy="OnFailure"))
    ends: list[float] = []
    starts: list[float] = []
    restarts = 0
    for second in range(1, 1700):
        lab.advance(1)
        pod = lab.must("pods", "p")
        assert pod["status"]["phase"] == "Running", "a pod that is started again has not ended"
        (container,) = pod["status"]["containerStatuses"]
        if "waiting" in container["state"] and len(ends) == len(starts):
            ends.append(second)
            assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
            assert container["lastState"]["terminated"]["exitCode"] == 1 and not container["ready"]
        if container["restartCount"] > restarts and restarts + 1 == container["restartCount"]:
            restarts += 1
            starts += [second] if ends else []
    waits = [start - end for end, start in zip(ends, starts, strict=False)]
    assert waits[:7] == pytest.approx([10, 20, 40, 80, 160, 300, 300], abs=1), "the first restart is immediate"
    assert restarts == len(waits) + 1


def test_a_container_that_ran_for_long_is_restarted_immediately(lab: Lab) -> None:
    lab.nodes(1)
    annotations = {"mooring/completes-after": "11m", "mooring/exit-code": "1"}
    lab.create(lab.pod("p", annotations=annotations, restartPolicy="OnFailure"))
    lab.advance(3 * 660 + 10, step=10)
    (container,) = lab.must("pods", "p")["status"]["containerStatuses"]
    assert container["restartCount"] == 3 and "running" in container["state"]


@pytest.mark.parametrize(("codes", "phase", "restarts"), [
    pytest.param("1 1 0", "Succeeded", 2, id="the third time it succeeds"),
    pytest.param("0", "Succeeded", 0, id="success is not started again"),
    pytest.param("1", "Running", 3, id="the last one is repeated"),
])  # fmt: skip
def test_each_run_may_end_otherwise(lab: Lab, codes: str, phase: str, restarts: int) -> None:
    lab.nodes(1)
    annotations = {"mooring/completes-after": "5s", "mooring/exit-code": codes}
    lab.create(lab.pod("p", annotations=annotations, restartPolicy="OnFailure"))
    lab.advance(55)
    assert _phase(lab) == phase
    assert lab.must("pods", "p")["status"]["containerStatuses"][0]["restartCount"] == restarts


def test_a_pod_that_waits_to_be_started_again_can_be_deleted(lab: Lab) -> None:
    lab.nodes(1)
    annotations = {"mooring/completes-after": "5s", "mooring/exit-code": "1"}
    lab.create(lab.pod("p", annotations=annotations, restartPolicy="OnFailure"))
    lab.advance(12)
    lab.delete("pods", "p", gracePeriodSeconds=0)
    lab.advance(30)
    assert lab.get("pods", "p") is None


@pytest.mark.parametrize(("annotations", "options", "seconds"), [
    pytest.param({}, {}, 8, id="after its own grace period"),
    pytest.param({}, {"gracePeriodSeconds": 3}, 3, id="after the grace period it is given"),
    pytest.param({"mooring/terminates-after": "2s"}, {}, 2, id="earlier if it needs less"),
])  # fmt: skip
def test_a_deleted_pod_vanishes(lab: Lab, annotations: dict[str, str], options: Any, seconds: int) -> None:
    lab.nodes(1)
    lab.create(lab.pod("p", annotations=annotations, terminationGracePeriodSeconds=8))
    lab.delete("pods", "p", **options)
    lab.advance(seconds - 0.5, step=0.5)
    assert lab.get("pods", "p") is not None
    lab.advance(1)
    assert lab.get("pods", "p") is None


@pytest.mark.parametrize(("annotations", "seconds"), [
    pytest.param({}, 0, id="immediately"),
    pytest.param({"mooring/terminates-after": "2s"}, 2, id="an annotation says otherwise"),
])  # fmt: skip
def test_kubelets_can_skip_grace_periods(lab: Lab, annotations: dict[str, str], seconds: int) -> None:
    lab.kubelets.options = KubeletOptions(terminates_after_s=0.0)
    lab.nodes(1)
    lab.create(lab.pod("p", annotations=annotations, terminationGracePeriodSeconds=8))
    lab.delete("pods", "p")
    lab.advance(seconds)
    assert lab.get("pods", "p") is None


@pytest.mark.parametrize(("kind", "annotations", "want"), [
    pytest.param("Job", {}, "Succeeded", id="a pod of a Job ends"),
    pytest.param("Job", {"mooring/completes-after": "10m"}, "Running", id="an annotation says otherwise"),
    pytest.param("ReplicaSet", {}, "Running", id="other pods run on"),
])  # fmt: skip
def test_kubelets_can_complete_jobs(lab: Lab, kind: str, annotations: dict[str, str], want: str) -> None:
    lab.kubelets.options = KubeletOptions(job_runs_s=1.0)
    lab.nodes(1)
    version, policy = ("batch/v1", "Never") if kind == "Job" else ("apps/v1", "Always")
    template = lab.pod("", annotations=annotations, labels={"app": "j"}, restartPolicy=policy)
    spec = {"template": {key: template[key] for key in ("metadata", "spec")}}
    spec |= {} if kind == "Job" else {"selector": {"matchLabels": {"app": "j"}}}
    lab.create({"apiVersion": version, "kind": kind, "metadata": {"name": "j"}, "spec": spec})
    lab.advance(2)
    assert [pod["status"]["phase"] for pod in lab.list("pods")] == [want]


def test_a_deletion_can_be_brought_forward(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(lab.pod("p", terminationGracePeriodSeconds=30))
    lab.delete("pods", "p")
    lab.delete("pods", "p", gracePeriodSeconds=2)
    lab.advance(3)
    assert lab.get("pods", "p") is None


def test_nothing_happens_to_pods_of_a_silent_node_until_it_is_back(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(lab.pod("p", terminationGracePeriodSeconds=1))
    lab.change("nodes", "node1", lambda n: n["metadata"].setdefault("annotations", {}).update({KUBELET: "stopped"}))
    lab.delete("pods", "p")
    lab.advance(20, step=5)
    assert lab.get("pods", "p") is not None
    lab.change("nodes", "node1", lambda n: n["metadata"]["annotations"].pop(KUBELET))
    lab.advance(2)
    assert lab.get("pods", "p") is None


def test_a_namesake_is_not_taken_for_the_pod_before_it(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(lab.pod("p", annotations={"mooring/completes-after": "10s"}, restartPolicy="Never"))
    lab.advance(5)
    lab.delete("pods", "p", gracePeriodSeconds=0)
    lab.create(lab.pod("p", annotations={"mooring/completes-after": "10s"}, restartPolicy="Never"))
    lab.advance(7)
    assert _phase(lab) == "Running"


def test_kubelets_that_start_late_take_over_what_is_there(lab: Lab) -> None:
    lab.kubelets.stop()
    lab.nodes(1)
    lab.create(lab.pod("p"))
    assert _phase(lab) == "Pending"
    late = Kubelets(lab.api, lab.timers, KubeletOptions(start_delay_s=2.0))
    late.start()
    lab.settle()
    lab.advance(3)
    assert _phase(lab) == "Running"
    late.stop()
    assert lab.store.count(PODS) == 1 and lab.store.count(NODES) == 1


def test_many_nodes_share_one_lease_timer(lab: Lab) -> None:
    lab.nodes(30)
    leases = by_resource("leases.coordination.k8s.io")
    before = {entry.name: entry.rv for entry in lab.store.iterate(leases)}
    lab.timers.advance(10.5)
    after = {entry.name: entry.rv for entry in lab.store.iterate(leases)}
    assert all(after[name] > before[name] for name in before)
