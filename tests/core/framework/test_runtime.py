"""A profile at work: the skip and status rules of each extension point."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mooring.core.framework import runtime
from mooring.core.framework.cycle_state import CycleError, CycleState, PluginTimer
from mooring.core.framework.interfaces import PreFilterResult
from mooring.core.framework.registry import Reads, Traits, resolve
from mooring.core.framework.runtime import Profile, judge, run_pre_enqueue
from mooring.core.framework.status import SKIP, SKIP_FOR_TEMPLATE, SUCCESS, SUCCESS_FOR_TEMPLATE, Code, Status, Verdict
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo
from mooring.testing import make_cluster, make_node, make_pod

NO, NEVER, PENDING = Status.unschedulable("no"), Status.unresolvable("never"), Status.pending("not yet")
BROKEN, WAIT = Status.error("broken"), Status.wait()
PLACE = re.compile(r" \(\w+\.py:\d+\)")  # the line of the plugin that raised


def told(status: Status) -> Status:
    """The status without the place where a plugin raised something."""
    return replace(status, reasons=tuple(PLACE.sub("", reason) for reason in status.reasons))


NODES = "abcd"

Made = Callable[..., Any]
MakeProfile = Callable[..., Profile]


def only(*names: str) -> PreFilterResult:
    return PreFilterResult(frozenset(names))


@pytest.fixture
def nodes() -> NodeRows:
    return make_cluster(*(make_node(name) for name in NODES)).snapshot()


@pytest.fixture
def pod() -> PodInfo:
    return make_cluster().info(make_pod("web"))


class Asked:
    """Remembers which plugins were asked, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def plugin(self, made: Made, name: str, method: str, answer: Any, **more: Any) -> Any:
        def say(*arguments: Any) -> Any:
            self.names.append(name)
            if isinstance(answer, Exception):
                raise answer
            return answer(*arguments) if callable(answer) else answer

        return made(name, **{method: say}, **more)


# ---- the profile itself ------------------------------------------------------------------------------------------


def test_plugins_are_listed_by_point_in_configured_order(made: Made, profile: MakeProfile) -> None:
    both, one = made("Both", filter=None, score=None), made("One", score=None)
    found = profile(both, one, weights={"One": 5})
    assert [plugin.name for plugin in found.filter] == ["Both"]
    assert [(plugin.name, weight) for plugin, weight in found.score] == [("Both", 1), ("One", 5)]
    assert found.permit == [] and list(found.plugins) == ["Both", "One"]


def test_judges_are_those_that_filter_or_score_each_once(made: Made, profile: MakeProfile) -> None:
    found = profile(
        made("Gate", pre_enqueue=SUCCESS),
        made("All", pre_filter=SUCCESS, filter=None, pre_score=SUCCESS, score=None),
        made("Binder", post_bind=None),
        made("Scorer", score=None),
    )
    assert [plugin.name for plugin in found.judges] == ["All", "Scorer"]


def test_a_profile_without_a_plugin_at_some_points(made: Made, profile: MakeProfile) -> None:
    before = profile(made("A", pre_filter=SUCCESS, filter=None, score=None), made("B", filter=None))
    after = before.without("A", "preFilter", "filter")
    assert ([p.name for p in after.filter], after.pre_filter, len(after.score)) == (["B"], [], 1)
    assert [plugin.name for plugin in before.filter] == ["A", "B"], "the profile itself stays as it is"
    assert after.plugins["A"] is before.plugins["A"], "nothing is made anew"


# ---- PreEnqueue --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "want", "asked"),
    [
        pytest.param([], SUCCESS, "", id="no objection"),
        pytest.param([SUCCESS, SUCCESS], SUCCESS, "AB", id="all let it pass"),
        pytest.param([NO, SUCCESS], NO.by("A"), "A", id="the first refusal ends it"),
        pytest.param([SUCCESS, NEVER], NEVER.by("B"), "AB", id="the refusing plugin signs"),
        pytest.param([PENDING], PENDING.by("A"), "A", id="pending holds it back"),
        pytest.param([SKIP], SKIP.by("A"), "A", id="anything but success holds it back"),
        pytest.param([BROKEN], BROKEN.by("A"), "A", id="an error holds it back"),
        pytest.param(
            [ValueError("odd"), SUCCESS],
            Status(Code.ERROR, ('running PreEnqueue plugin "A": ValueError: odd',), "A"),
            "A",
            id="an exception holds back this pod only",
        ),
    ],
)
def test_pre_enqueue(made: Made, answers: list[Any], want: Status, asked: str) -> None:
    log = Asked()
    plugins = [log.plugin(made, name, "pre_enqueue", answer) for name, answer in zip("ABC", answers, strict=False)]
    assert told(run_pre_enqueue([resolve(plugin) for plugin in plugins], make_pod())) == want
    assert "".join(log.names) == asked


