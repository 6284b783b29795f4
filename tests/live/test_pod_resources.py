"""/metrics/resources: what is summed, what is left out, and how it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.api.core import Pod
from mooring.api.quantity import NANO
from mooring.live.resource_metrics import pod_limits, render_pod_resources, unit_of

RECORDED = (Path(__file__).parent / "wire" / "metrics-resources.txt").read_text().splitlines()


def container(
    requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **rest: Any
) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}, **rest}


def make(*containers: dict[str, Any], phase: str = "Running", **spec: Any) -> Pod:
    document = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "containers": list(containers),
            "nodeName": "node-0",
            "schedulerName": "default-scheduler",
            "priority": 0,
            **spec,
        },
        "status": {"phase": phase},
    }
    return msgspec.convert(document, Pod)


def test_as_recorded():
    lines = render_pod_resources([make(container({"cpu": "500m", "memory": "1Gi"}))]).decode().splitlines()
    assert lines[:2] == RECORDED[:2]
    labels = 'namespace="default",node="node-0",pod="web",priority="0",resource="{}",scheduler="default-scheduler"'
    assert lines[2:] == [
        f'kube_pod_resource_request{{{labels.format("cpu")},unit="cores"}} 0.5',
        f'kube_pod_resource_request{{{labels.format("memory")},unit="bytes"}} 1.073741824e+09',
    ]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(make(container({"cpu": "0"})), id="zero"),
        pytest.param(make(container({"cpu": "1"}), phase="Succeeded"), id="ended on a node"),
        pytest.param(make(container({"cpu": "one"})), id="unreadable"),
    ],
)
def test_left_out(pod):
    assert render_pod_resources([pod]) == b""


def test_a_pod_without_node_counts_whatever_its_phase():
    assert b'node=""' in render_pod_resources([make(container({"cpu": "1"}), phase="Failed", nodeName="")])


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(make(container(limits={"cpu": "1"}), container(limits={"cpu": "2"})), 3, id="containers add up"),
        pytest.param(
            make(container(limits={"cpu": "1"}), initContainers=[container(limits={"cpu": "5"})]),
            5,
            id="an init container is a floor",
        ),
        pytest.param(
            make(
                container(limits={"cpu": "1"}),
                initContainers=[
                    container(limits={"cpu": "2"}, restartPolicy="Always"),
                    container(limits={"cpu": "3"}),
                ],
            ),
            5,
            id="a sidecar runs beside the init container after it",
        ),
        pytest.param(
            make(container(limits={"cpu": "1"}), resources={"limits": {"cpu": "4"}}), 4, id="the pod's own limit counts"
        ),
        pytest.param(make(container(limits={"cpu": "1"}), overhead={"cpu": "1"}), 2, id="overhead raises a limit"),
        pytest.param(make(container(), overhead={"cpu": "1"}), 0, id="overhead makes no limit"),
    ],
)
def test_limits(pod, want):
    assert pod_limits(pod).get("cpu", 0) == want * NANO


@pytest.mark.parametrize(
    ("resource", "want"),
    [
        ("cpu", "cores"),
        ("ephemeral-storage", "bytes"),
        ("hugepages-2Mi", "bytes"),
        ("attachable-volumes-x", "integer"),
        ("example.com/gpu", ""),
    ],
)
def test_units(resource, want):
    assert unit_of(resource) == want


def test_labels_are_escaped_and_families_sorted():
    pods = [make(container({"cpu": "1"}, {"cpu": "2"})), make(container({"example.com/x": "3"}), priority=None)]
    pods[1].metadata.name = 'odd"name'
    text = render_pod_resources(pods).decode()
    assert text.index("kube_pod_resource_limit{") < text.index("kube_pod_resource_request{")
    assert 'pod="odd\\"name",priority="",resource="example.com/x",scheduler="default-scheduler",unit=""} 3\n' in text


def test_one_pod_that_cannot_be_read_does_not_hide_the_others():
    pods = [make(container({"cpu": "many"})), make(container({"cpu": "1"}))]
    assert render_pod_resources(pods).count(b"kube_pod_resource_request{") == 1


def test_an_init_container_is_a_floor_and_a_sidecar_adds_up():
    pod = make(
        container(limits={"cpu": "1"}),
        initContainers=[
            container(limits={"cpu": "3"}),
            container(limits={"cpu": "1"}, restartPolicy="Always"),
        ],
    )
    assert pod_limits(pod) == {"cpu": 3 * NANO}
    pod = make(container(limits={"cpu": "3"}), initContainers=[container(limits={"cpu": "1"}, restartPolicy="Always")])
    assert pod_limits(pod) == {"cpu": 4 * NANO}
