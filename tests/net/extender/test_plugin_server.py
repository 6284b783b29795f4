"""A plugin served as an extender: what its extension points make of a request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring import sdk
from mooring.api.errors import PluginError
from mooring.net.extender import plugin_server
from mooring.net.extender.conformance import args_body, make_node, make_pod
from mooring.net.extender.plugin_server import PluginServer
from mooring.net.extender.sdk import HandlerError

NODES = [make_node(i) for i in range(4)]
NAMES = [node["metadata"]["name"] for node in NODES]


class Ssd(sdk.NodeFilter):
    name = "Ssd"

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        return sdk.SUCCESS if node.labels["disk"] == "ssd" else sdk.unresolvable("no ssd")


class NotZoneB(sdk.NodeFilter):
    name = "NotZoneB"

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        is_b = node.labels["topology.kubernetes.io/zone"] == "zone-b"
        return sdk.unschedulable("in zone b") if is_b else sdk.SUCCESS


class Last(sdk.NodeScore):
    name = "Last"

    def score(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> int:
        return 100 if node.name == NAMES[-1] else 44


class Nothing(Last):
    name = "Nothing"

    def score(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> int:
        return 0


class Beyond(Last):
    name = "Beyond"

    def score(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> int:
        return 101


class Raises(Ssd):
    name = "Raises"

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        raise ZeroDivisionError("by hand")


def ask(server: PluginServer, verb: str, nodes: list[dict[str, Any]] = NODES) -> Any:
    return json.loads(server.served().verbs[verb](args_body(make_pod("p"), nodes, by_name=False))[0])


@pytest.mark.parametrize(
    ("plugins", "kept", "failed", "for_good"),
    [
        pytest.param([Ssd], [1, 3], {}, {0: "no ssd", 2: "no ssd"}, id="one plugin"),
        pytest.param([NotZoneB], [0, 2, 3], {1: "in zone b"}, {}, id="another plugin"),
        pytest.param([Ssd, NotZoneB], [3], {1: "in zone b"}, {0: "no ssd", 2: "no ssd"}, id="both"),
        pytest.param([NotZoneB, Ssd], [3], {1: "in zone b"}, {0: "no ssd", 2: "no ssd"}, id="the first refusal counts"),
    ],
)
def test_filters(plugins: list[type], kept: list[int], failed: dict[int, str], for_good: dict[int, str]) -> None:
    answer = ask(PluginServer(plugins), "filter")
    assert answer["Nodes"]["items"] == [NODES[i] for i in kept]
    assert answer["FailedNodes"] == {NAMES[i]: text for i, text in failed.items()}
    assert answer["FailedAndUnresolvableNodes"] == {NAMES[i]: text for i, text in for_good.items()}


@pytest.mark.parametrize(
    ("plugins", "scores"),
    [
        pytest.param([Last], [4, 4, 4, 10], id="from 0 to 100 becomes from 0 to 10"),
        pytest.param([Last, Nothing], [2, 2, 2, 5], id="of two plugins the mean"),
    ],
)
def test_scores(plugins: list[type], scores: list[int]) -> None:
    answer = ask(PluginServer(plugins), "prioritize")
    assert answer == [{"Host": name, "Score": score} for name, score in zip(NAMES, scores, strict=True)]


@pytest.mark.parametrize(
    ("plugin", "verb", "said"),
    [
        pytest.param(Raises, "filter", "ZeroDivisionError: by hand", id="a filter that raises"),
        pytest.param(Beyond, "prioritize", 'plugin "Beyond" returns an invalid score 101', id="a score beyond 100"),
    ],
)
def test_plugins_that_fail(plugin: type, verb: str, said: str) -> None:
    with pytest.raises(HandlerError) as caught:
        ask(PluginServer([plugin]), verb)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("plugins", "verbs", "name"),
    [
        pytest.param([Ssd], ["filter"], "Ssd", id="a filter"),
        pytest.param([Last], ["prioritize"], "Last", id="a scorer"),
        pytest.param([Ssd, Last], ["filter", "prioritize"], "Ssd+Last", id="both"),
    ],
)
def test_verbs_are_those_that_the_plugins_can_answer(plugins: list[type], verbs: list[str], name: str) -> None:
    served = PluginServer(plugins).served(weight=3)
    assert (list(served.verbs), served.settings.name, served.settings.weight) == (verbs, name, 3)
    assert not served.settings.node_cache_capable, "whole nodes have to be sent"


def test_a_plugin_that_cannot_be_served_is_refused() -> None:
    class Binder:
        name = "Binder"

        def __init__(self, args: Any, handle: Any) -> None: ...

        def post_bind(self, state: Any, pod: Any, node_name: str) -> None: ...

    with pytest.raises(PluginError, match="postBind, which work inside a scheduler alone"):
        PluginServer([Binder])


def test_a_changed_node_is_seen_in_its_new_version() -> None:
    server = PluginServer([Ssd])
    assert len(ask(server, "filter")["Nodes"]["items"]) == 2
    changed = make_node(0)
    changed["metadata"]["labels"]["disk"] = "ssd"
    assert ask(server, "filter", [changed])["Nodes"]["items"] == [changed]


def test_nodes_without_further_requests_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_server, "MAX_NODES", 10)
    server = PluginServer([Ssd])
    for start in range(0, 60, 6):
        ask(server, "filter", [make_node(i) for i in range(start, start + 6)])
    assert len(server.cluster.nodes().table.nodes) <= 16
