"""A plugin that raises and an extender that hangs or lies, while a plan wants them to."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mooring.bench.virtual.world import Machine
from mooring.framework.extender import ExtenderError, ExtenderFilterResult, Prioritized, VictimsOnNode
from mooring.framework.status import SUCCESS, Status
from mooring.state.node_info import NodeInfo
from mooring.state.pod_info import PodInfo

HANG_S = 5.0
RAISE = 0.2


class Moods:
    """What plugins and extenders are up to just now; one for all replicas of a world."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.raises = False
        self.hangs = False
        self.lies = False


def raising_plugin(moods: Moods) -> type:
    """A plugin that fails now and then at every point where a plugin of a user's own may."""

    class Raising:
        name: ClassVar[str] = "Raising"

        def __init__(self, args: Any, handle: Any) -> None:
            pass

        def events_to_register(self) -> tuple[Any, ...]:
            return ()

        def _perhaps(self) -> None:
            if moods.raises and moods.rng.random() < RAISE:
                raise RuntimeError("raised on purpose")

        def reserve(self, state: Any, pod: Any, node_name: str) -> Status:
            self._perhaps()
            return SUCCESS

        def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
            self._perhaps()

        def permit(self, state: Any, pod: Any, node_name: str) -> tuple[Status, float]:
            self._perhaps()
            return SUCCESS, 0.0

        async def pre_bind(self, state: Any, pod: Any, node_name: str) -> Status:
            self._perhaps()
            return SUCCESS

        def post_bind(self, state: Any, pod: Any, node_name: str) -> None:
            self._perhaps()

    return Raising


class MoodyExtender:
    """An extender that filters and scores. When it hangs, it takes its whole time and gives no answer. When it lies,
    it names nodes that it was not asked about, leaves out others, and scores beyond all bounds."""

    name = "http://extender.invalid"
    is_ignorable = False
    is_filter = True
    is_prioritizer = True
    is_binder = False
    supports_preemption = False

    def __init__(self, machine: Machine, moods: Moods) -> None:
        self._machine, self._moods = machine, moods

    def is_interested(self, pod: PodInfo) -> bool:
        return True

    def filter(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> ExtenderFilterResult:
        self._answer()
        moods = self._moods
        if moods.lies:
            kept = [node for node in nodes if moods.rng.random() < 0.7]
            return ExtenderFilterResult(kept, {"no-such-node": "a lie"})
        return ExtenderFilterResult(nodes)

    def prioritize(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Prioritized:
        self._answer()
        if self._moods.lies:
            return Prioritized([("no-such-node", 10), *((node.name, 1_000_000_000) for node in nodes[:2])], 5)
        return Prioritized([(node.name, 5) for node in nodes], 1)

    def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, VictimsOnNode], nodes: Mapping[str, NodeInfo]
    ) -> Mapping[str, VictimsOnNode]:
        return victims

    def bind(self, pod: PodInfo, node_name: str) -> None:
        raise ExtenderError("it does not bind")

    def _answer(self) -> None:
        if self._moods.hangs:
            self._machine.busy_s += HANG_S
            raise ExtenderError(f"{self.name}: no answer in {HANG_S:g}s")
        self._machine.busy_s += 0.002
