"""NodeUnschedulable (spec 2.3)."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.framework.status import SUCCESS, Code
from mooring.core.plugins.node_unschedulable import NodeUnschedulable
from mooring.testing import filter_statuses, make_cluster, make_handle, make_node, make_pod

KEY = "node.kubernetes.io/unschedulable"


@pytest.mark.parametrize(
    ("tolerations", "passes"),
    [
        pytest.param([], False, id="cordoned"),
        pytest.param([{"key": KEY, "operator": "Exists"}], True, id="tolerated by key"),
        pytest.param([{"key": KEY, "operator": "Exists", "effect": "NoSchedule"}], True, id="tolerated by effect"),
        pytest.param([{"key": KEY, "operator": "Exists", "effect": "NoExecute"}], False, id="another effect"),
        pytest.param([{"key": KEY, "operator": "Equal", "value": ""}], True, id="equal to the empty value"),
        pytest.param([{"key": KEY, "operator": "Equal", "value": "true"}], False, id="another value"),
        pytest.param([{"operator": "Exists"}], True, id="tolerates everything"),
    ],
)
def test_cordoned_nodes(tolerations: list[Any], passes: bool) -> None:
    cluster = make_cluster(make_node("cordoned", unschedulable=True), make_node("open"))
    statuses = filter_statuses(
        NodeUnschedulable(None, make_handle(cluster)), cluster, make_pod(spec={"tolerations": tolerations})
    )
    assert statuses["open"] is SUCCESS
    if passes:
        assert statuses["cordoned"] is SUCCESS
    else:
        assert statuses["cordoned"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert statuses["cordoned"].message == "node(s) were unschedulable"
