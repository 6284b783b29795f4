"""The authors' surface: one pod and one node at a time, the same decisions as with columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from mooring import sdk, testing
from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod
from mooring.api.defaults import set_defaults
from mooring.api.errors import ConfigError, InputError
from mooring.core.config.load import config_from_dict
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.engine.in_tree import in_tree_registry
from mooring.core.framework.runtime import run_pre_enqueue
from mooring.core.session import Session, open_session
from mooring.core.state.cluster import ClusterState
from mooring.testing import Scheduler, make_node, make_node_view, make_pod


def node(name: str, **labels: str) -> Node:
    return from_plain(
        Node,
        {
            "metadata": {"name": name, "labels": labels, "annotations": {"owner": "ops"}},
            "spec": {"taints": [{"key": "t", "effect": "PreferNoSchedule"}]},
            "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": 10},
                "images": [{"names": ["web:1"], "sizeBytes": 5}],
            },
        },
    )


def pod(name: str = "web", on: str = "") -> Pod:
    requests = {"requests": {"cpu": "1"}}
    return from_plain(
        Pod,
        {"metadata": {"name": name}, "spec": {"nodeName": on, "containers": [{"name": "c", "resources": requests}]}},
    )


def built_with(
    *plugins: type, nodes: Sequence[Node], pods: Sequence[Pod] = (), args: Any = None, points: Sequence[str] = ()
) -> Session:
    """A cluster whose profile also has these plugins, wherever they can run."""
    registry = in_tree_registry()
    names = [registry.register(plugin, "test") for plugin in plugins]
    profile: dict[str, Any] = {"plugins": {"multiPoint": {"enabled": [{"name": name} for name in (*names, *points)]}}}
    if args is not None:
        profile["pluginConfig"] = [{"name": names[0], "args": args}]
    cluster = ClusterState()
    session = open_session(config_from_dict({"profiles": [profile]}), cluster, registry=registry)
    objects = [*nodes, *pods]
    set_defaults(objects)
    for obj in objects:
        cluster.put(obj)
    return session


def decide(session: Session, asked: Pod) -> ScheduleResult:
    set_defaults([asked])
    return session.engine.decide(session.handle.cluster.info(asked), session.profiles["default-scheduler"])


class CpuLabelled(sdk.NodeFilter):
    name = "CpuLabelled"

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        if node.labels.get("cpu") == "true":
            return sdk.SUCCESS
        return sdk.unschedulable(f"Node: {node.name}")


def test_a_filter_refuses_in_its_own_words() -> None:
    decision = decide(built_with(CpuLabelled, nodes=[node("gpu02"), node("gpu03")]), pod())
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert decision.message.startswith("0/2 nodes are available: 1 Node: gpu02, 1 Node: gpu03.")
    assert decision.unschedulable_plugins == {"CpuLabelled"}


def test_a_filter_lets_pass_what_it_likes() -> None:
    assert decide(built_with(CpuLabelled, nodes=[node("a"), node("b", cpu="true")]), pod()).node == "b"


def test_only_nodes_that_are_still_in_the_running_are_shown() -> None:
    seen: list[str] = []

    class Watching(sdk.NodeFilter):
        name = "Watching"

        def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
            seen.append(node.name)
            return sdk.SUCCESS

    closed = node("closed")
    closed.spec.unschedulable = True
    decide(built_with(Watching, nodes=[node("a"), closed, node("b")]), pod())
    assert seen == ["a", "b"]


def test_a_view_shows_the_node() -> None:
    views: list[sdk.NodeView] = []

    class Looking(sdk.NodeFilter):
        name = "Looking"

        def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
            views.append(node)
            return sdk.SUCCESS

    decide(built_with(Looking, nodes=[node("a", zone="north")], pods=[pod("x", on="a")]), pod())
    (view,) = views
    assert (view.name, dict(view.labels), view.annotations["owner"]) == ("a", {"zone": "north"}, "ops")
    assert [taint.key for taint in view.taints] == ["t"]
    assert (view.allocatable["cpu"], view.requested["cpu"], view.free("cpu")) == (4000, 1000, 3000)
    assert view.allocatable.get("example.com/gpu") is None
    assert [running.name for running in view.pods] == ["x"]
    assert (view.allowed_pods, view.images, view.unschedulable) == (10, {"web:1"}, False)


class Alphabetical(sdk.NodeScore):
    """Prefers late letters."""

    name = "Alphabetical"

    def score(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> int:
        return ord(node.name[0]) - ord("a")


def test_scores_are_added_with_their_weight() -> None:
    decision = decide(built_with(Alphabetical, nodes=[node("a"), node("z")]), pod())
    assert decision.node == "z"
    assert decision.scores is not None
    assert decision.scores.by_plugin["Alphabetical"].tolist() == [0, 25]


def test_scores_can_be_normalised_by_name() -> None:
    class Scaled(Alphabetical):
        name = "Scaled"

        def normalize(self, state: sdk.CycleState, pod: sdk.Pod, scores: dict[str, int]) -> dict[str, int]:
            return sdk.scaled(scores, reverse=True)

    decision = decide(built_with(Scaled, nodes=[node("a"), node("z")]), pod())
    assert decision.scores is not None
    assert decision.scores.by_plugin["Scaled"].tolist() == [100, 0]


class Steps(sdk.PreFilter, sdk.NodeFilter, sdk.PreScore, sdk.NodeScore):
    """Remembers from one extension point to the next."""

    name = "Steps"

    def pre_filter(self, state: sdk.CycleState, pod: sdk.Pod, nodes: sdk.NodeViews) -> sdk.Status:
        state.write("Steps", [f"{pod.name} sees {len(nodes)}"])
        return sdk.SUCCESS

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        return sdk.SUCCESS if node.name != "b" else sdk.unresolvable("not b")

    def pre_score(self, state: sdk.CycleState, pod: sdk.Pod, nodes: sdk.NodeViews) -> sdk.Status:
        state.read("Steps").append([view.name for view in nodes])
        return sdk.SUCCESS

    def score(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> int:
        return 0


def test_one_plugin_at_several_points() -> None:
    decision = decide(built_with(Steps, nodes=[node("a"), node("b"), node("c")]), pod())
    assert decision.state.read("Steps") == ["web sees 3", ["a", "c"]]


def test_a_pre_filter_narrows_the_search() -> None:
    class Pinned(sdk.PreFilter):
        name = "Pinned"

        def pre_filter(self, state: sdk.CycleState, pod: sdk.Pod, nodes: sdk.NodeViews) -> sdk.PreFilterResult:
            return sdk.only_nodes("b")

    assert decide(built_with(Pinned, nodes=[node("a"), node("b")]), pod()).node == "b"


def test_reserve_and_permit_get_the_plain_pod() -> None:
    class Both(sdk.Reserve, sdk.Permit):
        name = "Both"

        def reserve(self, state: sdk.CycleState, pod: sdk.Pod, node_name: str) -> sdk.Status:
            return sdk.unschedulable(f"{pod.name} not on {node_name}")

        def unreserve(self, state: sdk.CycleState, pod: sdk.Pod, node_name: str) -> None: ...

        def permit(self, state: sdk.CycleState, pod: sdk.Pod, node_name: str) -> tuple[sdk.Status, float]:
            return sdk.wait(), 3.0

    session = built_with(Both, nodes=[node("a")])
    decision = decide(session, pod())
    profile = session.profiles["default-scheduler"]
    assert profile.run_reserve(decision.state, decision.pod, "a").message == "web not on a"
    assert profile.permit[0].permit(decision.state, decision.pod, "a")[1] == 3.0


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(None, "filter returned None, expected a Status such as sdk.SUCCESS", id="nothing"),
        pytest.param(True, "filter returned True, expected a Status", id="a boolean"),
    ],
)
def test_an_answer_that_is_no_status_is_this_pods_error(answer: Any, text: str) -> None:
    class Forgetful(sdk.NodeFilter):
        name = "Forgetful"

        def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
            return answer  # type: ignore[no-any-return]

    decision = decide(built_with(Forgetful, nodes=[node("a")]), pod())
    assert decision.outcome is Outcome.ERROR
    assert text in decision.message


def test_a_score_that_is_no_number_is_this_pods_error() -> None:
    class Vague(sdk.NodeScore):
        name = "Vague"

        def score(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> int:
            return "much"  # type: ignore[return-value]

    decision = decide(built_with(Vague, nodes=[node("a"), node("b")]), pod())
    assert "score returned 'much' for a, expected a whole number" in decision.message


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param({"cpu": "true"}, sdk.SUCCESS, id="a labelled node"),
        pytest.param({}, sdk.unschedulable("Node: a"), id="another node"),
    ],
)
def test_a_method_is_what_its_author_wrote(labels: dict[str, str], want: sdk.Status) -> None:
    plugin = CpuLabelled()
    built_with(CpuLabelled, nodes=[node("a")])  # registered and in use, it is still the same
    assert plugin.filter(sdk.CycleState(), pod(), make_node_view("a", labels=labels)) == want
    assert Alphabetical().score(sdk.CycleState(), pod(), make_node_view("c")) == 2


def test_builders_take_annotations() -> None:
    drain = {"example.com/drain": "soon"}
    assert make_node("a", annotations=drain).metadata.annotations == drain
    assert make_pod("p", annotations=drain).metadata.annotations == drain
    assert make_pod("p", annotations=drain, metadata={"annotations": {}}).metadata.annotations == {}


# ---- the other points --------------------------------------------------------------------------------------------


class Evicts(sdk.PostFilter):
    """Evicts the first pod of the first node that pods may be evicted from."""

    name = "Evicts"

    def post_filter(
        self, state: sdk.CycleState, pod: sdk.Pod, nodes: sdk.NodeViews, statuses: sdk.NodeStatuses
    ) -> sdk.Status | sdk.Preemption:
        for view in nodes:
            if statuses.get(view.name).code is sdk.Code.UNSCHEDULABLE and view.pods:
                return sdk.Preemption(view.name, (view.pods[0],))
        return sdk.unschedulable("nobody to evict")


def with_post_filter(*pods: Pod) -> ScheduleResult:
    """A decision about a pod that fits nowhere, with Evicts alone to make room."""
    plugins = {"multiPoint": {"enabled": [{"name": "Evicts"}]}, "postFilter": {"disabled": [{"name": "*"}]}}
    plugins["postFilter"]["enabled"] = [{"name": "Evicts"}]
    config = {"profiles": [{"plugins": plugins}]}
    nodes = make_node("full", cpu="1"), make_node("closed", unschedulable=True)
    return testing.decide(make_pod("web", cpu="1"), *nodes, *pods, config=config, plugins=[Evicts])


def test_a_post_filter_makes_room() -> None:
    decision = with_post_filter(make_pod("old", node="full", cpu="1"), make_pod("other", node="closed"))
    assert (decision.outcome, decision.nominated_node) == (Outcome.UNSCHEDULABLE, "full")
    assert [victim.pod.name for victim in decision.victims] == ["old"]
    assert decision.post_filter_plugin == "Evicts", "the scheduler evicts in its name"


def test_a_post_filter_without_victims_reports_it() -> None:
    refused = testing.decide(
        make_pod("web", cpu="9"),
        make_node("small", cpu="1"),
        config={"profiles": [{"plugins": {"postFilter": {"enabled": [{"name": "Evicts"}]}}}]},
        plugins=[Evicts],
    )
    assert refused.message.endswith("nobody to evict") and refused.victims == ()


class Binds(sdk.PreBind, sdk.Bind, sdk.PostBind):
    name = "Binds"

    async def pre_bind(self, state: sdk.CycleState, pod: sdk.Pod, node_name: str) -> sdk.Status:
        state.write("Binds", [f"prepares {pod.name} on {node_name}"])
        return sdk.SUCCESS

    def pre_bind_pre_flight(self, state: sdk.CycleState, pod: sdk.Pod, node_name: str) -> sdk.PreFlight:
        return sdk.PreFlight(sdk.SKIP if pod.name == "idle" else sdk.SUCCESS)

    async def bind(self, state: sdk.CycleState, pod: sdk.Pod, node_name: str) -> sdk.Status:
        state.read("Binds").append(f"binds {pod.name}")
        return sdk.SUCCESS

    def post_bind(self, state: sdk.CycleState, pod: sdk.Pod, node_name: str) -> None:
        state.read("Binds").append("done")


async def test_the_binding_cycle_gets_the_plain_pod() -> None:
    session = built_with(Binds, nodes=[node("a")])
    profile, state = session.profiles["default-scheduler"], sdk.CycleState()
    info, idle = (session.handle.cluster.info(pod(name)) for name in ("web", "idle"))
    plugin = profile.plugins["Binds"]
    assert plugin in profile.pre_bind and plugin in profile.bind and plugin in profile.post_bind
    assert plugin.pre_bind_pre_flight is not None
    assert plugin.pre_bind_pre_flight(state, idle, "a").status.is_skip
    assert plugin.pre_bind_pre_flight(state, info, "a").status.is_success
    assert (await plugin.pre_bind(state, info, "a")).is_success
    assert (await plugin.bind(state, info, "a")).is_success
    plugin.post_bind(state, info, "a")
    assert state.read("Binds") == ["prepares web on a", "binds web", "done"]


def test_a_queue_sort_takes_the_place_of_the_default_one() -> None:
    class LastComeFirst(sdk.QueueSort):
        name = "LastComeFirst"

        def sort_key(self, priority: int, timestamp: float) -> float:
            return -timestamp

    plugins = {"queueSort": {"enabled": [{"name": "LastComeFirst"}], "disabled": [{"name": "*"}]}}
    on = Scheduler(config={"profiles": [{"plugins": plugins}]}, plugins=[LastComeFirst])
    (sort,) = on.profiles["default-scheduler"].queue_sort
    assert sorted([1.0, 3.0, 2.0], key=lambda timestamp: sort.sort_key(0, timestamp)) == [3.0, 2.0, 1.0]


def test_a_pre_enqueue_gets_the_plain_pod() -> None:
    class Gate(sdk.PreEnqueue):
        name = "Gate"

        def pre_enqueue(self, pod: sdk.Pod) -> sdk.Status:
            return sdk.pending(f"{pod.name} waits")

    session = built_with(Gate, nodes=[node("a")])
    status = run_pre_enqueue(session.profiles["default-scheduler"].pre_enqueue, pod())
    assert (status.message, status.plugin, status.code) == ("web waits", "Gate", sdk.Code.PENDING)


def test_a_pod_that_no_profile_of_a_configuration_is_for_is_bad_input() -> None:
    with pytest.raises(InputError) as caught:
        Scheduler(make_node("a"), config={}).decide(make_pod("web", spec={"schedulerName": "other"}))
    want = "Pod default/web: spec.schedulerName: no profile for 'other'; the configuration has default-scheduler"
    assert str(caught.value) == want


# ---- arguments ---------------------------------------------------------------------------------------------------


class KeyArgs(sdk.Args):
    label_key: str = "cpu"
    at_least: int = 1


class Keyed(sdk.NodeFilter):
    name = "Keyed"
    args = KeyArgs

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        return sdk.SUCCESS if self.args.label_key in node.labels else sdk.unschedulable("no label")


class NoArgs(CpuLabelled):
    name = "NoArgs"


@pytest.mark.parametrize(
    ("args", "want"),
    [
        pytest.param(None, KeyArgs(), id="defaults"),
        pytest.param({"labelKey": "disk"}, KeyArgs("disk"), id="camelCase outside, snake_case inside"),
        pytest.param({"apiVersion": "x/v1", "kind": "KeyArgs", "atLeast": 2}, KeyArgs("cpu", 2), id="with its kind"),
    ],
)
def test_arguments_arrive_typed(args: Any, want: KeyArgs) -> None:
    session = built_with(Keyed, nodes=[node("a")], args=args)
    assert session.profiles["default-scheduler"].plugins["Keyed"].plugin.args == want


@pytest.mark.parametrize(
    ("plugin", "args", "text"),
    [
        pytest.param(Keyed, {"labelkey": "x"}, 'args: unknown field "labelkey"; did you mean labelKey?', id="unknown"),
        pytest.param(Keyed, {"atLeast": "two"}, "args.atLeast: expected int, got str", id="wrong type"),
        pytest.param(Keyed, ["x"], "args: ['x'], expected an object", id="a list"),
        pytest.param(NoArgs, {"x": 1}, "args: the plugin takes none, but there are x", id="none are taken"),
    ],
)
def test_a_mistake_in_arguments_is_one_line(plugin: type, args: Any, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        built_with(plugin, nodes=[node("a")], args=args)
    prefix = "initializing profiles: creating profile for scheduler name default-scheduler: "
    assert str(caught.value) == f'{prefix}initializing plugin "{plugin.name}": {text}'  # type: ignore[attr-defined]


def test_a_plain_struct_does_as_well() -> None:
    class Plain(msgspec.Struct):
        size: int = 3

    class Sized(CpuLabelled):
        name = "Sized"
        args = Plain

    assert Sized({"size": 4}).args.size == 4


def test_everything_that_is_promised_can_be_imported() -> None:
    assert sorted(sdk.__all__) == sorted(set(sdk.__all__))
    assert all(hasattr(sdk, name) for name in sdk.__all__)


# ---- NodeNumber --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("pod1", [0, 10, 0], id="pod1 likes node1"),
        pytest.param("pod9", [0, 0, 0], id="no node ends in 9"),
        pytest.param("pod", None, id="a name without a digit has no opinion"),
    ],
)
def test_node_number(name: str, want: list[int] | None) -> None:
    session = built_with(nodes=[node("node0"), node("node1"), node("node2")], points=["NodeNumber"])
    decision = decide(session, pod(name))
    assert decision.scores is not None
    found = decision.scores.by_plugin.get("NodeNumber")
    assert (None if found is None else found.tolist()) == want


def test_node_number_is_off_unless_named() -> None:
    decision = decide(built_with(nodes=[node("node0"), node("node1")]), pod("pod1"))
    assert decision.scores is not None
    assert "NodeNumber" not in decision.scores.by_plugin
