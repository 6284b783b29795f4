"""NodeDeclaredFeatures (spec 2.20)."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.framework.status import Code
from mooring.core.plugins.node_declared_features import NodeDeclaredFeatures, required_features
from mooring.testing import filter_statuses, make_cluster, make_handle, make_node, make_pod

RESTART, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"


def restarting(where: str) -> dict[str, Any]:
    rule = {"name": "c", "restartPolicyRules": [{"action": "Restart"}, {"action": "RestartAllContainers"}]}
    return {"containers": [rule if where == "containers" else {"name": "m"}]} | (
        {"initContainers": [rule]} if where == "initContainers" else {}
    )


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        pytest.param({}, set(), id="nothing special"),
        pytest.param(restarting("containers"), {RESTART}, id="a container that restarts all"),
        pytest.param(restarting("initContainers"), {RESTART}, id="an init container that restarts all"),
        pytest.param({"hostNetwork": True, "hostUsers": False}, {USERS}, id="host network in a user namespace"),
        pytest.param({"hostNetwork": True, "hostUsers": True}, set(), id="host network without one"),
        pytest.param({"hostNetwork": True}, set(), id="host network, users not said"),
        pytest.param({"hostUsers": False}, set(), id="a user namespace without host network"),
        pytest.param(
            {**restarting("containers"), "hostNetwork": True, "hostUsers": False}, {RESTART, USERS}, id="both"
        ),
    ],
)
def test_what_a_spec_needs(spec: dict[str, Any], needed: set[str]) -> None:
    assert required_features(make_pod(spec=spec).spec) == needed


def test_filter() -> None:
    cluster = make_cluster(
        make_node("none"), make_node("one", features=[USERS]), make_node("both", features=["New", RESTART, USERS])
    )
    plugin = NodeDeclaredFeatures(None, make_handle(cluster))
    spec = {**restarting("containers"), "hostNetwork": True, "hostUsers": False}
    statuses = filter_statuses(plugin, cluster, make_pod(spec=spec))
    assert statuses["both"].is_success
    for name in ("none", "one"):
        assert statuses[name].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert statuses[name].message == "node(s) didn't match Pod's required features"
    assert all(status.is_success for status in filter_statuses(plugin, cluster, make_pod()).values())
