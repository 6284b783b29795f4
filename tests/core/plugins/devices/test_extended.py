from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.core import Pod
from mooring.api.resource import DeviceClass, ResourceClaim
from mooring.core.plugins.devices.extended import ClassResolver, find_claim, in_memory_claim, requests_for

GPU = "example.com/gpu"


def device_class(name: str, resource: str | None = None, created: str = "2026-01-01T00:00:00Z") -> DeviceClass:
    spec = {} if resource is None else {"extendedResourceName": resource}
    return msgspec.convert({"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}, DeviceClass)


@pytest.mark.parametrize(
    ("classes", "resource", "want"),
    [
        pytest.param([device_class("a", GPU)], GPU, "a", id="the explicit name"),
        pytest.param([device_class("a")], "deviceclass.resource.kubernetes.io/a", "a", id="the implicit name"),
        pytest.param([device_class("a", GPU)], "example.com/nic", None, id="another resource"),
        pytest.param(
            [device_class("a", GPU), device_class("b", GPU, "2026-01-02T00:00:00Z")],
            GPU,
            "b",
            id="the newer class wins",
        ),
        pytest.param(
            [device_class("b", GPU, "2026-01-02T00:00:00Z"), device_class("a", GPU)], GPU, "b", id="in any order"
        ),
        pytest.param([device_class("b", GPU), device_class("a", GPU)], GPU, "a", id="of one age the smaller name"),
    ],
)
def test_which_class_backs_a_resource(classes: list[DeviceClass], resource: str, want: str | None) -> None:
    found = ClassResolver(classes).get(resource)
    assert (found.name if found is not None else None) == want


def test_core_resources_are_never_backed() -> None:
    assert not ClassResolver([device_class("a", "cpu")]).is_backed("cpu")


def pod(containers: list[Any], init: list[Any] = []) -> Pod:  # noqa: B006
    def container(name: str, wanted: Any) -> Any:
        amount, policy = wanted if isinstance(wanted, tuple) else (wanted, "")
        requests = {"cpu": "1", **({} if amount is None else {GPU: amount})}
        return {"name": name, "resources": {"requests": requests}, "restartPolicy": policy}

    spec = {
        "containers": [container(f"c{i}", c) for i, c in enumerate(containers)],
        "initContainers": [container(f"i{i}", c) for i, c in enumerate(init)],
    }
    return msgspec.convert({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec}, Pod)


@pytest.mark.parametrize(
    ("wanting", "requests", "mappings"),
    [
        pytest.param(pod(["2"]), {"container-0-request-1": 2}, ["c0:container-0-request-1"], id="one container"),
        pytest.param(
            pod(["1", None, "3"]),
            {"container-0-request-1": 1, "container-2-request-1": 3},
            ["c0:container-0-request-1", "c2:container-2-request-1"],
            id="containers do not share",
        ),
        pytest.param(
            pod(["2"], ["1"]),
            {"container-1-request-1": 2},
            ["c0:container-1-request-1", "i0:container-1-request-1"],
            id="an init container uses what later ones hold",
        ),
        pytest.param(
            pod(["1"], ["3"]),
            {"container-0-request-1": 2, "container-1-request-1": 1},
            ["c0:container-1-request-1", "i0:container-1-request-1", "i0:container-0-request-1"],
            id="an init container needs more",
        ),
        pytest.param(
            pod([None], ["2", "4"]),
            {"container-1-request-1": 4},
            ["i0:container-1-request-1", "i1:container-1-request-1"],
            id="init containers share the largest request",
        ),
        pytest.param(
            pod(["1"], [("1", "Always"), "2"]),
            {"container-0-request-1": 1, "container-1-request-1": 1, "container-2-request-1": 1},
            [
                "i0:container-0-request-1",
                "c0:container-2-request-1",
                "i1:container-2-request-1",
                "i1:container-1-request-1",
            ],
            id="a sidecar keeps its own, also from init containers after it",
        ),
        pytest.param(pod(["0"]), {}, [], id="zero is nothing"),
    ],
)
def test_requests_for_containers(wanting: Pod, requests: dict[str, int], mappings: list[str]) -> None:
    got, mapped = requests_for(wanting, [GPU], ClassResolver([device_class("a", GPU)]))
    assert {r.name: r.exactly.count for r in got if r.exactly is not None} == requests
    assert all(r.exactly is not None and r.exactly.device_class_name == "a" for r in got)
    assert [f"{m.container_name}:{m.request_name}" for m in mapped] == mappings


def test_a_claim_of_an_earlier_attempt_is_found() -> None:
    mine = in_memory_claim(pod(["1"]))
    other = msgspec.convert({"metadata": {"name": "x", "namespace": "ns"}}, ResourceClaim)
    assert find_claim(pod(["1"]), [other, mine]) is mine
    assert find_claim(pod(["1"]), [other]) is None
