"""What a profile's filters say about some rows, all together."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.framework.status import SUCCESS, Status
from mooring.framework.verdict import Verdict


class FilterOutcome(msgspec.Struct):
    """The filters' verdicts on some rows, in plugin order, without the plugins that let all pass."""

    verdicts: list[tuple[str, Verdict]]
    feasible: NDArray[np.bool_]

    def passed_so_far(self) -> NDArray[np.bool_]:
        """The nodes that none of the verdicts so far refuses."""
        passed = np.ones(len(self.feasible), np.bool_)
        for _, verdict in self.verdicts:
            passed &= verdict.passes()
        return passed

    def status_at(self, i: int) -> Status:
        """The first refusal of the node at this position, signed by its plugin; SUCCESS if there is none."""
        for name, verdict in self.verdicts:
            number = int(verdict.ids[i])
            if number:
                return verdict.status_of(number).by(name)
        return SUCCESS
