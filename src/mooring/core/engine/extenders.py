"""Extenders in the scheduling cycle: one after another about feasible nodes, together for scores."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.core.framework.cycle_state import CycleError
from mooring.core.framework.extender import SCORE_SCALE, AskAll, ExtenderClient, ExtenderError, ask_in_turn
from mooring.core.framework.status import Code, NodeStatuses, Status
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.pod_info import PodInfo

log = logging.getLogger("mooring.core.engine.extenders")

MAX_INT64 = 2**63 - 1


class ExtenderScores(msgspec.Struct, frozen=True):
    """Scores of extenders, per offered node."""

    totals: NDArray[np.int64]  # weighted and scaled
    mentioned: NDArray[np.bool_]  # by at least one extender
    raw: Mapping[str, Mapping[str, Sequence[int]]]  # node -> extender -> scores as answered


class Extenders:
    """All extenders of a configuration, ignorable ones last."""

    def __init__(
        self,
        extenders: Sequence[ExtenderClient],
        *,
        pick: Callable[[int], int] = lambda n: 0,
        ask_all: AskAll = ask_in_turn,
    ) -> None:
        self.all = tuple(extenders)
        self.pick = pick
        self._ask_all = ask_all
        self.want_many = any(extender.is_filter or extender.is_prioritizer for extender in extenders)

    def filter(self, pod: PodInfo, offered: Sequence[NodeInfo], said: dict[str, Status]) -> Sequence[NodeInfo]:
        """Return the nodes that pass all extenders, in the last one's order; ``said`` gets reasons by node name."""
        left = offered
        for extender in self.all:
            if not left:
                break
            if not extender.is_filter or not extender.is_interested(pod):
                continue
            try:
                result = extender.filter(pod, left)
            except ExtenderError as error:
                if extender.is_ignorable:
                    log.info(
                        "skipping ignorable extender %s: it failed for pod %s: %s",
                        extender.name,
                        pod.pod.key,
                        error,
                    )
                    continue
                raise CycleError(Status.error(str(error))) from error
            for name, text in result.failed_and_unresolvable.items():
                said[name] = Status.unresolvable(text)
            for name, text in result.failed.items():
                if name not in result.failed_and_unresolvable:
                    said[name] = Status.unschedulable(text)
            left = result.nodes
        return left

    def score(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> ExtenderScores:
        """Ask all interested extenders. A failing one contributes no scores; that never fails the pod."""
        asked = [extender for extender in self.all if extender.is_interested(pod)]
        by_name: dict[str, int] = {}
        raw: dict[str, dict[str, list[int]]] = {}
        for extender, answer in zip(asked, self._ask_all(asked, pod, nodes), strict=True):
            if isinstance(answer, ExtenderError):
                log.debug("extender %s gives no scores for pod %s: %s", extender.name, pod.pod.key, answer)
                continue
            scale = answer.weight * SCORE_SCALE
            for name, score in answer.scores:
                by_name[name] = by_name.get(name, 0) + score * scale
                raw.setdefault(name, {}).setdefault(extender.name, []).append(score)
        totals = np.fromiter((_wrapped(by_name.get(info.name, 0)) for info in nodes), np.int64, len(nodes))
        mentioned = np.fromiter((info.name in by_name for info in nodes), np.bool_, len(nodes))
        return ExtenderScores(totals, mentioned, raw)

    def bind(self, pod: PodInfo, node_name: str) -> Status | None:
        """Let the first interested binder bind the pod; None if there is none, so that Bind plugins run."""
        for extender in self.all:
            if not extender.is_binder or not extender.is_interested(pod):
                continue
            try:
                extender.bind(pod, node_name)
            except ExtenderError as error:
                if extender.is_ignorable:
                    log.info(
                        "skipping ignorable extender %s: it failed to bind pod %s: %s",
                        extender.name,
                        pod.pod.key,
                        error,
                    )
                    continue
                return Status.error(str(error))
            return Status()
        return None


def _wrapped(total: int) -> int:
    """Wrap a score to 64 bits as upstream: scores have no range."""
    return total if -MAX_INT64 <= total <= MAX_INT64 else (total + 2**63) % 2**64 - 2**63


class StatusesWithExtenders(NodeStatuses):
    """The filters' statuses, overridden by those of extenders.

    An extender's answer replaces a plugin's. A node that was dropped without a reason has no status and counts as not
    evaluated, and a name that no node has still counts among the reasons: both as upstream.
    """

    def __init__(self, base: NodeStatuses, said: Mapping[str, Status]) -> None:
        super().__init__(base._table, base._verdicts, base._rows, base.absent)
        self._said = said
        self._default = Status.unresolvable() if base.absent.is_success else base.absent

    def _by_row(self) -> dict[int, Status]:
        nodes = self._table.nodes
        return {info.row: status for name, status in self._said.items() if (info := nodes.get(name)) and info.row >= 0}

    def _refused(self) -> NDArray[np.bool_]:
        """Return, per searched row, whether a plugin rejected it."""
        refused = np.zeros(len(self.rows), np.bool_)
        for _, verdict in self._verdicts:
            refused |= verdict.ids != 0
        return refused

    @property
    def num_explicit(self) -> int:
        """Return the number of nodes that have a status."""
        refused = self.rows[self._refused()]
        overridden = np.fromiter(self._by_row(), np.int64)
        return int(len(refused) + len(self._said) - np.isin(overridden, refused).sum())

    def codes(self) -> NDArray[np.int8]:
        codes = np.full(len(self._infos), int(self._default.code), np.int8)
        refused = self._refused()
        codes[self.rows[refused]] = super().codes()[self.rows[refused]]
        for row, status in self._by_row().items():
            codes[row] = int(status.code)
        return codes

    def at(self, row: int) -> Status:
        said = self._said.get(self._infos[row].name)
        if said is not None:
            return said
        status = super().at(row)
        return self._default if status.is_success else status

    def get(self, node_name: str) -> Status:
        said = self._said.get(node_name)
        return super().get(node_name) if said is None else said

    def groups(self) -> list[tuple[Status, NDArray[np.int64]]]:
        by_row = self._by_row()
        overridden = np.fromiter(by_row, np.int64)
        found: dict[Status, list[NDArray[np.int64]]] = {}
        for status, rows in NodeStatuses(self._table, self._verdicts, self._rows).groups():
            left = rows[~np.isin(rows, overridden)]
            if len(left):
                found.setdefault(status, []).append(left)
        for row, status in by_row.items():
            found.setdefault(status, []).append(np.array([row]))
        explicit = np.concatenate([rows for group in found.values() for rows in group] or [np.zeros(0, np.int64)])
        if self._default.reasons and len(explicit) < len(self._infos):
            mask = np.ones(len(self._infos), np.bool_)
            mask[explicit] = False
            found.setdefault(self._default, []).append(np.flatnonzero(mask))
        return [(status, np.concatenate(rows)) for status, rows in found.items()]

    def counts(self) -> dict[Status, int]:
        return {status: len(rows) for status, rows in self.groups()}

    def histogram(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for status, rows in self.groups():
            if status is self._default:
                continue
            for reason in status.reasons:
                counts[reason] += len(rows)
        nodes = self._table.nodes
        for name, status in self._said.items():
            info = nodes.get(name)
            if info is None or info.row < 0:
                counts.update(status.reasons)
        absent = len(self._infos) - self.num_explicit
        if absent > 0:
            for reason in self._default.reasons:
                counts[reason] += absent
        return counts

    def rows_with(self, code: Code) -> NDArray[np.int64]:
        return np.flatnonzero(self.codes() == int(code))

    def count_with(self, code: Code) -> int:
        return len(self.rows_with(code))
