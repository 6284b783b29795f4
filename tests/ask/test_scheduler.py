"""A scheduler for questions: what it decides, what it counts in, and that it changes nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring import sdk
from mooring.api.core import Pod
from mooring.api.errors import ConfigError, InputError, MooringError, OtherScheduler, PluginError
from mooring.ask.scheduler import Scheduler, explain
from mooring.core.cluster import Cluster
from mooring.core.config.load import default_config
from mooring.testing import make_node, make_object, make_pod

PACKED = {
    "profiles": [
        {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}]}
    ]
}


class Only(sdk.NodeFilter):
    """Pods of this profile go to the node b."""

    name = "Only"

    def filter(self, state: sdk.CycleState, pod: Pod, node: sdk.NodeView) -> sdk.Status:
        return sdk.SUCCESS if node.name == "b" else sdk.unschedulable("not b")


def half_full() -> Cluster:
    return Cluster(make_node("a"), make_node("b"), make_pod("x", node="a", cpu="2"), make_pod("waits", cpu="1"))


# ---- deciding ----------------------------------------------------------------------------------------------------


def test_decide_changes_nothing() -> None:
    cluster = half_full()
    decision = Scheduler(cluster).decide("waits")
    assert (decision.node, decision.message, decision.feasible_nodes) == ("b", "", 2)
    assert [share.node for share in decision.scores] == ["b", "a"]
    assert [pod.key for pod in cluster.pending] == ["default/waits"]


def test_a_running_pod_is_decided_about_as_if_it_were_new() -> None:
    cluster = Cluster(make_node("a"), make_pod("x", node="a", cpu="4"))
    assert Scheduler(cluster).decide("x").node == "a", "it does not stand in its own way"
    assert [pod.key for pod in cluster.pods] == ["default/x"]


def test_what_a_manifest_brings_along_counts_for_its_pod_only() -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"volumeName": "pv"},
    }
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv"},
        "spec": {"capacity": {"storage": "1Gi"}},
    }
    spec = {"containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    cluster = Cluster(make_node("a"))
    scheduler = Scheduler(cluster)
    assert scheduler.decide({"kind": "List", "items": [claim, volume, pod]}).node == "a"
    assert list(cluster.state.objects) == []
    assert 'persistentvolumeclaim "data" not found' in scheduler.decide(pod).message


def test_a_decision_is_unaffected_by_later_changes_of_the_cluster() -> None:
    cluster = half_full()
    decision, refused = Scheduler(cluster).decide("waits"), Scheduler(cluster).decide(make_pod("big", cpu="9"))
    cluster.add(make_node("c", cpu=32), make_node("0", zone="z"))
    cluster.remove("node/a")
    Scheduler(cluster).decide(make_pod("big", cpu="9"))
    assert [share.node for share in decision.scores] == ["b", "a"]
    assert [(each.nodes, each.reasons) for each in refused.refusals] == [(("a", "b"), ("Insufficient cpu",))]
    assert refused.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_victims_are_named_and_stay() -> None:
    budget = make_object(
        "PodDisruptionBudget", "keep", "default", spec={"selector": {"matchLabels": {"app": "x"}}}, status={}
    )
    cluster = Cluster(make_node("a"), make_pod("x", node="a", cpu="4", labels={"app": "x"}), budget)
    decision = Scheduler(cluster).decide(make_pod("urgent", cpu="3", priority=10))
    assert (decision.node, decision.nominated_node) == (None, "a")
    assert [(victim.pod, victim.breaks) for victim in decision.victims] == [("default/x", ("default/keep",))]
    assert len(cluster.pods) == 1


def test_a_gated_pod_is_not_tried() -> None:
    pod = make_pod("held", spec={"schedulingGates": [{"name": "wait"}]})
    decision = Scheduler(half_full()).decide(pod)
    assert (decision.outcome.value, decision.reason) == ("gated", "SchedulingGated")
    assert decision.message == "Scheduling is blocked due to non-empty scheduling gates"


def test_a_nominated_pod_is_counted_in() -> None:
    nominated = make_pod("first", cpu="4", priority=10, status={"nominatedNodeName": "a"})
    cluster = Cluster(make_node("a"), nominated)
    assert Scheduler(cluster).decide(make_pod("second", cpu="1")).node is None
    cluster.remove("pod/first")
    assert Scheduler(cluster).decide(make_pod("second", cpu="1")).node == "a"


# ---- placing -----------------------------------------------------------------------------------------------------


def test_pods_are_counted_in_one_after_another() -> None:
    cluster = Cluster(make_node("a"), make_node("b"))
    scheduler = Scheduler(cluster)
    placed = list(scheduler.place(cluster.add(make_pod("p", cpu="2"), copies=5)))
    assert sorted(str(decision.node) for decision in placed) == ["None", "a", "a", "b", "b"]
    assert placed[-1].message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert [pod.key for pod in cluster.pending] == ["default/p-5"]
    assert cluster.state.nodes().requested("cpu").tolist() == [4000, 4000]


def test_placing_waits_until_it_is_asked() -> None:
    cluster = half_full()
    placing = Scheduler(cluster).place(["waits", make_pod("late", cpu="1")])
    assert len(cluster.pods) == 1
    next(placing)
    assert [pod.key for pod in cluster.pods] == ["default/x", "default/waits"]


@pytest.mark.parametrize(
    "one",
    ["waits", make_pod("alone"), {"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}],
    ids=["a name", "a pod", "a dict"],
)
def test_a_single_pod_can_be_placed(one: Any) -> None:
    assert len(list(Scheduler(half_full()).place(one))) == 1


def test_a_new_pod_that_fits_nowhere_waits() -> None:
    cluster = half_full()
    list(Scheduler(cluster).place([make_pod("big", cpu="9")]))
    assert [pod.key for pod in cluster.pending] == ["default/waits", "default/big"]


def test_a_pod_that_runs_cannot_be_placed_again() -> None:
    pod = make_pod("p")
    with pytest.raises(InputError, match=r"pod default/p is on \w already; cluster.add\(pod, copies=N\)"):
        list(Scheduler(half_full()).place([pod, pod]))


# ---- configurations and plugins ----------------------------------------------------------------------------------


def test_a_configuration_can_be_given_in_four_ways(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: packer, pluginConfig: "
        "[{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}]"
    )
    cluster = half_full()
    assert Scheduler(cluster).decide("waits").node == "b"
    assert Scheduler(cluster, default_config()).decide("waits").node == "b"
    assert Scheduler(cluster, PACKED).decide("waits").node == "a"
    packer = Scheduler(cluster, file)
    assert packer.profiles == ["packer"]
    assert packer.decide(make_pod("p", cpu="1", spec={"schedulerName": "packer"})).node == "a"
    assert Scheduler(cluster, str(file)).profiles == ["packer"]


def test_plugins_can_be_classes_or_files(tmp_path: Path) -> None:
    file = tmp_path / "only.py"
    file.write_text(
        "from mooring import sdk\n\n\nclass FromFile(sdk.NodeFilter):\n    name = 'FromFile'\n\n"
        "    def filter(self, state, pod, node):\n"
        "        return sdk.SUCCESS if node.name == 'b' else sdk.unschedulable('not b')\n"
    )
    for plugin in (Only, file, str(file)):
        assert Scheduler(half_full(), plugins=[plugin]).decide("waits").feasible_nodes == 1


def test_a_plugin_that_no_profile_enables_is_a_warning() -> None:
    with pytest.warns(UserWarning, match="no profile enables the plugin Only, so it does nothing"):
        Scheduler(half_full(), PACKED, [Only])


def test_extenders_are_not_called() -> None:
    config = {"extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}]}
    with pytest.warns(UserWarning, match="extenders are not called here"):
        assert Scheduler(half_full(), config).decide("waits").node == "b"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param({"config": 7}, InputError, "config: found 7; expected a path, a dict or a", id="a number"),
        pytest.param({"config": "gone.yaml"}, InputError, "gone.yaml: no such file", id="a file that is not there"),
        pytest.param({"config": {"profile": []}}, ConfigError, 'unknown field "profile"', id="a misspelt field"),
        pytest.param(
            {"plugins": ["gone.py"]}, PluginError, "there is no file gone.py", id="a plugin that is not there"
        ),
        pytest.param({"plugins": [int]}, PluginError, "has no name", id="a class that is no plugin"),
    ],
)
def test_mistakes_are_one_line(arguments: dict[str, Any], error: type[MooringError], message: str) -> None:
    with pytest.raises(error) as raised:
        Scheduler(half_full(), **arguments)
    assert message in str(raised.value) and "\n" not in str(raised.value)


def test_a_scheduler_that_the_configuration_does_not_have_is_named() -> None:
    with pytest.raises(InputError, match="no profile for 'other'; the configuration has default-scheduler"):
        Scheduler(half_full(), default_config()).decide(make_pod("p", spec={"schedulerName": "other"}))


def test_without_a_configuration_the_first_profile_answers_for_other_schedulers() -> None:
    pod, other = make_pod("p", cpu="1"), make_pod("p", cpu="1", spec={"schedulerName": "other"})
    with pytest.warns(OtherScheduler, match="default/p is for other; explained as default-scheduler would decide"):
        found = Scheduler(half_full()).decide(other)
    assert (found.node, found.scheduler_name) == (Scheduler(half_full()).decide(pod).node, "default-scheduler")


def test_a_cluster_is_needed() -> None:
    with pytest.raises(InputError, match=r"expected a Cluster, such as mooring\.load"):
        Scheduler("dump.json")  # type: ignore[arg-type]


# ---- forks and explanations --------------------------------------------------------------------------------------


def test_the_same_scheduler_on_a_fork() -> None:
    cluster = half_full()
    scheduler = Scheduler(cluster, PACKED)
    with cluster.fork() as tomorrow:
        tomorrow.cordon("a")
        assert scheduler.on(tomorrow).decide("waits").node == "b"
    assert scheduler.decide("waits").node == "a"


def test_explain_takes_a_fork_and_a_configuration() -> None:
    cluster = Cluster(make_node("a"), make_node("b"))
    with cluster.fork() as tomorrow:
        tomorrow.cordon("a", "b")
        found = explain(tomorrow, make_pod("p"), PACKED)
    assert found.node is None
    assert [suggestion.text for suggestion in found.suggestions] == ["uncordon a (or b)"]
    assert explain(cluster, make_pod("p")).node == "a"


def test_explain_tells_what_a_workload_is() -> None:
    daemons = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d"},
        "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}},
    }
    assert "each is tied to its node" in explain(half_full(), daemons).notes[0]


def test_a_scheduler_says_what_it_is() -> None:
    assert repr(Scheduler(half_full())) == "<Scheduler: default-scheduler; Cluster: 2 nodes, 1 pod, 1 pending>"
