"""Checks of an extender's answers: what a scheduler cannot use, and what is legal but probably a mistake."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import msgspec

from mooring.extender import wire
from mooring.extender.go_decoder import FilterAnswer
from mooring.extender.http_client import Reply
from mooring.extender.sdk import MAX_SCORE
from mooring.framework.extender import ExtenderError

FILTER_FIELDS = ("Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error")
PRIORITY_FIELDS = ("Host", "Score")
PREEMPT_FIELDS = ("NodeNameToMetaVictims",)


@dataclass(slots=True)
class Check:
    """One thing that was tried: ok, or what is wrong with it. A warning is legal but probably a mistake."""

    name: str
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    note: str = ""

    @property
    def passed(self) -> bool:
        return not self.problems


def check_filter(check: Check, reply: Reply, offered: Collection[str], *, by_name: bool) -> None:
    """Look at the answer to a filter request about these nodes."""
    try:
        if reply.status != 200:
            check.problems.append(f"status {reply.status}: a scheduler reads only answers with 200")
            return
        found = wire.read_filter_answer(reply.body)
    except ExtenderError as error:
        check.problems.append(f"a scheduler would say: {error}")
        return
    check.warnings += odd_spellings(reply.body, FILTER_FIELDS)
    if found.error:
        check.problems.append(f"Error: {found.error}")
        return
    kept = _kept_by_name(check, found) if by_name else _kept_whole(check, found)
    _check_kept(check, kept, set(offered))
    _check_reasons(check, found, set(kept), set(offered))


def _kept_by_name(check: Check, found: FilterAnswer) -> list[str]:
    if found.node_names is None and found.nodes is not None:
        check.warnings.append("answers with Nodes where names were sent: they are scored as empty nodes")
        return node_names(found.nodes)
    if found.node_names is None:
        check.problems.append("answers with neither NodeNames nor Nodes: no node is kept")
    return found.node_names or []


def _kept_whole(check: Check, found: FilterAnswer) -> list[str]:
    if found.nodes is None:
        what = "NodeNames only: not read unless nodeCacheCapable is set" if found.node_names else "no Nodes"
        check.problems.append(f"answers with {what}, so that no node is kept")
        return []
    return node_names(found.nodes)


def _check_kept(check: Check, kept: Sequence[str], offered: set[str]) -> None:
    unknown = [name for name in kept if name not in offered]
    if unknown:
        check.problems.append(f"keeps {unknown[0]!r}, which was not offered: a scheduler fails the pod")
    if len(kept) != len(set(kept)):
        check.problems.append("keeps a node twice")


def _check_reasons(check: Check, found: FilterAnswer, kept: set[str], offered: set[str]) -> None:
    failed, for_good = found.failed.keys(), found.failed_and_unresolvable.keys()
    silent = offered - kept - failed - for_good
    if silent:
        check.warnings.append(
            f"{len(silent)} of {len(offered)} nodes are dropped without a reason: users cannot tell why"
        )
    strangers = (failed | for_good) - offered
    if strangers:
        check.warnings.append(f"gives a reason for {min(strangers)!r}, which was not offered")
    if failed & for_good:
        check.warnings.append(
            f"{min(failed & for_good)!r} is in FailedNodes and FailedAndUnresolvableNodes; the latter counts"
        )
    if kept & (failed | for_good):
        check.warnings.append(f"{min(kept & (failed | for_good))!r} is kept and refused; kept is what counts")


def check_scores(check: Check, reply: Reply, offered: Collection[str]) -> None:
    """Look at the answer to a prioritize request about these nodes."""
    try:
        if reply.status != 200:
            check.problems.append(f"status {reply.status}: a scheduler then goes on without these scores")
            return
        scores = wire.read_priorities(reply.body)
    except ExtenderError as error:
        check.problems.append(f"a scheduler would say: {error}")
        return
    check.warnings += odd_spellings(reply.body, PRIORITY_FIELDS)
    hosts = [host for host, _ in scores]
    beyond = [(host, score) for host, score in scores if not 0 <= score <= MAX_SCORE]
    if beyond:
        check.warnings.append(
            f"{beyond[0][0]} gets {beyond[0][1]}; scores go from 0 to {MAX_SCORE}, others outweigh all plugins"
        )
    strangers, without = set(hosts) - set(offered), set(offered) - set(hosts)
    if strangers:
        check.warnings.append(f"scores {min(strangers)!r}, which was not offered")
    if without:
        check.warnings.append(f"{len(without)} of {len(offered)} nodes get no score: they count as 0")
    if len(hosts) != len(set(hosts)):
        check.problems.append("scores a node twice: both are added up")


def check_preemption(check: Check, reply: Reply, offered: Collection[str]) -> None:
    """Look at the answer to a preempt request about these nodes."""
    try:
        if reply.status != 200:
            check.problems.append(f"status {reply.status}: preemption then fails")
            return
        found = wire.read_preemption_answer(reply.body)
    except ExtenderError as error:
        check.problems.append(f"a scheduler would say: {error}")
        return
    check.warnings += odd_spellings(reply.body, PREEMPT_FIELDS)
    for node, victims in found.items():
        if node not in offered:
            check.problems.append(f"answers with {node!r}, which was not offered: preemption then fails")
        if not victims.uids:
            check.problems.append(f"leaves {node} without victims: preemption then fails")


def odd_spellings(body: bytes, wire_names: Sequence[str]) -> list[str]:
    """Fields in another spelling: Go reads them, other schedulers may not."""
    try:
        value = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return []
    objects = value if isinstance(value, list) else [value]
    spelled = {name.lower(): name for name in wire_names}
    odd = {
        key: spelled[key.lower()]
        for item in objects
        if isinstance(item, dict)
        for key in item
        if key not in wire_names and key.lower() in spelled
    }
    return [f"field {key!r}: {right!r} is its name" for key, right in sorted(odd.items())]


def node_names(nodes: Sequence[bytes]) -> list[str]:
    """The names in the JSON of nodes; an empty one for a node without."""
    found = []
    for raw in nodes:
        meta = (msgspec.json.decode(raw) or {}).get("metadata") or {}
        found.append(str(meta.get("name", "")))
    return found


def says_error(body: bytes) -> bool:
    """Whether an answer says that it is none: an Error, or nothing that can be read."""
    try:
        value = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return True
    return isinstance(value, dict) and any(key.lower() == "error" and value[key] for key in value)