def test_pre_enqueue_is_timed_if_there_is_a_timer(made: Made) -> None:
    told: list[tuple[str, str, Code]] = []
    timer = PluginTimer(lambda: 0.0, lambda name, method, code, seconds: told.append((name, method, code)))
    status = run_pre_enqueue([resolve(made("Gate", pre_enqueue=NO))], make_pod(), timer)
    assert status.plugin == "Gate" and told == [("Gate", "pre_enqueue", Code.UNSCHEDULABLE)]


# ---- PreFilter ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "status", "names", "plugins", "asked"),
    [
        pytest.param([SUCCESS, SUCCESS], SUCCESS, None, "", "AB", id="every node is looked at"),
        pytest.param([only("a", "b"), SUCCESS], SUCCESS, "ab", "A", "AB", id="one narrows the search"),
        pytest.param([only("a", "b"), only("b", "c")], SUCCESS, "b", "AB", "AB", id="two narrow it together"),
        pytest.param(
            [only("a"), only("b"), SUCCESS],
            Status.unresolvable("node(s) didn't satisfy plugin(s) [A B] simultaneously"),
            None,
            "AB",
            "AB",
            id="nothing is left of two",
        ),
        pytest.param(
            [SUCCESS, only(), SUCCESS],
            Status.unresolvable("node(s) didn't satisfy plugin B"),
            None,
            "B",
            "AB",
            id="nothing is left of one",
        ),
        pytest.param(
            [NEVER, SUCCESS], NEVER.by("A"), None, "A", "A", id="an unresolvable rejection ends it immediately"
        ),
        pytest.param([NO, SUCCESS], NO.by("A"), None, "A", "AB", id="a resolvable no lets the others speak"),
        pytest.param([NO, PENDING, SUCCESS], PENDING.by("B"), None, "B", "ABC", id="the last resolvable no counts"),
        pytest.param([NO, NEVER], NEVER.by("B"), None, "B", "AB", id="an unresolvable no counts more"),
        pytest.param([only("a"), NO], NO.by("B"), None, "B", "AB", id="a no counts more than a narrower search"),
        pytest.param([NO.by("Other")], NO.by("Other"), None, ["Other"], "A", id="a plugin may sign for another"),
    ],
)
def test_pre_filter(
    made: Made,
    profile: MakeProfile,
    pod: PodInfo,
    nodes: NodeRows,
    answers: list[Any],
    status: Status,
    names: str | None,
    plugins: Any,
    asked: str,
) -> None:
    log = Asked()
    found = profile(*(log.plugin(made, name, "pre_filter", a) for name, a in zip("ABC", answers, strict=False)))
    outcome = found.run_pre_filter(CycleState(), pod, nodes)
    assert outcome.status == status
    assert outcome.node_names == (None if names is None else frozenset(names))
    assert outcome.plugins == frozenset(plugins)
    assert "".join(log.names) == asked


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(BROKEN, 'running PreFilter plugin "A": broken', id="an error"),
        pytest.param(WAIT, 'running PreFilter plugin "A": ', id="a status that has no place here"),
        pytest.param(ValueError("odd"), 'running PreFilter plugin "A": ValueError: odd', id="an exception"),
    ],
)
def test_a_pre_filter_that_breaks_the_attempt(
    made: Made, profile: MakeProfile, pod: PodInfo, nodes: NodeRows, answer: Any, message: str
) -> None:
    with pytest.raises(CycleError) as caught:
        profile(made("A", pre_filter=answer)).run_pre_filter(CycleState(), pod, nodes)
    assert (caught.value.status.code, told(caught.value.status).message) == (Code.ERROR, message)


