"""Large dumps are read quickly, and say the same as when they are read slowly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.api import manifests
from mooring.api.errors import InputError
from mooring.api.manifests import Manifests, parse_manifests, stored_items


def stored(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    """As kubectl prints it: keys sorted, with the marks of an API server."""
    meta = {"name": name, "namespace": "shop", "resourceVersion": "7", "uid": name, **fields.pop("metadata", {})}
    return {"apiVersion": fields.pop("apiVersion", "v1"), "kind": kind, "metadata": meta, **fields}


NODE = stored("Node", "a", status={"allocatable": {"cpu": "4"}, "nodeInfo": {"kubeletVersion": "v1.37.1"}})
POD = stored(
    "Pod", "web", spec={"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "nodeName": "a"}
)
ITEMS = {
    "nodes and pods": [NODE, POD],
    "nulls where lists belong": [{**POD, "spec": {**POD["spec"], "tolerations": None}}],
    "an object that no server has stored": [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": {}}
    ],
    "a kind without readers": [stored("ConfigMap", "c")],
    "a kind of another group": [stored("Service", "s", apiVersion="serving.knative.dev/v1")],
    "a workload": [stored("Deployment", "d", apiVersion="apps/v1"), stored("ReplicaSet", "r", apiVersion="apps/v1")],
    "the kind not where kubectl writes it": [{"metadata": POD["metadata"], "spec": POD["spec"], "kind": "Pod"}],
    "an owner before the kind": [
        {
            "metadata": {**POD["metadata"], "ownerReferences": [{"kind": "Node", "name": "a"}]},
            "kind": "Pod",
            "apiVersion": "v1",
        }
    ],
    "no items": [],
}


def slowly(text: bytes, monkeypatch: pytest.MonkeyPatch) -> Manifests:
    with monkeypatch.context() as patch:
        patch.setattr(manifests, "stored_items", lambda text, kinds: None)
        return parse_manifests(text, "dump.json")


@pytest.mark.parametrize("items", ITEMS.values(), ids=ITEMS)
def test_it_says_the_same(items: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=4).encode()
    quick, slow = parse_manifests(text, "dump.json"), slowly(text, monkeypatch)
    assert (quick.objects, quick.places, quick.ignored) == (slow.objects, slow.places, slow.ignored)
    assert (quick.workloads, quick.unknown, quick.release) == (slow.workloads, slow.unknown, slow.release)


def test_stored_lists_are_read_in_one_pass() -> None:
    text = json.dumps({"kind": "List", "items": [NODE, POD]}).encode()
    items = stored_items(text, manifests._QUICK_KINDS)
    assert items is not None
    assert [(obj.kind, kubelet) for obj, kubelet, _ in items if obj is not None] == [("Node", "v1.37.1"), ("Pod", "")]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        pytest.param(
            [{**NODE, "status": {"allocatable": {"cpu": "4x"}}}],
            "dump.json, items.0.: Node shop/a: status.allocatable.cpu.: '4x' has the unknown suffix",
            id="a quantity that is none",
        ),
        pytest.param(
            [NODE, 7], "dump.json, items.1.: the value 7, expected a Kubernetes object", id="no object at all"
        ),
        pytest.param([{"metadata": {}}], "dump.json, items.0.: an object without kind", id="no kind"),
        pytest.param(
            [NODE, {**NODE, "spec": {"unschedulable": True}}],
            "is already in dump.json, items.0.",
            id="the same name twice",
        ),
    ],
)
def test_mistakes_have_a_place(items: list[Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"kind": "List", "items": items}).encode()
    with pytest.raises(InputError, match=message):
        parse_manifests(text, "dump.json")
    with pytest.raises(InputError, match=message):
        slowly(text, monkeypatch)
