"""Which disruption budgets an eviction would break."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.explain.decision import broken_budgets
from mooring.testing import make_cluster, make_object, make_pod

WEB = {"matchLabels": {"app": "web"}}


def budget(name: str, selector: Any, allowed: int = 0, namespace: str = "default") -> Any:
    spec, status = {"selector": selector}, {"disruptionsAllowed": allowed}
    return make_object("PodDisruptionBudget", name, namespace, spec=spec, status=status)


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([], [], id="there is none"),
        pytest.param([budget("keep", WEB)], ["default/keep"], id="it allows no disruption"),
        pytest.param([budget("keep", WEB, 1)], [], id="it allows one more"),
        pytest.param([budget("keep", {"matchLabels": {"app": "db"}})], [], id="it is about other pods"),
        pytest.param([budget("keep", WEB, namespace="shop")], [], id="it is in another namespace"),
        pytest.param([budget("keep", {})], [], id="an empty selector matches no pod, as upstream"),
        pytest.param([budget("a", WEB), budget("b", WEB)], ["default/a", "default/b"], id="there are two"),
        pytest.param(
            [budget("odd", {"matchExpressions": [{"key": "app", "operator": "Near"}]}), budget("keep", WEB)],
            ["default/keep"],
            id="one whose selector does not parse is passed over",
        ),
    ],
)
def test_broken_budgets(objects: list[Any], want: list[str]) -> None:
    assert list(broken_budgets(make_pod(labels={"app": "web"}), make_cluster(*objects))) == want
