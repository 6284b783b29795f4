"""Opportunistic batching: when an equal pod right after takes the next best node without a search."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.testing import Scheduler, bound, make_node, make_pod

LIST = {
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "List"}}],
        }
    ]
}


def full_size(number: int, **more: Any) -> Any:
    """A pod of which only one fits on a node: after it the node is out, as batching needs."""
    return make_pod(f"p{number}", host_ports=[8080], cpu="500m", memory="512Mi", **more)


def scheduler(config: Any = LIST) -> Scheduler:
    return Scheduler(*(make_node(f"n{i}", cpu=1 << i, memory=f"{1 << i}Gi") for i in range(5)), config=config)


def test_equal_pods_in_quick_succession_take_the_ranking_in_order() -> None:
    on = scheduler()
    decisions = [on.place(full_size(i)) for i in range(5)]
    assert [d.from_hint for d in decisions] == [False, True, True, True, True]
    assert [d.node for d in decisions] == ["n4", "n3", "n2", "n1", "n0"]
    assert all(d.scores is None and d.evaluated_nodes == 1 for d in decisions[1:])


def test_with_the_default_configuration_no_pod_is_like_another() -> None:
    on = scheduler(None)
    assert not any(on.place(full_size(i)).from_hint for i in range(4))


def second(change: Any) -> bool:
    """Whether the second of two pods takes a hint after something has happened in between."""
    on = scheduler()
    on.place(full_size(0))
    pod = full_size(1)
    changed = change(on, pod)
    return on.place(pod if changed is None else changed).from_hint


@pytest.mark.parametrize(
    ("change", "hinted"),
    [
        pytest.param(lambda on, pod: None, True, id="nothing happened"),
        pytest.param(lambda on, pod: on.clock.advance(0.5), True, id="half a second is in time"),
        pytest.param(lambda on, pod: on.clock.advance(0.6), False, id="later is too late"),
        pytest.param(lambda on, pod: full_size(1, priority=3), True, id="priority is not in the signature"),
        pytest.param(lambda on, pod: full_size(1, labels={"a": "b"}), False, id="labels are"),
        pytest.param(lambda on, pod: full_size(1, image="other:1"), False, id="images are"),
        pytest.param(lambda on, pod: make_pod("q", host_ports=[8080], cpu="200m"), False, id="requests are"),
        pytest.param(lambda on, pod: on.decide(make_pod("between")) and None, False, id="another pod came between"),
        pytest.param(lambda on, pod: on.put(make_node("new")), False, id="nodes were laid out again"),
        pytest.param(lambda on, pod: on.cluster.remove_pod("uid-default-p0"), False, id="the last node is free again"),
        pytest.param(
            lambda on, pod: full_size(1, spec={"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "x", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}]}),
            False, id="a pod that spreads is like no other"),
    ],
)  # fmt: skip
def test_when_a_ranking_still_holds(change: Any, hinted: bool) -> None:
    assert second(change) is hinted


def test_a_hint_that_does_not_fit_leads_to_a_search() -> None:
    on = scheduler()
    on.place(full_size(0))
    on.put(make_pod("intruder", node="n3", host_ports=[8080]))
    decision = on.place(full_size(1))
    assert not decision.from_hint and decision.node == "n2" and decision.scores is not None


def test_a_hinted_pod_goes_where_a_search_would_have_put_it() -> None:
    hinted, searched = scheduler(), scheduler(None)
    assert [hinted.place(full_size(i)).node for i in range(5)] == [searched.place(full_size(i)).node for i in range(5)]


def test_adopting_another_node_ranks_the_rest() -> None:
    """A replay, or a bind elsewhere, moves the last pod: its own node must not be hinted."""
    on = scheduler()
    on.decide(full_size(0))
    profile = on.profiles["default-scheduler"]
    on.put(bound(full_size(0), "n2"))
    on.session.engine.adopt(profile, "n2")
    assert on.place(full_size(1)).node == "n4"
