"""What if: questions about a moment of a record, asked of a fork of its cluster."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mooring.api.errors import InputError
from mooring.api.memory import seldom_collecting
from mooring.ask.diff import Which, diff
from mooring.ask.drill import Progress, lose
from mooring.ask.scheduler import Scheduler
from mooring.core.cluster import Cluster
from mooring.core.config.load import config_from_dict
from mooring.core.config.wire import to_wire
from mooring.core.explain.why import Explanation
from mooring.core.session import PluginReference
from mooring.record.moment import Moment

# --------------------------------------------------------------------------------------------------------------------
# Explanation of an attempt: the decision is repeated in the cluster of that moment, and described by rows.

BEST = 12  # nodes with the share of each plugin

Row = Callable[[str], int]


def why(moment: Moment, filters: Sequence[str], row: Row) -> dict[str, Any]:
    """Explain the attempt of a moment. ``filters`` are in order; ``row`` numbers nodes."""
    attempt = moment.attempt
    assert attempt is not None
    found = moment.explain()
    is_same = (found.outcome.value, found.node or "") == (attempt.outcome, attempt.node)
    pod = moment.pods.get(attempt.key)
    return told(found, filters, row, attempt.node) | {
        "again": "" if is_same else found.headline,
        "happened": True,  # evictions actually happened
        "nominatedBefore": (pod.status.nominated_node_name if pod is not None else "")
        or None,  # nominated by an earlier attempt
    }


def told(found: Explanation, filters: Sequence[str], row: Row, node: str = "") -> dict[str, Any]:
    """Return an explanation by rows of nodes, small enough for 5,000 of them."""
    chosen = node or found.node
    scores = sorted(found.scores, key=lambda share: (share.node != chosen, -share.total))
    return {
        "pod": found.pod,
        "schedulerName": found.scheduler_name,
        "outcome": found.outcome.value,
        "node": row(chosen) if chosen else None,
        "reason": found.reason,
        "message": found.message,
        "nodes": {"all": found.num_nodes, "evaluated": found.evaluated_nodes, "feasible": found.feasible_nodes},
        "ties": found.ties,
        "funnel": _funnel(found, filters, row),
        "plugins": list(scores[0].shares) if scores else [],
        "best": [
            {"node": row(share.node), "total": share.total, "shares": list(share.shares.values())}
            for share in scores[:BEST]
        ],
        "totals": [[row(share.node) for share in scores], [share.total for share in scores]],
        "nominated": found.nominated_node or None,
        "victims": [
            {"pod": victim.pod, "priority": victim.priority, "breaks": list(victim.breaks)} for victim in found.victims
        ],
        "suggestions": [
            {
                "text": each.text,
                "changes": list(each.changes),  # the page says them in other languages, too
                "also": list(each.also),
                "aboutNode": each.about_node,
                "isRequest": all(kind == "request" for kind in each.kinds),
                "nodes": [row(name) for name in each.nodes],
                "canTry": bool(each.remedy),
            }
            for each in found.suggestions
        ],
        "notes": found.notes,
    }


def _funnel(found: Explanation, filters: Sequence[str], row: Row) -> list[dict[str, Any]]:
    """Return the refusals in the order of the filters."""
    order = {name: i for i, name in enumerate(filters)}
    refusals = sorted(found.refusals, key=lambda refusal: (order.get(refusal.plugin, -1), -len(refusal.nodes)))
    return [
        {
            "plugin": refusal.plugin,
            "code": refusal.code,
            "reasons": list(refusal.reasons),
            "rows": [row(name) for name in refusal.nodes],
        }
        for refusal in refusals
    ]


MAX_PLACED = 500  # pending pods that are tried
MAX_ADDED = 100
MAX_ANEW = 2_000  # pods of a cluster in which all are placed again
MAX_WEIGHT = 100


def what_if(
    moment: Moment,
    question: Mapping[str, str],
    plugins: Sequence[PluginReference],
    filters: Sequence[str],
    row: Row,
    progress: Progress = lambda done, of: None,
) -> dict[str, Any]:
    """Answer one of ``lose=…``, ``drain=NODE``, ``cordon=NODE``, ``add=N&like=NODE``, ``weight=PLUGIN:N``, ``try=…``.

    ``lose`` and ``drain`` take a node, or all nodes with ``LABEL=VALUE``; ``try`` takes a suggestion. ``progress`` is
    called with the number of placed pods, where there may be many; an exception stops the answer.
    """
    if moment.attempt is None and not question.keys() & {"lose", "drain", "add"}:
        raise InputError("what if: expected a decision; without one, nodes can be lost, drained or added")
    if "try" in question:
        found = moment.explain_with(question["try"])
        return {"lost": [], "why": told(found, filters, row) | {"again": ""}}
    cluster = moment.cluster
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        version = str(moment.features.version)
        scheduler = Scheduler(cluster, moment.config, plugins, kubernetes_version=version)
    if "lose" in question:
        return _lose(scheduler, question["lose"], row, progress)
    if "drain" in question:
        return _lose(scheduler, question["drain"], row, progress, stays=True)
    if "weight" in question:
        return _weigh(moment, scheduler, question["weight"], plugins, filters, row)
    if "cordon" in question:
        assert moment.attempt is not None
        return _cordon(scheduler, question["cordon"], moment.attempt.key, filters, row)
    if "add" in question:
        return _add(scheduler, question["add"], question.get("like", ""), row, progress)
    raise InputError("what if: expected lose, drain, cordon, add, weight or try")


def _lose(scheduler: Scheduler, what: str, row: Row, progress: Progress, *, stays: bool = False) -> dict[str, Any]:
    """Lose nodes. A drained node keeps the pods of its DaemonSets; all others are placed again."""
    name, _, value = what.partition("=")
    cluster = scheduler.cluster
    nodes = [node.name for node in cluster.nodes if (node.labels.get(name) == value if value else node.name == name)]
    if not nodes:
        raise InputError(f"{'drain' if stays else 'lose'}: no node is {what!r}")
    with seldom_collecting():
        loss = lose(scheduler.session, (what,), nodes, progress)
    return {
        "lost": [row(node) for node in nodes],
        "placed": {pod: row(node) for pod, node in loss.replaced.items()},
        "unplaced": loss.unplaced,
        "preempted": loss.preempted,
        "bare": loss.bare_pods,
        "budgets": loss.broken_budgets,
        "use": loss.use,
        "stays": stays,
    }


def _weigh(
    moment: Moment,
    scheduler: Scheduler,
    wish: str,
    plugins: Sequence[PluginReference],
    filters: Sequence[str],
    row: Row,
) -> dict[str, Any]:
    """Change the weight of a score plugin: return this decision with it, and every pod that would move.

    If they are few, all pods are placed again with both weights; otherwise only pending ones.
    """
    attempt, (name, _, weight) = moment.attempt, wish.partition(":")
    assert attempt is not None
    profile = scheduler.session.profiles.get(attempt.profile)
    known = {plugin.name for plugin, _ in profile.score} if profile is not None else set()
    if name not in known:
        raise InputError(f"weight: no score plugin {name!r}; expected one of {', '.join(sorted(known))}")
    if not weight.isdecimal() or not 1 <= int(weight) <= MAX_WEIGHT:
        raise InputError(f"weight: found {weight!r}; expected a number from 1 to {MAX_WEIGHT}")
    config = config_from_dict(with_weight(to_wire(moment.config), attempt.profile, name, int(weight)), moment.features)
    version = str(moment.features.version)
    other = Scheduler(scheduler.cluster, config, plugins, kubernetes_version=version)
    asked: Which = "all" if len(scheduler.cluster.pods) <= MAX_ANEW else "pending"
    found = diff(scheduler, other, asked)
    return {
        "lost": [],
        "why": told(other.explain(attempt.key), filters, row) | {"again": ""},
        "asked": asked,
        "pods": found.pods,
        "moved": [
            {
                "pod": move.pod,
                "from": row(move.before) if move.before else None,
                "to": row(move.after) if move.after else None,
                "because": move.cause.text,
            }
            for move in found.moved[:MAX_PLACED]
        ],
        "moves": len(found.moved),
    }


def with_weight(document: dict[str, Any], scheduler_name: str, plugin: str, weight: int) -> dict[str, Any]:
    """Return a configuration in which a profile's score plugin has this weight, which overrides multiPoint."""
    for profile in document["profiles"]:
        if profile["schedulerName"] == scheduler_name:
            score = profile.setdefault("plugins", {}).setdefault("score", {})
            others = [each for each in score.get("enabled") or () if each["name"] != plugin]
            score["enabled"] = [*others, {"name": plugin, "weight": weight}]
    return document


