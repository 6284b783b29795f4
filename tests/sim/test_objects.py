"""Short ways to write objects, and manifests in whatever form they come."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.errors import InputError
from mooring.sim.objects import documents, node, pod, taint

A, B = {"kind": "A"}, {"kind": "B"}


@pytest.mark.parametrize(
    ("manifests", "want"),
    [
        pytest.param([A], [A], id="a mapping"),
        pytest.param([[A, [B]]], [A, B], id="lists in lists"),
        pytest.param(["kind: A\n---\nkind: B\n"], [A, B], id="YAML text"),
        pytest.param([b'{"kind": "A"}'], [A], id="JSON bytes"),
        pytest.param([{"kind": "List", "items": [A, B]}], [A, B], id="a List"),
        pytest.param([{"kind": "PodList", "items": None}], [], id="an empty list of a kind"),
        pytest.param([None, "---\n"], [], id="nothing"),
    ],
)
def test_manifests_in_any_form(manifests: list[Any], want: list[Any]) -> None:
    assert documents(*manifests) == want


@pytest.mark.parametrize("value", [3, 2.5, True])
def test_what_is_no_manifest(value: Any) -> None:
    with pytest.raises(InputError, match="a manifest is a mapping or YAML text"):
        documents(value)


def test_the_manifest_that_was_given_is_not_the_one_that_is_changed() -> None:
    given = {"kind": "A"}
    documents(given)[0]["kind"] = "B"
    assert given == {"kind": "A"}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a=b:NoSchedule", {"key": "a", "value": "b", "effect": "NoSchedule"}, id="with a value"),
        pytest.param("a:NoExecute", {"key": "a", "effect": "NoExecute"}, id="without one"),
        pytest.param("x.io/a=:PreferNoSchedule", {"key": "x.io/a", "effect": "PreferNoSchedule"}, id="an empty one"),
    ],
)
def test_a_taint_as_kubectl_writes_it(text: str, want: dict[str, str]) -> None:
    assert taint(text) == want


@pytest.mark.parametrize("text", ["", "a", ":NoSchedule", "a=b", "a=b:Never", "a:noschedule"])
def test_what_is_no_taint(text: str) -> None:
    with pytest.raises(InputError, match="taint"):
        taint(text)


def test_a_node_has_what_a_kubelet_says() -> None:
    made = node("n", cpu="2", zone="a", taints=["x:NoSchedule"], unschedulable=True, capacity={"example.com/gpu": "1"})
    assert made["metadata"]["labels"] == {
        "kubernetes.io/hostname": "n",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": "a",
    }
    assert made["spec"] == {"unschedulable": True, "taints": [{"key": "x", "effect": "NoSchedule"}]}
    assert made["status"]["capacity"] == {"cpu": "2", "memory": "16Gi", "pods": "110", "example.com/gpu": "1"}
    assert node("plain")["spec"] == {}


def test_a_pod_has_one_container_and_further_fields() -> None:
    made = pod("p", cpu="1", memory="1Gi", annotations={"a": "b"}, namespace="x", priorityClassName="high")
    (container,) = made["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "1", "memory": "1Gi"}}
    assert made["spec"]["priorityClassName"] == "high"
    assert made["metadata"] == {"name": "p", "namespace": "x", "annotations": {"a": "b"}}
    assert "resources" not in pod("plain")["spec"]["containers"][0]
