"""Fast on large clusters: bounds (equal nodes are one kind, pods can be cut into pieces), and a greedy start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mooring.ask.placement_problem import Counts, Ints, PlacementProblem
from mooring.ask.relaxation import LinearProblem, Offer, lower_bound


def _kinds(problem: PlacementProblem, rows: Ints) -> list[Ints]:
    """Rows that are equal to all groups."""
    looks = np.concatenate([problem.most[:, rows].T, problem.free[rows].clip(min=0), problem.price[rows, None]], axis=1)
    _, kind_of = np.unique(looks, axis=0, return_inverse=True)
    return [rows[kind_of.reshape(-1) == kind] for kind in np.unique(kind_of)]


def cheapest_nodes(problem: PlacementProblem) -> float:
    """A lower bound for the price of the nodes in use if all pods of the problem are placed.

    Nodes that are equal to all groups are one kind, of which some number is in use; pods can be cut into pieces.
    """
    held = np.flatnonzero(problem.is_held)
    others = np.flatnonzero(~problem.is_held)
    most = problem.most
    room = problem.free.clip(min=0)
    kinds = _kinds(problem, others)
    given = LinearProblem(
        counts=problem.sizes,
        wanted=problem.wanted.astype(np.float64),
        room=room[held].sum(axis=0, keepdims=True).astype(np.float64),
        room_for=most[:, held].sum(axis=1, keepdims=True),
        size=np.array([room[kind[0]] for kind in kinds], np.float64).reshape(len(kinds), -1),
        fits=np.array([most[:, kind[0]] for kind in kinds], np.int64).reshape(len(kinds), -1).T,
        spreads=[],
        classes=[held],
        new=np.array([kind[0] for kind in kinds], np.int64),
    )
    offers = [Offer(str(i), float(problem.price[kind[0]]), len(kind)) for i, kind in enumerate(kinds)]
    return lower_bound(given, offers).cost + float(problem.price[held].sum())


def most_weight(problem: PlacementProblem, weights: Sequence[int], *, keeps_running: bool = True) -> int:
    """An upper bound for the weight of the pods that can be placed together."""
    import highspy

    api: Any = highspy
    groups, most = len(problem.groups), problem.most
    if not groups:
        return 0
    kinds = _kinds(problem, np.arange(len(problem.names)))
    room = np.maximum(problem.free, problem.current.T @ problem.wanted)  # what runs may stay, even where it is too much
    solver = api.Highs()
    solver.setOptionValue("output_flag", False)
    for g, group in enumerate(problem.groups):
        for kind in kinds:
            solver.addVar(0.0, float(min(group.size, int(most[g, kind].sum()))))
            solver.changeColCost(solver.getNumCol() - 1, -float(weights[g]))
    columns = np.arange(groups * len(kinds), dtype=np.int32).reshape(groups, len(kinds))
    for g, group in enumerate(problem.groups):
        least = len(group.running) if keeps_running else 0
        solver.addRow(float(least), float(group.size), len(kinds), columns[g], np.ones(len(kinds)))
    for j, kind in enumerate(kinds):
        for k in range(len(problem.resources)):
            asks = problem.wanted[:, k].astype(np.float64)
            scale = max(1.0, float(asks.max()))
            total = float(room[kind, k].sum())
            solver.addRow(-api.kHighsInf, total / scale, groups, columns[:, j].copy(), asks / scale)
    solver.run()
    if solver.getModelStatus() != api.HighsModelStatus.kOptimal:
        return int(sum(weight * group.size for weight, group in zip(weights, problem.groups, strict=True)))
    return int(np.floor(-solver.getInfo().objective_function_value + 1e-4))


def empty_nodes(problem: PlacementProblem, counts: Counts, most: Counts) -> Counts:
    """Empty nodes one after another, the least used first, into the fullest nodes that have room.

    Only amounts count. What comes is a start for the solver, which is far better than where pods are now.
    """
    counts = counts.copy()
    asks = problem.wanted
    whole = problem.whole.astype(np.float64).clip(min=1)
    room = np.maximum(problem.free, problem.current.T @ asks) - counts.T @ asks
    share = (asks[:, None, :] / whole.mean(axis=0)).max(axis=2).reshape(-1)  # [group]: of an average node
    largest_first = np.argsort(-share, kind="stable")
    use = ((counts.T @ asks) / whole).max(axis=1)
    in_use = counts.any(axis=0) | problem.is_held
    for row in np.argsort(use, kind="stable").tolist():
        if problem.is_held[row] or not counts[:, row].any():
            continue
        in_use[row] = False
        trial, left = counts.copy(), room.copy()
        trial[:, row] = 0
        for g in largest_first.tolist():
            number = int(counts[g, row])
            if not number:
                continue
            some = asks[g] > 0
            fits = (left[:, some] // asks[g, some]).min(axis=1).clip(min=0)
            fits = np.minimum(fits, most[g] - trial[g]) * in_use
            targets = np.flatnonzero(fits > 0)
            targets = targets[np.argsort((left[targets] / whole[targets]).min(axis=1), kind="stable")]
            taken = np.minimum(
                fits[targets], np.maximum(0, number - np.concatenate([[0], np.cumsum(fits[targets])[:-1]]))
            )
            if int(taken.sum()) < number:
                break
            trial[g, targets] += taken
            left[targets] -= taken[:, None] * asks[g]
        else:
            left[row] += counts[:, row] @ asks
            counts, room = trial, left
            continue
        in_use[row] = True
    return counts
