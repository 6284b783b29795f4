"""The examples do what their texts say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripted_server import Script, serving

from mooring.core.config.plugin_loading import find_plugins
from mooring.net.extender.conformance import args_body, make_node, make_pod
from mooring.net.extender.plugin_server import PluginServer
from mooring.net.extender.server import load_extender

EXAMPLES = Path(__file__).parents[3] / "examples" / "03-extenders"


def ask(served: Any, verb: str, pod: dict[str, Any], nodes: list[dict[str, Any]], *, by_name: bool = False) -> Any:
    return json.loads(served.verbs[verb](args_body(pod, nodes, by_name=by_name))[0])


def test_the_lucky_sample_refuses_with_its_well_known_words_and_repeats_itself() -> None:
    served = load_extender(str(EXAMPLES / "lucky.py"))
    nodes = [make_node(i) for i in range(40)]
    answer = ask(served, "filter", make_pod("a"), nodes)
    kept = {node["metadata"]["name"] for node in answer["Nodes"]["items"]}
    assert 5 < len(kept) < 35
    assert set(answer["FailedNodes"].values()) == {"Well, you're not lucky"}
    assert kept | answer["FailedNodes"].keys() == {node["metadata"]["name"] for node in nodes}
    assert answer == ask(served, "filter", make_pod("a"), nodes)
    assert {entry["Score"] for entry in ask(served, "prioritize", make_pod("a"), nodes)} <= set(range(11))


def test_licences_are_asked_for_once_per_product(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Script()) as service:
        service.say("/free", {"body": {"node-00000": 0, "node-00001": 3, "node-00002": 40}})
        monkeypatch.setenv("LICENCE_URL", f"http://127.0.0.1:{service.port}/free")
        served = load_extender(str(EXAMPLES / "licences.py"))
        assert served.settings.node_cache_capable
        pod = make_pod("cad-1")
        pod["metadata"]["labels"]["example.com/product"] = "cad"
        nodes = [make_node(i) for i in range(3)]
        answer = ask(served, "filter", pod, nodes, by_name=True)
        assert answer["NodeNames"] == ["node-00001", "node-00002"]
        assert answer["FailedNodes"] == {"node-00000": "no free licence for cad"}
        scores = {entry["Host"]: entry["Score"] for entry in ask(served, "prioritize", pod, nodes, by_name=True)}
        assert scores == {"node-00000": 0, "node-00001": 3, "node-00002": 10}
        assert [asked.body["product"] for asked in service.asked] == ["cad"]
        assert len(ask(served, "filter", make_pod("plain-1"), nodes, by_name=True)["NodeNames"]) == 3


def test_the_plugin_is_served_unchanged() -> None:
    plugins = find_plugins(str(EXAMPLES / "quiet_nodes.py"))
    served = PluginServer(plugins, {"QuietNodes": {"label": "maintenance"}}).served()
    nodes = [make_node(i) for i in range(3)]
    nodes[0]["metadata"]["labels"]["maintenance"] = "0"
    nodes[1]["metadata"]["labels"]["maintenance"] = "42"
    answer = ask(served, "filter", make_pod("a"), nodes)
    assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == ["node-00001", "node-00002"]
    assert answer["FailedAndUnresolvableNodes"] == {"node-00000": "node(s) are about to be maintained"}
    scores = ask(served, "prioritize", make_pod("a"), nodes)
    assert [entry["Score"] for entry in scores] == [0, 4, 10]
    nodes[0]["metadata"]["labels"]["maintenance"] = "9"
    assert len(ask(served, "filter", make_pod("a"), nodes)["Nodes"]["items"]) == 3, "a node's new version counts"
