"""What the cycle asks of an extender; the HTTP behind it lives elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mooring.errors import MooringError
from mooring.state.node_info import NodeInfo
from mooring.state.pod_info import PodInfo


class ExtenderError(MooringError):
    """An extender did not answer as it should; an ignorable one is passed over, another one fails the attempt."""


@dataclass(frozen=True, slots=True)
class ExtenderFilterResult:
    """What is left, in the extender's order, and why the rest is not."""

    kept: Sequence[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    failed_and_unresolvable: Mapping[str, str] = field(default_factory=dict)
    whole_nodes: bool = False  # answered with node objects: scoring then sees nodes without pods and images


@dataclass(frozen=True, slots=True)
class VictimsOnNode:
    pods: tuple[PodInfo, ...]
    pdb_violations: int


class Extender(Protocol):
    """One configured extender."""

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

    def prioritize(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> tuple[Mapping[str, int], int]:
        """(score by node name, weight)."""

    def process_preemption(self, pod: PodInfo, victims: Mapping[str, VictimsOnNode]) -> Mapping[str, VictimsOnNode]: ...
