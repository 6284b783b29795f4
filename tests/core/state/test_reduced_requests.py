"""A pod that asks for less: afterwards it asks for exactly so much."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.core.state.pod_info import PodInterner
from mooring.core.state.requests import ask_for
from mooring.testing import make_pod

SIDECAR = {"restartPolicy": "Always"}


def container(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}


def cpu_of(spec: dict[str, Any], target: int) -> int:
    pod = make_pod(spec=spec)
    ask_for(pod, "cpu", target)
    return PodInterner().info(pod).shape.requests.get("cpu", 0)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [container("a", "2")]}, 500, id="one container"),
        pytest.param({"containers": [container("a", "2"), container("b", "300m")]}, 500, id="the largest gives most"),
        pytest.param(
            {"containers": [container("a", "1")], "initContainers": [container("i", "3")]}, 500, id="an init container"
        ),
        pytest.param(
            {
                "containers": [container("a", "1")],
                "initContainers": [container("s", "400m", **SIDECAR), container("i", "3")],
            },
            500,
            id="a sidecar and an init container beside it",
        ),
        pytest.param({"containers": [container("a", "2")], "overhead": {"cpu": "100m"}}, 500, id="overhead counts"),
        pytest.param(
            {"containers": [container("a", "2")], "overhead": {"cpu": "700m"}}, 700, id="overhead cannot be reduced"
        ),
        pytest.param(
            {"containers": [container("a", "200m")], "resources": {"requests": {"cpu": "2"}}}, 500, id="the pod's own"
        ),
        pytest.param({"containers": [container("a", "300m")]}, 300, id="less than asked stays"),
    ],
)
def test_ask_for_half_a_core(spec: dict[str, Any], want: int) -> None:
    assert cpu_of(spec, 500) == want


def test_nothing_is_asked_for_at_all() -> None:
    pod = make_pod(cpu="1")
    ask_for(pod, "cpu", 0)
    assert pod.spec.containers[0].resources.requests == {}


@given(
    st.lists(st.integers(0, 3000), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3000), st.booleans()), max_size=3),
    st.integers(0, 6000),
)
def test_the_pod_never_requests_more_than_the_target(
    containers: list[int], init: list[tuple[int, bool]], target: int
) -> None:
    spec = {
        "containers": [container(f"c{i}", f"{amount}m") for i, amount in enumerate(containers)],
        "initContainers": [
            container(f"i{i}", f"{amount}m", **(SIDECAR if sidecar else {})) for i, (amount, sidecar) in enumerate(init)
        ],
    }
    assert cpu_of(spec, target) <= target
