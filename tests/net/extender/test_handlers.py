"""Which verbs an extender has, and what is found wrong with it before it is served."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from asking import NAMES, ask

from mooring.api.errors import PluginError
from mooring.net.extender.requests import BadExtenderRequest
from mooring.net.extender.sdk import Binding, CallFacts, Extender, Node, Pod
from mooring.net.extender.server import serve_object


def keep_names(pod: Pod, nodes: list[str]) -> list[str]:
    return nodes


def keep_nodes(pod: Pod, node: Node) -> bool:
    return True


def score_names(pod: Pod, node: str) -> int:
    return 1


def agree(pod: Pod, victims: dict[str, Any]) -> dict[str, Any]:
    return victims


def refuse_binding(binding: Binding) -> None:
    raise PermissionError(f"{binding.namespace}/{binding.name} ({binding.uid}) may not go to {binding.node}")


def forget_binding(binding: Binding) -> None:
    pass


class Counting(Extender):
    def __init__(self) -> None:
        self.calls = 0

    def filter(self, pod: Pod, nodes: list[str]) -> list[str]:
        self.calls += 1
        return nodes[: self.calls]


@pytest.mark.parametrize(
    ("functions", "verbs", "by_name"),
    [
        pytest.param({"filter": keep_names}, ["filter"], True, id="a filter of names"),
        pytest.param({"filter": keep_nodes}, ["filter"], False, id="a filter of nodes"),
        pytest.param({"filter": keep_names, "prioritize": score_names}, ["filter", "prioritize"], True, id="all names"),
        pytest.param(
            {"prioritize": score_names, "filter": keep_nodes}, ["filter", "prioritize"], False, id="one reads"
        ),
        pytest.param({"preempt": agree}, ["preempt"], False, id="preempt alone"),
        pytest.param({"bind": forget_binding}, ["bind"], False, id="bind alone"),
        pytest.param({"filter": keep_names, "other": len, "bind": 7}, ["filter"], True, id="other things beside it"),
    ],
)
def test_verbs(functions: dict[str, Any], verbs: list[str], by_name: bool) -> None:
    served = serve_object(SimpleNamespace(**functions), "my_ext.py")
    assert list(served.verbs) == verbs
    assert served.settings.node_cache_capable is by_name


def test_a_class_is_made_once_and_keeps_its_state() -> None:
    served = serve_object(Counting, "my_ext.py")
    for count in (1, 2):
        assert ask(served.verbs["filter"], by_name=True)[0]["NodeNames"] == NAMES[:count]
    instance = Counting()
    instance.calls = 3
    assert ask(serve_object(instance, "x").verbs["filter"], by_name=True)[0]["NodeNames"] == NAMES


class NeedsArguments(Extender):
    def __init__(self, path: str) -> None: ...


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param(SimpleNamespace(), "defines none of filter, prioritize, preempt, bind", id="no verb"),
        pytest.param(NeedsArguments, "NeedsArguments is made without arguments, but:", id="arguments"),
        pytest.param(SimpleNamespace(filter=len), "filter(obj): its parameters should be", id="another function"),
        pytest.param(
            SimpleNamespace(bind=keep_names), "bind(pod, nodes): its parameter should be (binding)", id="bind"
        ),
        pytest.param(
            SimpleNamespace(filter=keep_names, weight=0), "weight is 0; expected a number above 0", id="no weight"
        ),
    ],
)
def test_what_is_wrong_is_found_before_it_is_served(source: Any, said: str) -> None:
    with pytest.raises(PluginError) as caught:
        serve_object(source, "my_ext.py")
    assert str(caught.value).startswith("my_ext.py: ") and said in str(caught.value)


BINDING = json.dumps({"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n"}).encode()


def test_binding() -> None:
    bind = serve_object(SimpleNamespace(bind=forget_binding), "x").verbs["bind"]
    assert bind(BINDING) == (b'{"Error":""}', CallFacts("d/p", 1, 1))
    with pytest.raises(BadExtenderRequest, match="not BindingArgs: Object missing required field PodName"):
        bind(b"{}")
    with pytest.raises(PermissionError, match=r"d/p \(u\) may not go to n"):
        serve_object(SimpleNamespace(bind=refuse_binding), "x").verbs["bind"](BINDING)
