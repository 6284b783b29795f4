"""A small policy: a weight for each feature of a node, and for each pair of a node's and a pod's feature."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.errors import ConfigError, InputError
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import MAX_NODE_SCORE, Scores
from mooring.core.framework.registry import Reads, Traits
from mooring.core.plugins.gpus.scoring import typed_args
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo
from mooring.sim.gym.features import NODE_FEATURES, POD_FEATURES, Matrix, node_features, pod_features

N, P = len(NODE_FEATURES), len(POD_FEATURES)
SIZE = N + N * P


@dataclass(frozen=True, slots=True)
class LinearPolicy:
    """Prefers the node whose weighted features add up to the most."""

    weights: NDArray[np.float64]  # [node feature], then [node feature, pod feature]

    def values(self, nodes: Matrix, pod: Matrix) -> NDArray[np.float64]:
        """Return [node]: larger is better."""
        direction = self.weights[:N] + self.weights[N:].reshape(N, P) @ pod
        found: NDArray[np.float64] = nodes @ direction
        return found

    def action(self, seen: dict[str, Matrix], mask: NDArray[Any]) -> int:
        """Return the best node that the mask allows."""
        return int(np.where(np.asarray(mask) > 0, self.values(seen["nodes"], seen["pod"]), -np.inf).argmax())

    def save(self, path: str | os.PathLike[str]) -> None:
        value = {"nodeFeatures": NODE_FEATURES, "podFeatures": POD_FEATURES, "weights": self.weights.tolist()}
        Path(path).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearPolicy:
        """Read a file that ``save`` wrote; raise InputError with the problem in one line."""
        try:
            value = json.loads(Path(path).read_text(encoding="utf-8"))
            weights = np.array(value["weights"], np.float64)
            features = tuple(value["nodeFeatures"]), tuple(value["podFeatures"])
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{path}: not a policy; expected JSON with nodeFeatures, podFeatures and weights"
            ) from None
        if features != (NODE_FEATURES, POD_FEATURES) or weights.shape != (SIZE,):
            raise InputError(f"{path}: a policy for other features than this version of mooring has")
        return cls(weights)


# --------------------------------------------------------------------------------------------------------------------
# LearnedScore: a policy that was learned in an environment, as a score plugin.
#
# ``--plugin mooring.sim.gym.policy:LearnedScore`` loads it, for ``mooring run`` and ``mooring extender serve --watch``.


class LearnedScoreArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """``pluginConfig`` of LearnedScore: a file that ``LinearPolicy.save`` wrote."""

    policy: str = ""


class LearnedScore:
    """Scores nodes by the values of a learned policy: the best feasible node gets 100, the worst 0."""

    name: ClassVar[str] = "LearnedScore"
    traits: ClassVar[Traits] = Traits(score_reads=Reads.LOCAL, uses_volumes=False, in_range=True)

    def __init__(self, args: Any, handle: Handle) -> None:
        given = typed_args(LearnedScoreArgs, args)
        if not given.policy:
            raise ConfigError("args: policy: expected the file of a policy")
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
        scores[scores == MAX_NODE_SCORE] -= 1  # only the best ones have the maximum
        scores[values == high] = MAX_NODE_SCORE
        return scores
