"""A profile's filters asked "what if": the engine's side of preemption."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from mooring.engine.cycle import Engine
from mooring.framework.cycle_state import CycleState
from mooring.framework.filter_outcome import FilterOutcome
from mooring.framework.runtime import Profile
from mooring.framework.traits import Reads
from mooring.state.change_log import ChangeLog
from mooring.state.node_info import NodeInfo
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo


class ProfileFilters:
    """Implements :class:`mooring.framework.filter_runner.FilterRunner` for one profile."""

    def __init__(self, profile: Profile, engine: Engine) -> None:
        self._profile = profile
        self._engine = engine

    def nominated(self) -> ChangeLog[int]:
        promises = self._engine.promises.promises
        promises.refresh()  # this engine need not be the one that decides: an explanation has its own
        return promises.log

    def shared(self, state: CycleState, pod: PodInfo) -> tuple[Hashable, Hashable] | None:
        plan = self._profile.filter_plan(state)
        is_shared = self._engine.uses_cache and plan.is_shared(pod)
        if not is_shared or self._engine.promises.promises.includes(pod.uid):
            return None
        return (plan.shape_key(pod), pod.priority), plan.token()

    def passed_node_filters(self, state: CycleState, pod: PodInfo) -> NDArray[np.bool_]:
        return self._engine.cached_filters(state, pod, self._profile).passed_node_filters()

    def fullness(self, state: CycleState, pod: PodInfo, row: int) -> Hashable | None:
        if not self._profile.filter_plan(state).reads_figures_only():
            return None
        return self._engine.promises.promises.fullness(pod, row)

    def is_local(self, state: CycleState) -> bool:
        return all(plugin.traits.filter_reads <= Reads.LOCAL for plugin in self._profile.active_filters(state))

    def judge(self, state: CycleState, pod: PodInfo, nodes: NodeRows, *, pods_only: bool = False) -> FilterOutcome:
        plugins = self._profile.active_filters(state)
        if pods_only:
            plugins = [plugin for plugin in plugins if plugin.traits.filter_reads is not Reads.NODE]
        return self._engine.promises.run(pod, self._profile, state, nodes, plugins)

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        self._profile.add_pod(state, pod, added, node)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        self._profile.remove_pod(state, pod, removed, node)