def test_a_pre_filter_that_skips_switches_its_filter_off(
    made: Made, profile: MakeProfile, pod: PodInfo, nodes: NodeRows
) -> None:
    refuses_all = Verdict.where(np.ones(4, np.bool_), NO)
    found = profile(
        made("A", pre_filter=SKIP, filter=refuses_all, add_pod=BROKEN, remove_pod=BROKEN),
        made("B", pre_filter=SUCCESS, filter=None),
    )
    state = CycleState()
    assert found.run_pre_filter(state, pod, nodes).status.is_success
    assert state.skip_filter == {"A"}
    assert [plugin.name for plugin in found.active_filters(state)] == ["B"]
    assert [plugin.name for plugin in found.filter_plan(state).asked] == ["B"]
    assert found.run_filters(state, pod, nodes).feasible.all()
    found.add_pod(state, pod, pod, nodes.infos[0])
    found.remove_pod(state, pod, pod, nodes.infos[0])


@pytest.mark.parametrize("point", ["pre_filter", "pre_score"])
def test_an_answer_for_the_template_is_asked_for_once(made: Made, profile: MakeProfile, point: str) -> None:
    asked = Asked()
    found = profile(
        asked.plugin(made, "A", point, SKIP_FOR_TEMPLATE),
        asked.plugin(made, "B", point, SKIP),
        asked.plugin(made, "C", point, SUCCESS_FOR_TEMPLATE),
        asked.plugin(made, "D", point, SUCCESS),
    )
    cluster = make_cluster(make_node("a"), make_node("b"))
    pods = [cluster.info(make_pod(name, cpu=cpu)) for name, cpu in (("one", "1"), ("like it", "1"), ("other", "2"))]

    def ask(pod: PodInfo, timer: PluginTimer | None = None, asks_all: bool = False) -> str:
        state = CycleState()
        state.timer, state.asks_all = timer, asks_all
        getattr(found, f"run_{point}")(state, pod, cluster.nodes())
        assert (state.skip_filter or state.skip_score) == {"A", "B"}
        names = "".join(asked.names)
        asked.names.clear()
        return names

    assert [ask(pod) for pod in pods] == ["ABCD", "BD", "ABCD"]
    assert ask(pods[0], PluginTimer(lambda: 0.0, lambda *_: None)) == "ABCD", "where plugins are timed, all are asked"
    assert ask(pods[0], asks_all=True) == "ABCD", "as where nothing that is kept is used"


@pytest.mark.parametrize("point", ["pre_filter", "pre_score"])
def test_answers_for_templates_do_not_pile_up(
    made: Made, profile: MakeProfile, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "MAX_SETTLED", 2)
    asked = Asked()
    found = profile(asked.plugin(made, "A", point, SKIP_FOR_TEMPLATE))
    cluster = make_cluster(make_node("a"), make_node("b"))
    pods = [cluster.info(make_pod(cpu=cpu)) for cpu in ("1", "2", "3")]
    for pod in (*pods, pods[2], pods[0]):
        getattr(found, f"run_{point}")(CycleState(), pod, cluster.nodes())
    assert len(asked.names) == 4, "the third template is known, and has pushed the first out"


# ---- its extensions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "point"), [("add_pod", "AddPod"), ("remove_pod", "RemovePod")])
def test_pre_filters_that_count_pods_hear_of_them(
    made: Made, profile: MakeProfile, pod: PodInfo, nodes: NodeRows, method: str, point: str
) -> None:
    heard: list[tuple[Any, ...]] = []

    def hear(*arguments: Any) -> Status:
        heard.append(arguments)
        return SUCCESS

    found = profile(made("A", pre_filter=SUCCESS), made("B", pre_filter=SUCCESS, **{method: hear}))
    state, other = CycleState(), make_cluster().info(make_pod("other"))
    getattr(found, method)(state, pod, other, nodes.infos[1])
    assert heard == [(state, pod, other, nodes.infos[1])]
    for answer, text in ((BROKEN, "broken"), (NO, "no"), (ValueError("odd"), "ValueError: odd")):
        failing = profile(made("A", pre_filter=SUCCESS, **{method: answer}))
        with pytest.raises(CycleError) as caught:
            getattr(failing, method)(state, pod, other, nodes.infos[1])
        assert told(caught.value.status).message == f'running {point} on PreFilter plugin "A": {text}'


