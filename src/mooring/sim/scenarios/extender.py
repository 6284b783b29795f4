"""An extender is asked beside the plugins: it refuses one node and prefers another.

On a cluster an extender is a web service (``mooring extender serve``); here it is an object, asked the same questions
at the same moments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.core.framework.extender import ExtenderFilterResult, Prioritized, VictimsOnNode
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.pod_info import PodInfo
from mooring.sim.scenario import ScenarioCluster, node, pod


class Landlord:
    """Refuses nodes whose rent is not paid, and prefers those with a view."""

    name = "landlord"
    is_ignorable = False
    is_filter = True
    is_prioritizer = True
    is_binder = False
    supports_preemption = False

    def is_interested(self, pod: PodInfo) -> bool:
        return True

    def filter(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> ExtenderFilterResult:
        unpaid = {info.name: "the rent is not paid" for info in nodes if info.labels.get("rent") == "unpaid"}
        return ExtenderFilterResult([info for info in nodes if info.name not in unpaid], unpaid)

    def prioritize(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Prioritized:
        return Prioritized([(info.name, 10 if info.labels.get("view") == "sea" else 0) for info in nodes], 5)

    def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, VictimsOnNode], nodes: Mapping[str, NodeInfo]
    ) -> Mapping[str, VictimsOnNode]:
        return victims

    def bind(self, pod: PodInfo, node_name: str) -> None:
        raise NotImplementedError


EXTENDERS = (Landlord(),)


async def scenario(cluster: ScenarioCluster) -> None:
    await cluster.create(node("node1", labels={"rent": "unpaid"}))
    await cluster.create(pod("tenant"))
    await cluster.expect_pod("tenant", pending="1 the rent is not paid")
    cluster.say("two more nodes come; one of them has a view of the sea")
    await cluster.create(node("node2"), node("node3", labels={"view": "sea"}))
    await cluster.expect_pod("tenant", node=["node2", "node3"])
    await cluster.create(pod("guest"))
    await cluster.expect_pod("guest", node="node3")
