"""Which plugins refused a pod, alone or together."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.explain.remedies import refusers, signers
from mooring.testing import decide, make_node, make_pod

NAMED = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NAMED]}}}


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(make_pod(), [], id="none"),
        pytest.param(make_pod(cpu="9"), ["NodeUnschedulable", "NodeResourcesFit"], id="each on other nodes"),
        pytest.param(make_pod(spec={"affinity": AFFINITY}), ["NodeAffinity"], id="before filtering"),
    ],
)
def test_refusers(pod: Any, want: list[str]) -> None:
    decision = decide(pod, make_node("a"), make_node("b", unschedulable=bool(want)))
    assert refusers(decision) == want
    assert decision.statuses is not None
    assert {name for status, _ in decision.statuses.groups() for name in signers(status, decision)} == set(want)


def test_without_nodes_no_plugin_refused() -> None:
    assert refusers(decide(make_pod())) == []