# ---- Filter ------------------------------------------------------------------------------------------------------


def refusing(which: str, status: Status = NO) -> Callable[..., Verdict]:
    """A filter that refuses the nodes with these names."""

    def judge_rows(state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict:
        return Verdict.where(np.array([info.name in which for info in nodes.infos], np.bool_), status)

    return judge_rows


@pytest.mark.parametrize(
    ("answers", "feasible", "reasons", "asked"),
    [
        pytest.param([None, None], "abcd", {}, "AB", id="all pass"),
        pytest.param([refusing("a"), refusing("b", NEVER)], "cd", {"a": "A no", "b": "B never"}, "AB", id="two refuse"),
        pytest.param([refusing("ab"), refusing("ab", NEVER)], "cd", {"a": "A no"}, "AB", id="the first reason counts"),
        pytest.param([refusing("abcd"), None], "", {"d": "A no"}, "A", id="no node is left for the second"),
        pytest.param(
            [refusing("a"), refusing("a", BROKEN)],
            "bcd",
            {"a": "A no"},
            "AB",
            id="a failure on a refused node is nothing",
        ),
        pytest.param([refusing("a", PENDING)], "bcd", {"a": "A not yet"}, "A", id="pending is a refusal"),
    ],
)
def test_filters(
    made: Made,
    profile: MakeProfile,
    pod: PodInfo,
    nodes: NodeRows,
    answers: list[Any],
    feasible: str,
    reasons: dict[str, str],
    asked: str,
) -> None:
    log = Asked()
    found = profile(*(log.plugin(made, name, "filter", answer) for name, answer in zip("AB", answers, strict=False)))
    outcome = found.run_filters(CycleState(), pod, nodes)
    assert "".join(name for name, passes in zip(NODES, outcome.feasible, strict=True) if passes) == feasible
    for name, reason in reasons.items():
        status = outcome.status_at(NODES.index(name))
        assert f"{status.plugin} {status.message}" == reason
    assert "".join(log.names) == asked


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(refusing("b", BROKEN), 'running "A" filter plugin: broken', id="an error on one node"),
        pytest.param(refusing("b", SKIP), 'running "A" filter plugin: ', id="a status that has no place here"),
        pytest.param(ValueError("odd"), 'running "A" filter plugin: ValueError: odd', id="an exception"),
    ],
)
def test_a_filter_that_breaks_the_attempt(
    made: Made, profile: MakeProfile, pod: PodInfo, nodes: NodeRows, answer: Any, message: str
) -> None:
    with pytest.raises(CycleError) as caught:
        profile(made("A", filter=answer)).run_filters(CycleState(), pod, nodes)
    assert told(caught.value.status).message == message


