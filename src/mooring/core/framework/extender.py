"""The cycle's interface to extenders; its HTTP implementation is elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self

import msgspec

from mooring.api.core import Node
from mooring.api.errors import MooringError
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.pod_info import PodInfo

EXTENDER_PLUGIN = "Extender"
"""Name under which rejections of extenders count among the unschedulable plugins."""
SCORE_SCALE = 10
"""Extenders score from 0 to 10, plugins from 0 to 100."""


class ExtenderError(MooringError):
    """An extender failed to answer; an ignorable one is skipped, another one fails the attempt."""


class AnsweredNode(NodeInfo, eq=False):
    """A node as returned by an extender, without pods, images and other fields.

    ``row`` is that of the node of the same name, or -1 for one that the cluster does not have.
    """

    raw: bytes = b""  # its JSON, for the extenders that follow

    @classmethod
    def of(cls, node: Node, raw: bytes, row: int) -> Self:
        return cls(node.metadata.name, node, row=row, raw=raw)


class ExtenderFilterResult(msgspec.Struct, frozen=True):
    """The remaining nodes, in the extender's order, and why the others were dropped.

    ``nodes`` are nodes that were offered, or all of them :class:`AnsweredNode`.
    """

    nodes: Sequence[NodeInfo]
    failed: Mapping[str, str] = msgspec.field(default_factory=dict)
    failed_and_unresolvable: Mapping[str, str] = msgspec.field(default_factory=dict)


class Prioritized(msgspec.Struct, frozen=True):
    """(node name, score) as answered, unscaled; a name may be unknown, missing or duplicated."""

    scores: Sequence[tuple[str, int]]
    weight: int


class VictimsOnNode(msgspec.Struct, frozen=True):
    pods: tuple[PodInfo, ...]
    pdb_violations: int


class ExtenderClient(Protocol):
    """One configured extender. Every request may raise :class:`ExtenderError`."""

    @property
    def name(self) -> str: ...

    @property
    def is_ignorable(self) -> bool: ...

    @property
    def is_filter(self) -> bool: ...

    @property
    def is_prioritizer(self) -> bool: ...

    @property
    def is_binder(self) -> bool: ...

    @property
    def supports_preemption(self) -> bool: ...

    def is_interested(self, pod: PodInfo) -> bool: ...

    def filter(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> ExtenderFilterResult: ...

    def prioritize(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Prioritized: ...

    def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, VictimsOnNode], nodes: Mapping[str, NodeInfo]
    ) -> Mapping[str, VictimsOnNode]:
        """Return fewer candidates, or other victims among the pods on ``nodes``."""

    def bind(self, pod: PodInfo, node_name: str) -> None:
        """Bind the pod, in place of the scheduler."""


class ExtenderAnswer(msgspec.Struct, frozen=True):
    """Recorded answer of an extender in an attempt."""

    extender: str
    verb: str  # filter, prioritize or preempt
    result: ExtenderFilterResult | Prioritized | Mapping[str, VictimsOnNode] | ExtenderError


AskAll = Callable[[Sequence[ExtenderClient], PodInfo, Sequence[NodeInfo]], list["Prioritized | ExtenderError"]]
"""Asks several extenders for scores; an implementation with sockets may do so concurrently."""


def ask_in_turn(
    extenders: Sequence[ExtenderClient], pod: PodInfo, nodes: Sequence[NodeInfo]
) -> list[Prioritized | ExtenderError]:
    """Ask for scores, one extender after another."""
    answers: list[Prioritized | ExtenderError] = []
    for extender in extenders:
        try:
            answers.append(extender.prioritize(pod, nodes))
        except ExtenderError as error:
            answers.append(error)
    return answers
