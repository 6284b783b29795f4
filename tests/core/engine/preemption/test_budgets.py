"""Which evictions break a budget: in order, with what each budget still allows."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.engine.victims import Budgets
from mooring.testing import make_cluster, make_object, make_pod


def budget(allowed: int, selector: Any, namespace: str = "default", **status: Any) -> Any:
    status = {"disruptionsAllowed": allowed, **status}
    return make_object("PodDisruptionBudget", f"b{allowed}", namespace, spec={"selector": selector}, status=status)


WEB = {"matchLabels": {"app": "web"}}
NONSENSE = {"matchExpressions": [{"key": "app", "operator": "Nonsense"}]}
GOES = {"web1": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("budgets", "wanted"),
    [
        pytest.param([], "", id="no budgets"),
        pytest.param([budget(0, WEB)], "web1 web2", id="none allowed"),
        pytest.param([budget(1, WEB)], "web2", id="one allowed, and the first takes it"),
        pytest.param([budget(2, WEB)], "", id="enough allowed"),
        pytest.param([budget(1, WEB), budget(0, {"matchLabels": {"tier": "a"}})], "web2 db", id="one of two is enough"),
        pytest.param([budget(0, WEB, "other")], "", id="another namespace"),
        pytest.param([budget(0, {})], "", id="an empty selector protects no pod"),
        pytest.param([budget(0, None)], "", id="nor does a missing one"),
        pytest.param([budget(0, NONSENSE)], "", id="nor one that is nonsense"),
        pytest.param([budget(0, WEB, disruptedPods=GOES)], "web2", id="one is disrupted already"),
    ],
)  # fmt: skip
def test_partition(budgets: list[Any], wanted: str) -> None:
    cluster = make_cluster()
    pods = [
        cluster.info(make_pod("web1", labels={"app": "web"})),
        cluster.info(make_pod("db", labels={"app": "db", "tier": "a"})),
        cluster.info(make_pod("web2", labels={"app": "web"})),
        cluster.info(make_pod("bare")),
    ]
    violating, others = Budgets(budgets).partition(pods)
    assert " ".join(sorted(pod.pod.name for pod in violating)) == " ".join(sorted(wanted.split()))
    assert len(violating) + len(others) == len(pods)
