"""A small policy: a weight for each feature of a node, and for each pair of a node's and a pod's feature."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.errors import InputError
from mooring.gym.features import NODE_FEATURES, POD_FEATURES, Matrix

N, P = len(NODE_FEATURES), len(POD_FEATURES)
SIZE = N + N * P


@dataclass(frozen=True, slots=True)
class LinearPolicy:
    """Prefers the node whose weighted features add up to the most."""

    weights: NDArray[np.float64]  # [node feature], then [node feature, pod feature]

    def values(self, nodes: Matrix, pod: Matrix) -> NDArray[np.float64]:
        """[node]: the larger the better."""
        direction = self.weights[:N] + self.weights[N:].reshape(N, P) @ pod
        found: NDArray[np.float64] = nodes @ direction
        return found

    def action(self, seen: dict[str, Matrix], mask: NDArray[Any]) -> int:
        """The best node that the mask allows."""
        return int(np.where(np.asarray(mask) > 0, self.values(seen["nodes"], seen["pod"]), -np.inf).argmax())

    def save(self, path: str | os.PathLike[str]) -> None:
        value = {"nodeFeatures": NODE_FEATURES, "podFeatures": POD_FEATURES, "weights": self.weights.tolist()}
        Path(path).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearPolicy:
        """Read what ``save`` has written; InputError says in one line what is wrong with it."""
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
