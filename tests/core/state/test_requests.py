"""What a pod asks for: containers, init containers, sidecars, overhead, pod-level requests, resizes."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import Pod
from mooring.api.errors import ParseError
from mooring.core.state.pod_info import PodInterner
from mooring.core.state.requests import (
    is_extended_name,
    is_scalar_name,
    non_zero_requests,
    pod_requests,
    rounded_requests,
)
from mooring.testing import make_pod

MIB = 1024 * 1024


def container(name: str = "c", sidecar: bool = False, **requests: str | int) -> dict[str, Any]:
    wanted = {key.replace("_", "-"): value for key, value in requests.items()}
    found: dict[str, Any] = {"name": name, "resources": {"requests": wanted}}
    return found | ({"restartPolicy": "Always"} if sidecar else {})


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **spec: Any) -> Pod:
    status = spec.pop("status", {})
    return make_pod(spec={"containers": list(containers), "initContainers": list(init), **spec}, status=status)


def asked(of: Pod) -> dict[str, int]:
    return rounded_requests(pod_requests(of))


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        pytest.param(pod(container()), {}, id="nothing asked, nothing there"),
        pytest.param(
            pod(container(cpu="100m"), container(cpu="200m", memory="1Gi")),
            {"cpu": 300, "memory": 2**30},
            id="containers add up",
        ),
        pytest.param(
            pod(container(cpu="0.4m"), container(cpu="0.4m")), {"cpu": 1}, id="summed exactly, then rounded up"
        ),
        pytest.param(pod(container(cpu=0)), {"cpu": 0}, id="an explicit zero stays"),
        pytest.param(pod(container(cpu="1e1000")), {"cpu": 0}, id="what Go cannot count is nothing"),
        pytest.param(pod(container(memory="6E"), container(memory="6E")), {"memory": 0}, id="nor what adds up to it"),
        pytest.param(
            pod(container(cpu="1e1000"), container(cpu="1")), {"cpu": 1000}, id="unless there is something beside it"
        ),
        pytest.param(
            pod(container(cpu="1"), init=(container(cpu="1e1000"),)),
            {"cpu": 0},
            id="amounts are compared before they overflow",
        ),
        pytest.param(
            pod(container(cpu="100m"), init=(container(cpu="500m"),)),
            {"cpu": 500},
            id="an init container raises the floor",
        ),
        pytest.param(
            pod(container(cpu="600m"), init=(container(cpu="500m"),)),
            {"cpu": 600},
            id="a small init container adds nothing",
        ),
        pytest.param(
            pod(container(cpu="100m"), init=(container(cpu="500m"), container(cpu="400m"))),
            {"cpu": 500},
            id="init containers run one after another",
        ),
        pytest.param(
            pod(container(cpu="100m"), init=(container(sidecar=True, cpu="200m"),)),
            {"cpu": 300},
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            pod(container(cpu="100m"), init=(container(sidecar=True, cpu="200m"), container(cpu="500m"))),
            {"cpu": 700},
            id="an init container after a sidecar runs beside it",
        ),
        pytest.param(
            pod(container(cpu="100m"), init=(container(cpu="500m"), container(sidecar=True, cpu="200m"))),
            {"cpu": 500},
            id="an init container before a sidecar does not",
        ),
        pytest.param(
            pod(container(cpu="1"), init=(container(memory="1Gi"),)),
            {"cpu": 1000, "memory": 2**30},
            id="the floor is raised resource by resource",
        ),
        pytest.param(
            pod(container(cpu="100m"), overhead={"cpu": "50m", "memory": "1Mi"}),
            {"cpu": 150, "memory": MIB},
            id="overhead comes on top",
        ),
        pytest.param(
            pod(container(cpu="100m", memory="1Mi"), resources={"requests": {"cpu": "2"}}),
            {"cpu": 2000, "memory": MIB},
            id="a pod-level request replaces the sum, only for its resource",
        ),
        pytest.param(
            pod(container(cpu="100m"), resources={"requests": {"cpu": "2"}}, overhead={"cpu": "1"}),
            {"cpu": 3000},
            id="overhead comes on top of pod-level requests, too",
        ),
        pytest.param(
            pod(container(cpu="100m"), resources={"requests": {"example.com/x": "2"}}),
            {"cpu": 100},
            id="a pod-level request for what pods cannot ask is not looked at",
        ),
        pytest.param(
            pod(container(cpu="1", **{"example.com/gpu": 1, "hugepages-2Mi": "4Mi", "storage": "1Gi"})),
            {"cpu": 1000, "example.com/gpu": 1, "hugepages-2Mi": 4 * MIB},
            id="untracked names are dropped",
        ),
    ],
)
def test_requests(of: Pod, wanted: dict[str, int]) -> None:
    assert asked(of) == wanted


def resized(spec: str, status: dict[str, Any], *, reason: str = "", init: bool = False, sidecar: bool = False) -> Pod:
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    own = container("r", sidecar, cpu=spec)
    where = "initContainerStatuses" if init else "containerStatuses"
    return pod(
        *([container("main")] if init else [own]),
        init=(own,) if init else (),
        status={where: [{"name": "r", **status}], "conditions": conditions},
    )


@pytest.mark.parametrize(
    ("of", "cpu"),
    [
        pytest.param(resized("100m", {"resources": {"requests": {"cpu": "300m"}}}), 300, id="what it holds is more"),
        pytest.param(resized("500m", {"resources": {"requests": {"cpu": "300m"}}}), 500, id="what it asks is more"),
        pytest.param(
            resized("100m", {"resources": {"requests": {"cpu": "200m"}}, "allocatedResources": {"cpu": "400m"}}),
            400,
            id="what it was promised is more",
        ),
        pytest.param(
            resized("100m", {"allocatedResources": {"cpu": "400m"}}),
            100,
            id="a promise without actual resources is not looked at",
        ),
        pytest.param(
            resized("900m", {"resources": {"requests": {"cpu": "300m"}}}, reason="Infeasible"),
            300,
            id="an infeasible resize does not count",
        ),
        pytest.param(
            resized("900m", {"resources": {"requests": {"cpu": "300m"}}}, reason="Deferred"),
            900,
            id="a deferred resize counts",
        ),
        pytest.param(
            resized("100m", {"resources": {"requests": {"cpu": "300m"}}}, init=True),
            100,
            id="plain init containers never use their status",
        ),
        pytest.param(
            resized("100m", {"resources": {"requests": {"cpu": "300m"}}}, init=True, sidecar=True),
            300,
            id="sidecars do",
        ),
    ],
)
def test_requests_of_a_pod_that_was_resized_in_place(of: Pod, cpu: int) -> None:
    assert asked(of)["cpu"] == cpu


def test_pod_level_requests_follow_the_pods_status() -> None:
    of = pod(
        container(cpu="100m"),
        resources={"requests": {"cpu": "1"}},
        status={"resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "3"}},
    )
    assert asked(of) == {"cpu": 3000}


def non_zero(of: Pod) -> tuple[int, int]:
    return non_zero_requests(of, pod_requests(of))


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        pytest.param(pod(container()), (100, 200 * MIB), id="nothing said: defaults"),
        pytest.param(pod(container(), container()), (200, 400 * MIB), id="defaults per container"),
        pytest.param(pod(container(cpu=0, memory=0)), (0, 0), id="an explicit zero is no default"),
        pytest.param(pod(container(cpu="300m")), (300, 200 * MIB), id="only what is missing is filled in"),
        pytest.param(
            pod(container(cpu="50m", memory="1Mi"), init=(container(),)),
            (100, 200 * MIB),
            id="init containers get defaults as well",
        ),
        pytest.param(
            pod(container(), resources={"requests": {"cpu": "1"}}),
            (1000, 200 * MIB),
            id="with pod-level requests only what the whole pod lacks",
        ),
        pytest.param(
            pod(container(memory="1Mi"), container(), resources={"requests": {"cpu": "1"}}),
            (1000, MIB),
            id="memory that one container names is not filled in for the others then",
        ),
    ],
)
def test_trap_11_non_zero_defaults(of: Pod, wanted: tuple[int, int]) -> None:
    assert non_zero(of) == wanted


def test_trap_12_scoring_ignores_pod_level_requests_of_the_pod_itself() -> None:
    shape = PodInterner().shape(pod(container(cpu="100m"), resources={"requests": {"cpu": "2"}}))
    assert shape.requests["cpu"] == 2000
    assert shape.scored_request("cpu") == 100


def test_a_bad_quantity_is_the_pods_problem() -> None:
    bad = pod(container(cpu="100m"), container(memory="lots"))
    with pytest.raises(
        ParseError, match=r"spec\.containers\[1\]\.resources\.requests\[memory\]: 'lots' is not a quantity"
    ):
        pod_requests(bad)
    assert PodInterner().shape(bad).problem.startswith("spec.containers[1]")


@pytest.mark.parametrize(
    ("name", "extended", "scalar"),
    [
        ("cpu", False, False),
        ("memory", False, False),
        ("storage", False, False),
        ("example.com/gpu", True, True),
        ("requests.example.com/gpu", False, False),
        ("kubernetes.io/thing", False, True),
        ("foo.kubernetes.io/thing", False, True),
        ("hugepages-2Mi", False, True),
        ("attachable-volumes-csi-x", False, True),
        ("pods", False, False),
    ],
)
def test_names_of_resources(name: str, extended: bool, scalar: bool) -> None:
    assert (is_extended_name(name), is_scalar_name(name)) == (extended, scalar)
