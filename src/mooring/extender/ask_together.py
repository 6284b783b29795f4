"""Asking several extenders for scores at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from mooring.framework.extender import Extender, ExtenderError, Prioritized, ask_in_turn
from mooring.state.node_info import NodeInfo
from mooring.state.pod_info import PodInfo

MOST_AT_ONCE = 64


class AskTogether:
    """Asks all extenders for scores at the same time: a slow one costs its own time only.

    The threads are kept from one decision to the next. They end with this object, which belongs to the engine that
    a configuration was made into.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="extender")

    def __call__(
        self, extenders: Sequence[Extender], pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> list[Prioritized | ExtenderError]:
        if sum(extender.is_prioritizer for extender in extenders) < 2:
            return ask_in_turn(extenders, pod, nodes)
        calls = [self._pool.submit(extender.prioritize, pod, nodes) for extender in extenders]
        return [_outcome(call) for call in calls]


def _outcome(call: Future[Prioritized]) -> Prioritized | ExtenderError:
    try:
        return call.result()
    except ExtenderError as error:
        return error