def _cordon(scheduler: Scheduler, name: str, pod: str, filters: Sequence[str], row: Row) -> dict[str, Any]:
    with scheduler.cluster.fork() as fork:
        fork.cordon(name)
        found = scheduler.on(fork).explain(pod)
    return {"lost": [row(name)], "why": told(found, filters, row) | {"again": ""}}


def _add(scheduler: Scheduler, count: str, like: str, row: Row, progress: Progress) -> dict[str, Any]:
    if not count.isdecimal() or not 1 <= int(count) <= MAX_ADDED:
        raise InputError(f"add: found {count!r}; expected a number from 1 to {MAX_ADDED}")
    fork: Cluster = scheduler.cluster.fork()
    added = fork.add(fork.get(f"node/{like}"), copies=int(count))
    session = scheduler.on(fork).session.fork()
    waiting = sorted(fork.pending, key=lambda pod: (-pod.priority, pod.metadata.creation_timestamp or "", pod.key))
    placed: dict[str, str] = {}
    unplaced: dict[str, str] = {}
    for number, pod in enumerate(waiting[:MAX_PLACED]):
        progress(number, min(len(waiting), MAX_PLACED))
        decision = session.place(session.info(pod))
        if decision.node is None:
            unplaced[pod.key] = decision.message
        else:
            placed[pod.key] = decision.node
    known = {node.name for node in added}
    return {
        "lost": [],
        "added": sorted(known),
        "placed": {pod: -1 if node in known else row(node) for pod, node in placed.items()},
        "unplaced": unplaced,
    }
