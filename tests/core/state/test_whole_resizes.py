"""Pods that are being resized count as a whole since 1.37; until 1.36 container by container."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import Pod
from mooring.core.state.cluster import ClusterState
from mooring.core.state.requests import pod_requests, rounded_requests
from mooring.testing import decide, make_node, make_pod


def container(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "x", "resources": {"requests": {"cpu": cpu}}, **more}


def held(name: str, allocated: str = "", actuated: str = "") -> dict[str, Any]:
    status: dict[str, Any] = {"name": name}
    if allocated:
        status["allocatedResources"] = {"cpu": allocated}
    if actuated:
        status["resources"] = {"requests": {"cpu": actuated}}
    return status


def resizing(
    *statuses: dict[str, Any], spec: tuple[str, str] = ("100m", "500m"), reason: str = "", **status: Any
) -> Pod:
    """Two containers; their statuses say what they hold."""
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    return make_pod(
        "resizing",
        node="n",
        spec={"containers": [container("a", spec[0]), container("b", spec[1])]},
        status={"containerStatuses": list(statuses), "conditions": conditions, **status},
    )


SWAP = resizing(held("a", "500m", "500m"), held("b", "100m", "100m"))


@pytest.mark.parametrize(
    ("pod", "before", "now"),
    [
        pytest.param(SWAP, 1000, 600, id="one container gives what the other gets"),
        pytest.param(resizing(), 600, 600, id="nothing is known yet"),
        pytest.param(resizing(held("a", "700m")), 600, 1200, id="an allocation alone counts"),
        pytest.param(resizing(held("a", "", "700m")), 1200, 1200, id="what one has got and the other asks for"),
        pytest.param(
            resizing(held("a", "200m", "300m"), held("b", "200m", "100m"), reason="Infeasible"), 500, 400,
            id="what cannot be is not counted",
        ),
        pytest.param(
            resizing(reason="Infeasible"), 600, 0, id="an infeasible resize of which no status says anything",
        ),
        pytest.param(
            resizing(
                held("a", "500m", "500m"), allocatedResources={"cpu": "800m"}, resources={"requests": {"cpu": "700m"}}
            ), 1000, 800, id="the pod's own status comes first",
        ),
    ],
)  # fmt: skip
def test_what_a_pod_holds(pod: Pod, before: int, now: int) -> None:
    assert rounded_requests(pod_requests(pod)).get("cpu", 0) == before
    assert rounded_requests(pod_requests(pod, whole_resizes=True)).get("cpu", 0) == now


def test_pods_are_recounted_when_the_rule_changes() -> None:
    cluster = ClusterState()
    cluster.put(make_node("n"))
    cluster.put(SWAP)
    cluster.put(make_pod("other", node="n", cpu="1"))

    def requested() -> int:
        return sum(info.shape.requests["cpu"] for info in cluster.pods())

    assert requested() == 2000
    fork = cluster.fork()
    cluster.count_resizes(whole=True)
    assert requested() == 1600
    assert cluster.nodes().requested("cpu").tolist() == [1600]
    assert fork.nodes().requested("cpu").tolist() == [2000], "a fork keeps its own"
    cluster.count_resizes(whole=False)
    assert requested() == 2000


@pytest.mark.parametrize(("version", "node"), [("1.36", None), ("1.37", "n")])
def test_a_decision_next_to_a_pod_that_is_being_resized(version: str, node: str | None) -> None:
    assert decide(make_pod(cpu="3200m"), make_node("n"), SWAP, kubernetes_version=version).node == node
