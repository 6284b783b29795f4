"""The lowest priority on each node is what looking at its pods would say, whatever happened before."""

from __future__ import annotations

import random

import pytest

from mooring.api.core import Node, Pod
from mooring.api.meta import ObjectMeta
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_table import NOBODY


def make_pod(name: str, node: str, priority: int | None) -> Pod:
    pod = Pod(metadata=ObjectMeta(name=name, namespace="d", uid=name))
    pod.spec.node_name, pod.spec.priority = node, priority
    return pod


def looked_up(cluster: ClusterState) -> list[int]:
    return [min((pod.priority for pod in info.pods.values()), default=NOBODY) for info in cluster.table.infos]


@pytest.mark.parametrize("seed", range(5))
def test_it_follows_pods_and_nodes(seed: int) -> None:
    rng, cluster = random.Random(seed), ClusterState()
    for step in range(300):
        name, node = f"p{rng.randrange(20)}", f"n{rng.randrange(5)}"
        match rng.randrange(8):
            case 0:
                cluster.set_node(Node(metadata=ObjectMeta(name=node, uid=node)))
            case 1 if step % 5 == 0:
                cluster.remove_node(node)
            case 2 | 3:
                cluster.remove_pod(name)
            case _:
                cluster.set_pod(make_pod(name, node, rng.choice((None, -10, 0, 0, 0, 1000, 2**31 - 1))))
        assert cluster.nodes().table.lowest_priority.tolist() == looked_up(cluster), f"seed {seed}, step {step}"


def test_a_pod_that_comes_before_its_node_counts_when_the_node_comes() -> None:
    cluster = ClusterState()
    cluster.set_pod(make_pod("early", "n", -5))
    cluster.set_node(Node(metadata=ObjectMeta(name="n", uid="n")))
    assert cluster.nodes().table.lowest_priority.tolist() == [-5]
