"""TaintToleration (spec 2.5)."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.framework.status import Code
from mooring.core.plugins.taint_toleration import TaintToleration
from mooring.testing import filter_statuses, make_cluster, make_handle, make_node, make_pod, scores


def plugin(cluster: Any) -> TaintToleration:
    return TaintToleration(None, make_handle(cluster))


GPU = {"key": "dedicated", "operator": "Equal", "value": "gpu"}


@pytest.mark.parametrize(
    ("taints", "tolerations", "passes"),
    [
        pytest.param([], [], True, id="no taints"),
        pytest.param(["dedicated=gpu:NoSchedule"], [], False, id="NoSchedule"),
        pytest.param(["dedicated=gpu:NoExecute"], [], False, id="NoExecute"),
        pytest.param(["dedicated=gpu:PreferNoSchedule"], [], True, id="PreferNoSchedule rejects no pod"),
        pytest.param(["dedicated=gpu:NoSchedule"], [GPU], True, id="tolerated"),
        pytest.param(["dedicated=gpu:NoSchedule", "x:NoExecute"], [GPU], False, id="one of two is not tolerated"),
        pytest.param(["dedicated=gpu:NoSchedule"], [{**GPU, "effect": "NoExecute"}], False, id="for another effect"),
    ],
)
def test_filter(taints: list[str], tolerations: list[Any], passes: bool) -> None:
    cluster = make_cluster(make_node("a", taints=taints))
    status = filter_statuses(plugin(cluster), cluster, make_pod(spec={"tolerations": tolerations}))["a"]
    assert status.is_success is passes
    if not passes:
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert status.reasons == ("node(s) had untolerated taint(s)",), "trap 16: no key, no value"


def minding(n: int) -> list[str]:
    return [f"t{i}:PreferNoSchedule" for i in range(n)]


def test_appendix_a4_counts_of_minded_taints() -> None:
    cluster = make_cluster(*(make_node(f"n{n}", taints=minding(n)) for n in range(4)))
    assert scores(plugin(cluster), cluster, make_pod()) == {"n0": 100, "n1": 67, "n2": 34, "n3": 0}


@pytest.mark.parametrize(
    ("tolerations", "raw"),
    [
        pytest.param([], 2, id="each counts"),
        pytest.param([{"key": "t0", "operator": "Exists"}], 1, id="a tolerated one does not"),
        pytest.param([{"key": "t0", "operator": "Exists", "effect": "PreferNoSchedule"}], 1, id="by effect"),
        pytest.param([{"key": "t0", "operator": "Exists", "effect": "NoSchedule"}], 2, id="not by another effect"),
        pytest.param([{"operator": "Exists"}], 0, id="everything is tolerated"),
    ],
)
def test_what_counts(tolerations: list[Any], raw: int) -> None:
    cluster = make_cluster(make_node("a", taints=[*minding(2), "hard:NoSchedule"]))
    found = scores(plugin(cluster), cluster, make_pod(spec={"tolerations": tolerations}), normalized=False)
    assert found == {"a": raw}


def test_trap_7_without_intolerable_taints_all_nodes_get_100() -> None:
    cluster = make_cluster(make_node("a"), make_node("b", taints=["x:NoSchedule"]))
    assert scores(plugin(cluster), cluster, make_pod()) == {"a": 100, "b": 100}


def test_only_feasible_nodes_are_compared() -> None:
    cluster = make_cluster(*(make_node(f"n{n}", taints=minding(n)) for n in range(4)))
    assert scores(plugin(cluster), cluster, make_pod(), ["n0", "n1"]) == {"n0": 100, "n1": 0}
