"""Extenders whose answers are noted, for observers that write them down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from mooring.core.framework.extender import (
    ExtenderAnswer,
    ExtenderClient,
    ExtenderError,
    ExtenderFilterResult,
    Prioritized,
    VictimsOnNode,
)
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.pod_info import PodInfo

T = TypeVar("T", bound=ExtenderFilterResult | Prioritized | Mapping[str, VictimsOnNode] | ExtenderError)


class Overheard:
    """Passes every question on. Answers go to each list of ``heard``; whoever added a list empties it."""

    def __init__(self, extender: ExtenderClient, heard: list[list[ExtenderAnswer]]) -> None:
        self._extender, self._heard = extender, heard
        self.name, self.is_ignorable = extender.name, extender.is_ignorable
        self.is_filter, self.is_prioritizer = extender.is_filter, extender.is_prioritizer
        self.is_binder, self.supports_preemption = extender.is_binder, extender.supports_preemption
        self.is_interested = extender.is_interested

    def bind(self, pod: PodInfo, node_name: str) -> None:
        self._extender.bind(pod, node_name)

    def filter(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> ExtenderFilterResult:
        try:
            return self._note("filter", self._extender.filter(pod, nodes))
        except ExtenderError as error:
            raise self._note("filter", error) from None

    def prioritize(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Prioritized:
        try:
            return self._note("prioritize", self._extender.prioritize(pod, nodes))
        except ExtenderError as error:
            raise self._note("prioritize", error) from None

    def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, VictimsOnNode], nodes: Mapping[str, NodeInfo]
    ) -> Mapping[str, VictimsOnNode]:
        try:
            return self._note("preempt", self._extender.process_preemption(pod, victims, nodes))
        except ExtenderError as error:
            raise self._note("preempt", error) from None

    def close(self) -> None:
        close = getattr(self._extender, "close", None)
        if close is not None:
            close()

    def _note(self, verb: str, result: T) -> T:
        for each in self._heard:
            each.append(ExtenderAnswer(self.name, verb, result))
        return result
