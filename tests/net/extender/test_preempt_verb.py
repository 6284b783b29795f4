"""With which victims a function agrees."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mooring.api.errors import PluginError
from mooring.net.extender.conformance import make_pod, preemption_body
from mooring.net.extender.requests import BadExtenderRequest
from mooring.net.extender.sdk import CallFacts, HandlerError, Victims
from mooring.net.extender.verbs import preempt_verb


def ask(returns: Callable[[dict[str, Victims]], Any], *, by_uid: bool = False) -> tuple[Any, CallFacts]:
    def preempt(pod: Any, victims: dict[str, Victims]) -> Any:
        return returns(victims)

    data, facts = preempt_verb(preempt, "p")(preemption_body(make_pod("urgent"), ["a", "b"], by_uid=by_uid))
    return json.loads(data)["NodeNameToMetaVictims"], facts


def uid_on(node: str) -> str:
    return make_pod(f"victim-on-{node}")["metadata"]["uid"]


def meta(*uids: str, violations: int = 0) -> dict[str, Any]:
    return {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}


@pytest.mark.parametrize("by_uid", [False, True], ids=["pods", "uids"])
@pytest.mark.parametrize(
    ("returns", "want"),
    [
        pytest.param(lambda victims: victims, {"a": meta(uid_on("a")), "b": meta(uid_on("b"))}, id="all"),
        pytest.param(lambda victims: {}, {}, id="none"),
        pytest.param(lambda victims: {"b": victims["b"]}, {"b": meta(uid_on("b"))}, id="one node"),
        pytest.param(lambda victims: {"a": ["u-1", "u-2"]}, {"a": meta("u-1", "u-2")}, id="other uids"),
        pytest.param(lambda victims: {"a": ()}, {"a": meta()}, id="no pod on a node"),
        pytest.param(
            lambda victims: {"a": Victims([], ["u"], 2)}, {"a": meta("u", violations=2)}, id="more violations"
        ),
        pytest.param(lambda victims: {"new": ["u"]}, {"new": meta("u")}, id="a node that was not offered"),
    ],
)
def test_what_it_may_return(returns: Callable[..., Any], want: dict[str, Any], by_uid: bool) -> None:
    found, facts = ask(returns, by_uid=by_uid)
    assert found == want and facts == CallFacts("default/urgent", 2, len(want))


def test_pods_come_whole_or_as_uids() -> None:
    seen: list[dict[str, Victims]] = []
    for by_uid in (False, True):
        ask(lambda victims: seen.append(victims) or {}, by_uid=by_uid)  # type: ignore[func-returns-value]
    whole, uids = seen
    assert [pod.name for pod in whole["a"].pods] == ["victim-on-a"] and whole["a"].uids == [uid_on("a")]
    assert list(uids["a"].pods) == [] and uids["a"].uids == [uid_on("a")]


def test_pods_that_are_left_out_are_no_victims() -> None:
    def none_on_a(victims: dict[str, Victims]) -> Any:
        left = victims["a"]
        return {"a": [pod for pod in left.pods if pod.name != "victim-on-a"], "b": list(victims["b"].pods)}

    assert ask(none_on_a)[0] == {"a": meta(), "b": meta(uid_on("b"))}


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        pytest.param(None, "preempt returned None; expected a mapping", id="nothing"),
        pytest.param(["a"], r"preempt returned \['a'\]; expected a mapping", id="names of nodes"),
        pytest.param({"a": "uid"}, "preempt gives 'a' 'uid'; expected Victims or uids", id="one uid"),
        pytest.param({"a": 7}, "preempt gives 'a' 7; expected Victims or uids", id="a number"),
    ],
)
def test_what_it_may_not_return(returned: object, said: str) -> None:
    with pytest.raises(HandlerError, match=said):
        ask(lambda victims: returned)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"", "the body is empty", id="nothing"),
        pytest.param(b"{}", "not PreemptionArgs: Object missing required field Pod", id="no pod"),
        pytest.param(
            b'{"Pod":{},"NodeNameToVictims":{"a":{"Pods":[7]}}}',
            r"NodeNameToVictims\[a\].Pods\[0\]: ",
            id="a number as a pod",
        ),
    ],
)
def test_requests_that_are_none(body: bytes, said: str) -> None:
    with pytest.raises(BadExtenderRequest, match=said):
        preempt_verb(lambda pod, victims: victims, "p")(body)


def test_no_pod_to_evict() -> None:
    data, facts = preempt_verb(lambda pod, victims: victims, "p")(b'{"Pod":{}}')
    assert json.loads(data) == {"NodeNameToMetaVictims": {}} and facts.nodes == 0


def test_its_parameters() -> None:
    with pytest.raises(PluginError, match=r"x: preempt\(pod\): its parameters should be \(pod, victims\)"):
        preempt_verb(lambda pod: {}, "x: preempt")