@pytest.mark.parametrize(
    ("per_node", "seen"),
    [
        pytest.param(False, "abcd", id="columns see every node"),
        pytest.param(True, "bd", id="per node only those that pass so far"),
    ],
)
def test_which_nodes_a_filter_is_shown(
    made: Made, profile: MakeProfile, pod: PodInfo, nodes: NodeRows, per_node: bool, seen: str
) -> None:
    shown: list[str] = []

    def look(state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict:
        shown.extend(info.name for info in nodes.infos)
        return refusing("d")(state, pod, nodes)

    first, second = made("A", filter=refusing("ac")), made("B", traits=Traits(per_node=per_node), filter=look)
    outcome = profile(first, second).run_filters(CycleState(), pod, nodes)
    assert "".join(shown) == seen
    assert outcome.feasible.tolist() == [False, True, False, False]
    assert outcome.status_at(3).plugin == "B"


def test_some_filters_only(made: Made, profile: MakeProfile, pod: PodInfo, nodes: NodeRows) -> None:
    found = profile(made("A", filter=refusing("a")), made("B", filter=refusing("b")))
    assert found.run_filters(CycleState(), pod, nodes, found.filter[1:]).feasible.tolist() == [True, False, True, True]


def test_a_verdict_that_only_refuses_is_not_read(made: Made, pod: PodInfo, nodes: NodeRows) -> None:
    def phrase(number: int) -> Status:
        raise AssertionError("the text is not needed")

    verdict = Verdict(np.array([1, 2, 0, 0]), phrase, only_refuses=True)
    assert judge(resolve(made(filter=verdict)), CycleState(), pod, nodes) is verdict


# ---- plans -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reads", Reads, ids=lambda reads: reads.name)
@pytest.mark.parametrize("per_node", [False, True], ids=["columns", "per node"])
def test_answers_are_kept_up_to_the_nodes_own_pods(
    made: Made, profile: MakeProfile, reads: Reads, per_node: bool
) -> None:
    traits = Traits(filter_reads=reads, score_reads=reads, per_node=per_node)
    found = profile(made("A", traits=traits, filter=None, score=None))
    is_kept = reads <= Reads.ROW and not per_node
    assert bool(found.filter_plan(CycleState()).cached) is is_kept
    assert bool(found.score_plan(CycleState()).cached) is is_kept


@pytest.mark.parametrize(
    ("traits", "past_volumes"),
    [
        pytest.param(
            [Traits(filter_reads=Reads.NODE, score_reads=Reads.NODE)], False, id="one that may look at volumes"
        ),
        pytest.param(
            [Traits(filter_reads=Reads.NODE, score_reads=Reads.NODE, uses_volumes=False), Traits()],
            True,
            id="what is not kept does not count",
        ),
    ],
)
def test_pods_that_differ_in_volumes_share_answers(
    made: Made, profile: MakeProfile, traits: list[Traits], past_volumes: bool
) -> None:
    plugins = (made(name, traits=t, filter=None, score=None) for name, t in zip("AB", traits, strict=False))
    found = profile(*plugins)
    assert found.filter_plan(CycleState()).uses_volumes is not past_volumes
    assert found.score_plan(CycleState()).uses_volumes is not past_volumes


def test_the_same_skips_give_the_same_plan(made: Made, profile: MakeProfile) -> None:
    found = profile(made("A", filter=None, score=None), made("B", filter=None, score=None))
    first, second, other = CycleState(), CycleState(), CycleState()
    other.skip_filter.add("A")
    other.skip_score.add("B")
    assert found.filter_plan(first) is found.filter_plan(second) is not found.filter_plan(other)
    assert found.score_plan(first) is found.score_plan(second) is not found.score_plan(other)
    assert [plugin.name for plugin in found.filter_plan(other).active] == ["B"]
    assert [plugin.name for plugin, _ in found.score_plan(other).active] == ["A"]


KEPT = Traits(filter_reads=Reads.NODE)


@pytest.mark.parametrize(
    ("other", "is_shared"),
    [
        pytest.param({"traits": KEPT}, True, id="all are kept"),
        pytest.param({}, False, id="one is not"),
        pytest.param({"concerns": False}, True, id="one is not, but has nothing to say about this pod"),
        pytest.param({"concerns": True}, False, id="one is not, and has"),
    ],
)
def test_whether_all_that_can_refuse_a_pod_is_kept(
    made: Made, profile: MakeProfile, pod: PodInfo, other: dict[str, Any], is_shared: bool
) -> None:
    found = profile(made("A", traits=KEPT, filter=None), made("B", filter=None, **other))
    assert found.filter_plan(CycleState()).keeps_all(pod) is is_shared


@pytest.mark.parametrize(
    ("reads", "figures_only"),
    [(Reads.NODE, True), (Reads.RESOURCES, True), (Reads.ROW, False)],
    ids=lambda value: value.name if isinstance(value, Reads) else "",
)
def test_whether_figures_are_all_that_is_read(
    made: Made, profile: MakeProfile, reads: Reads, figures_only: bool
) -> None:
    found = profile(made("A", traits=Traits(filter_reads=reads), filter=None), made("B", filter=None))
    assert found.filter_plan(CycleState()).reads_figures_only is figures_only


def test_what_kept_answers_depend_on(made: Made, profile: MakeProfile) -> None:
    version = [1]
    found = profile(
        made("A", traits=KEPT, filter=None, cache_token=lambda: version[0]),
        made("B", traits=KEPT, filter=None),
        made("C", filter=None, cache_token=lambda: pytest.fail("its answers are not kept")),
    )
    plan = found.filter_plan(CycleState())
    before = plan.token()
    assert before == plan.token()
    version[0] = 2
    assert plan.token() != before


# ---- PreScore ----------------------------------------------------------------------------------------------------


def test_a_pre_score_that_skips_leaves_its_plugin_out(
    made: Made, profile: MakeProfile, pod: PodInfo, nodes: NodeRows
) -> None:
    found = profile(made("A", pre_score=SKIP, score=None), made("B", pre_score=SUCCESS, score=None))
    state = CycleState()
    found.run_pre_score(state, pod, nodes)
    assert state.skip_score == {"A"}
    assert [plugin.name for plugin, _ in found.score_plan(state).active] == ["B"]
    assert [plugin.name for plugin in found.score_plan(state).asked] == ["B"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(BROKEN, 'running PreScore plugin "A": broken', id="an error"),
        pytest.param(NO, 'running PreScore plugin "A": no', id="a rejection, which comes too late here"),
        pytest.param(ValueError("odd"), 'running PreScore plugin "A": ValueError: odd', id="an exception"),
    ],
)
def test_a_pre_score_that_breaks_the_attempt(
    made: Made, profile: MakeProfile, pod: PodInfo, nodes: NodeRows, answer: Any, message: str
) -> None:
    log = Asked()
    found = profile(made("A", pre_score=answer), log.plugin(made, "B", "pre_score", SUCCESS))
    with pytest.raises(CycleError) as caught:
        found.run_pre_score(CycleState(), pod, nodes)
    assert told(caught.value.status).message == message and log.names == []


