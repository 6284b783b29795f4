"""The search for what would help: real nodes, users' plugins, and plugins that break."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mooring import sdk
from mooring.api.core import Node, Pod
from mooring.core.explain.why import Explanation, explain_pod
from mooring.testing import Scheduler, make_node, make_object, make_pod

CORDONED = "node.kubernetes.io/unschedulable:NoSchedule"  # what the node lifecycle controller adds


def explained(pod: Pod, *objects: Any, plugins: tuple[type, ...] = ()) -> Explanation:
    enabled = [{"name": plugin.name} for plugin in plugins]  # type: ignore[attr-defined]
    points = {"multiPoint": {"enabled": enabled}}
    config = {"profiles": [{"schedulerName": "default-scheduler", "plugins": points}]}
    return explain_pod(Scheduler(*objects, config=config, plugins=plugins).session, pod)


def texts(found: Explanation) -> list[str]:
    return [suggestion.text for suggestion in found.suggestions]


@pytest.mark.parametrize(
    ("nodes", "want"),
    [
        pytest.param(
            [make_node("a", unschedulable=True, taints=[CORDONED])], ["uncordon a"], id="alone, with its taint"
        ),
        pytest.param(
            [make_node("a", unschedulable=True, taints=[CORDONED]), make_node("b", taints=["x=y:NoSchedule"])],
            ["tolerate x=y:NoSchedule: 1 more node", "uncordon a"],
            id="beside a node that another change would open",
        ),
        pytest.param(
            [make_node(name, unschedulable=True, taints=[CORDONED]) for name in "abc"],
            ["uncordon a (or b, c)"],
            id="several of them",
        ),
        pytest.param(
            [make_node("a", unschedulable=True, taints=[CORDONED, "x=y:NoSchedule"])],
            ["uncordon a and tolerate x=y:NoSchedule"],
            id="and otherwise tainted, too",
        ),
    ],
)
def test_a_cordoned_node_is_to_be_uncordoned(nodes: list[Node], want: list[str]) -> None:
    assert texts(explained(make_pod(), *nodes)) == want


def test_where_one_change_helps_no_node_is_repaired_in_several_steps() -> None:
    nodes = [make_node("a", taints=["x=y:NoSchedule"]), make_node("b", unschedulable=True, taints=["p=q:NoSchedule"])]
    assert texts(explained(make_pod(), *nodes)) == ["tolerate x=y:NoSchedule: 1 more node"]


def test_a_pod_that_a_claim_holds_back_fits_without_it() -> None:
    pod = make_pod(spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "missing"}]})
    found = explained(pod, make_node("a"))
    assert found.outcome.value == "gated"
    assert texts(found) == ["without resource claim gpu (missing): 1 more node"]


# ---- a user's plugin ---------------------------------------------------------------------------------------------


def _label(node: Node) -> None:
    node.metadata.labels = {**node.metadata.labels, "cpu": "true"}


class CpuLabelled(sdk.NodeFilter):
    name = "CpuLabelled"

    def filter(self, state: sdk.CycleState, pod: Pod, node: sdk.NodeView) -> sdk.Status:
        return sdk.SUCCESS if node.labels.get("cpu") == "true" else sdk.unschedulable("no cpu")

    def remedies(self, state: sdk.CycleState, pod: Pod, nodes: sdk.NodeViews) -> Iterator[sdk.Change]:
        for node in nodes:
            yield sdk.Change("label cpu=true on {node}", "label", 2.0, node=node.name, edit_node=_label)
            yield sdk.Change("cross your fingers", cost=0.5, edit=lambda pod: None)

    def facts(self, state: sdk.CycleState, pod: Pod, nodes: sdk.NodeViews) -> Iterator[str]:
        yield f"{len(nodes)} nodes without the label cpu"


def test_only_helpful_remedies_of_a_users_plugin_are_shown() -> None:
    found = explained(make_pod(), make_node("a"), make_node("b"), plugins=(CpuLabelled,))
    assert texts(found) == ["label cpu=true on a (or b)"]
    assert found.notes == ["2 nodes without the label cpu"]


def test_a_users_remedy_takes_part_in_several_steps() -> None:
    found = explained(make_pod(cpu="5"), make_node("a"), plugins=(CpuLabelled,))
    assert texts(found) == ["1 less CPU (4 instead of 5) and label cpu=true on a"]


def _fails(pod: Pod) -> None:
    raise KeyError("spec")


@pytest.mark.parametrize(
    ("offers", "note"),
    [
        pytest.param(
            lambda: 1 / 0,
            "plugin Broken could not say what would help: ZeroDivisionError: division by zero",
            id="it raises",
        ),
        pytest.param(
            lambda: ["pray"],
            "plugin Broken could not say what would help: TypeError: found 'p', expected a Change",
            id="it offers something else",
        ),
        pytest.param(
            lambda: [sdk.Change("break", edit=_fails)],
            "the remedy 'break' could not be tried: KeyError: 'spec'",
            id="its change raises",
        ),
        pytest.param(
            lambda: [sdk.Change("elsewhere", node="nowhere", edit_node=_label)],
            "the remedy 'elsewhere' could not be tried: KeyError: 'nowhere'",
            id="its change names a node that does not exist",
        ),
    ],
)
def test_a_plugin_that_breaks_costs_a_note_and_not_the_explanation(offers: Any, note: str) -> None:
    class Broken(sdk.NodeFilter):
        name = "Broken"

        def filter(self, state: sdk.CycleState, pod: Pod, node: sdk.NodeView) -> sdk.Status:
            return sdk.unschedulable("no")

        def remedies(self, state: sdk.CycleState, pod: Pod, nodes: sdk.NodeViews) -> Any:
            return offers()

    found = explained(make_pod(), make_node("a"), plugins=(Broken,))
    assert texts(found) == ["only Broken stands in the way: 1 more node"]
    assert found.notes == [note]


def test_facts_that_break_cost_a_note() -> None:
    class Sad(sdk.NodeFilter):
        name = "Sad"

        def filter(self, state: sdk.CycleState, pod: Pod, node: sdk.NodeView) -> sdk.Status:
            return sdk.unschedulable("no")

        def facts(self, state: sdk.CycleState, pod: Pod, nodes: sdk.NodeViews) -> list[str]:
            raise ValueError("no idea")

    found = explained(make_pod(), make_node("a"), plugins=(Sad,))
    assert found.notes == ["plugin Sad could not state facts: ValueError: no idea"]


def test_a_plugin_that_holds_pods_back_offers_remedies_too() -> None:
    class Paid(sdk.PreEnqueue):
        name = "Paid"

        def pre_enqueue(self, pod: Pod) -> sdk.Status:
            return sdk.SUCCESS if "paid" in pod.labels else sdk.unschedulable("not paid")

        def remedies(self, state: sdk.CycleState, pod: Pod, nodes: sdk.NodeViews) -> Iterator[sdk.Change]:
            yield sdk.Change("pay", edit=lambda pod: pod.metadata.labels.update(paid="yes"))

    assert texts(explained(make_pod(), make_node("a"), plugins=(Paid,))) == ["pay: 1 more node"]


def test_endless_offers_are_cut_off() -> None:
    class Endless(CpuLabelled):
        name = "Endless"

        def remedies(self, state: sdk.CycleState, pod: Pod, nodes: sdk.NodeViews) -> Iterator[sdk.Change]:
            number = 0
            while True:
                number += 1
                yield sdk.Change(f"wish {number}", edit=lambda pod: None)

    assert texts(explained(make_pod(), make_node("a"), plugins=(Endless,))) == [
        "only Endless stands in the way: 1 more node"
    ]


def test_volume_plugins_that_offer_the_same_ask_once() -> None:
    claim = make_object("PersistentVolumeClaim", "data", "default", spec={"volumeName": "gone"})
    pod = make_pod(spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]})
    found = explained(pod, make_node("a"), claim)
    assert texts(found).count("without volume v (claim default/data, volume gone): 1 more node") == 1
