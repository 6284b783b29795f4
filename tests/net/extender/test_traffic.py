"""Generated pods and nodes are objects that schedulers send."""

from __future__ import annotations

import json
import random

import pytest

from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod
from mooring.net.extender.conformance import args_body, make_node, make_pod, preemption_body
from mooring.net.extender.requests import ExtenderArgs, PreemptionArgs, read_request


@pytest.mark.parametrize("i", [0, 1, 999, 49_999])
def test_nodes_differ_by_number_and_are_readable(i: int) -> None:
    node: Node = from_plain(Node, make_node(i))
    assert node.name == f"node-{i:05d}" and node.labels["kubernetes.io/hostname"] == node.name
    assert make_node(i) == make_node(i) != make_node(i + 1)
    assert 1000 < len(json.dumps(make_node(i))) < 3000
    assert len(json.dumps(make_node(i, size=5000))) > 6000


def test_pods_are_readable_and_repeat_with_their_seed() -> None:
    made = [make_pod(f"web-{i}", random.Random(7)) for i in range(2)]
    assert made[0]["metadata"]["labels"] == {"app": "web"}
    assert made[0]["spec"] == made[1]["spec"]
    for seed in range(50):
        pod: Pod = from_plain(Pod, make_pod("p", random.Random(seed)))
        assert pod.spec.containers and pod.metadata.uid


@pytest.mark.parametrize("by_name", [False, True])
def test_filter_requests_have_one_of_two_forms(by_name: bool) -> None:
    args = read_request(ExtenderArgs, args_body(make_pod("p"), [make_node(0)], by_name=by_name))
    assert (args.Nodes is None) is by_name
    assert args.NodeNames == (["node-00000"] if by_name else None)


@pytest.mark.parametrize("by_uid", [False, True])
def test_preemption_requests_have_one_of_two_forms(by_uid: bool) -> None:
    args = read_request(PreemptionArgs, preemption_body(make_pod("p"), ["a", "b"], by_uid=by_uid))
    whole, meta = args.NodeNameToVictims, args.NodeNameToMetaVictims
    assert (whole is None) is by_uid and (meta is None) is not by_uid
    assert list(meta if by_uid else whole) == ["a", "b"]