# ---- Reserve -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "want", "asked"),
    [
        pytest.param([SUCCESS, SUCCESS], SUCCESS, "AB", id="all reserve"),
        pytest.param([NO, SUCCESS], NO.by("A"), "A", id="a rejection is signed: its events wake the pod"),
        pytest.param([PENDING, SUCCESS], PENDING.by("A"), "A", id="pending is a rejection"),
        pytest.param(
            [SUCCESS, BROKEN],
            Status(Code.ERROR, ('running Reserve plugin "B": broken',), "B"),
            "AB",
            id="an error says where it comes from",
        ),
        pytest.param(
            [WAIT],
            Status(Code.ERROR, ('running Reserve plugin "A": ',), "A"),
            "A",
            id="a status that has no place here is an error",
        ),
    ],
)
def test_reserve(made: Made, profile: MakeProfile, pod: PodInfo, answers: list[Any], want: Status, asked: str) -> None:
    log = Asked()
    plugins = (log.plugin(made, n, "reserve", a, unreserve=None) for n, a in zip("AB", answers, strict=False))
    assert profile(*plugins).run_reserve(CycleState(), pod, "a") == want
    assert "".join(log.names) == asked


def test_what_a_reserve_raises_is_this_pods_error(made: Made, profile: MakeProfile, pod: PodInfo) -> None:
    with pytest.raises(CycleError, match='running Reserve plugin "A": ValueError: odd'):
        profile(made("A", reserve=ValueError("odd"), unreserve=None)).run_reserve(CycleState(), pod, "a")


def test_reservations_are_undone_last_first_after_any_failure(made: Made, profile: MakeProfile, pod: PodInfo) -> None:
    log = Asked()
    answers = (None, ValueError("odd"), None)
    plugins = (log.plugin(made, n, "unreserve", a, reserve=SUCCESS) for n, a in zip("ABC", answers, strict=True))
    problems = profile(*plugins).run_unreserve(CycleState(), pod, "a")
    assert log.names == ["C", "B", "A"]
    assert [(each.plugin, PLACE.sub("", each.message)) for each in problems] == [("B", "ValueError: odd")]


# ---- timing ------------------------------------------------------------------------------------------------------


def test_an_attempt_with_a_timer_calls_its_plugins_through_it(
    made: Made, profile: MakeProfile, pod: PodInfo, nodes: NodeRows
) -> None:
    told: list[str] = []
    state = CycleState()
    state.timer = PluginTimer(lambda: 0.0, lambda name, method, code, seconds: told.append(method))
    found = profile(
        made("A", pre_filter=SUCCESS, filter=None, pre_score=SUCCESS, score=None, reserve=SUCCESS, unreserve=None)
    )
    found.run_pre_filter(state, pod, nodes)
    found.run_filters(state, pod, nodes)
    found.run_pre_score(state, pod, nodes)
    found.run_reserve(state, pod, "a")
    found.run_unreserve(state, pod, "a")
    assert told == ["pre_filter", "filter", "pre_score", "reserve", "unreserve"]
