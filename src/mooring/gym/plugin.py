"""LearnedScore: a policy that was learned in an environment, as a score plugin.

``--plugin mooring.gym.plugin:LearnedScore`` loads it, for ``mooring run`` and for ``mooring extender serve --watch``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import numpy as np

from mooring.errors import ConfigError, InputError
from mooring.framework.cycle_state import CycleState
from mooring.framework.handle import Handle
from mooring.framework.interfaces import MAX_NODE_SCORE, Scores
from mooring.framework.traits import Reads, Traits
from mooring.gpus.scoring import typed_args
from mooring.gym.features import node_features, pod_features
from mooring.gym.policy import LinearPolicy
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo


class LearnedScoreArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """``pluginConfig`` of LearnedScore: the file that ``LinearPolicy.save`` has written."""

    policy: str = ""


class LearnedScore:
    """Scores nodes as a learned policy values them: the best feasible node gets 100, the worst 0."""

    name: ClassVar[str] = "LearnedScore"
    traits: ClassVar[Traits] = Traits(score_reads=Reads.LOCAL, uses_volumes=False, in_range=True)

    def __init__(self, args: Any, handle: Handle) -> None:
        given = typed_args(LearnedScoreArgs, args)
        if not given.policy:
            raise ConfigError("args: policy: the file of a policy is expected")
        try:
            self._policy = LinearPolicy.load(given.policy)
        except InputError as error:
            raise ConfigError(f"args: policy: {error}") from None
        self._handle = handle

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores:
        values = self._policy.values(node_features(nodes, self._handle.cluster.table), pod_features(pod))
        low, high = float(values.min()), float(values.max())
        if high == low:
            return np.zeros(len(nodes), np.int64)
        scores = (MAX_NODE_SCORE * (values - low) / (high - low)).astype(np.int64)
        scores[scores == MAX_NODE_SCORE] -= 1  # only the best ones have all
        scores[values == high] = MAX_NODE_SCORE
        return scores
