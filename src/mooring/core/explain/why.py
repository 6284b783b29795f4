"""Explanations of pods and pod groups, and suggestions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape as escape_html
from typing import Any

from msgspec.structs import replace
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.api.core import Pod
from mooring.api.pod_groups import BasicSchedulingPolicy, PodGroup, PodGroupSchedulingPolicy
from mooring.api.tables import print_notes, print_table, printed
from mooring.api.text import count_of, first_of
from mooring.core.engine.decision import Outcome
from mooring.core.engine.decision import ScheduleResult as EngineDecision
from mooring.core.engine.pod_groups import GroupDecision
from mooring.core.explain.decision import Decision, NodeShare, RefusalRow
from mooring.core.explain.group_remedies import GroupRemedies
from mooring.core.explain.remedies import PRIORITY, RemedySearch, Suggestion, WhatIf, devices, facts, volume_notes
from mooring.core.framework.pod_groups import PodGroupInfo
from mooring.core.framework.runtime import Profile, run_pre_enqueue
from mooring.core.session import Session
from mooring.core.state.cluster import ClusterState
from mooring.core.state.requests import display_name, written


class Explanation(Decision):
    """A decision with explanations. Printed, it reads as ``mooring explain`` shows it."""

    def __init__(self, decided: EngineDecision, scheduler_name: str, cluster: ClusterState) -> None:
        super().__init__(decided, scheduler_name, cluster)
        self.suggestions: list[Suggestion] = []  # the smallest change first
        self.notes: list[str] = []  # facts behind refusals, claims and volumes that matter
        self.devices: list[dict[str, str]] = []  # of a rejected pod's claims: those looked at, and why each is refused

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values in camelCase, as ``-o json`` prints it."""
        suggestions = [
            {"text": s.text, "changes": list(s.changes), "kinds": list(s.kinds), "nodes": list(s.nodes)}
            | ({"alsoOn": list(s.also)} if s.also else {})
            for s in self.suggestions
        ]
        looked = {"devices": self.devices} if self.devices else {}
        return {**super().to_dict(), "suggestions": suggestions, "notes": self.notes, **looked}

    def __repr__(self) -> str:
        # imported late, because it imports this module

        return text(self)

    def _repr_html_(self) -> str:
        lists = (
            ("Notes", self.notes),
            ("What would help, the smallest change first", [each.text for each in self.suggestions]),
        )
        shown = (
            f"<p>{title}:</p><ul>{''.join(f'<li>{escape_html(line)}</li>' for line in lines)}</ul>"
            for title, lines in lists
            if lines
        )
        return super()._repr_html_() + "".join(shown)


def explain_pod(session: Session, pod: Pod, *, suggest: bool = True) -> Explanation:
    """Decide about a pod and explain the decision. The cluster is not changed, even temporarily."""
    return explain(session, session.decide(pod), session.profile_for(pod), suggest=suggest)


def explain(session: Session, decided: EngineDecision, profile: Profile, *, suggest: bool = True) -> Explanation:
    """Explain a decision. Suggestions are searched only for a refusal, on the cluster as it is now."""
    cluster = session.state
    found = Explanation(decided, profile.scheduler_name, cluster)
    found.notes += volume_notes(decided.pod, cluster)
    if not found.is_scheduled:
        found.notes += facts(decided, profile, cluster)
        found.devices = devices(decided, profile, cluster)
    if suggest and found.outcome in (Outcome.UNSCHEDULABLE, Outcome.GATED):
        search = RemedySearch(WhatIf(session, profile.scheduler_name, decided.pod.pod), decided)
        found.suggestions = search.run()
        found.notes += search.notes
    return found


def explain_with(session: Session, decided: EngineDecision, profile: Profile, suggestion: Suggestion) -> Explanation:
    """Return the decision if a suggestion were followed; the cluster stays unchanged."""
    what_if = WhatIf(session, profile.scheduler_name, decided.pod.pod)
    asked = what_if.ask(suggestion.remedy, preempt=PRIORITY in suggestion.kinds)
    return Explanation(asked.decision, profile.scheduler_name, asked.cluster)


# ---- explanations of pod groups: how many pods fit, what the others lack, and what would help
# -------------------------

SHORT = "Insufficient "


@dataclass(slots=True)
class GroupExplanation:
    """A decision about a group with explanations."""

    group: PodGroup
    pods: Sequence[Pod]  # those without a node, in the order in which they are tried
    running: int  # pods of the group that have a node already
    held: str = ""  # why the group is not tried at all, or ""
    decided: GroupDecision | None = None
    nodes: dict[str, str] = field(default_factory=dict)  # pod key -> node, of as many pods as fit, enough or not
    refusals: dict[str, str] = field(default_factory=dict)  # pod key -> why it has no node beside those that fit
    rest: Explanation | None = None  # of the first pod that does not fit beside those that do
    remedies: list[Suggestion] = field(default_factory=list)  # changes with which the whole group would run
    requests: dict[str, int] = field(default_factory=dict)  # that pod's requests

    def __repr__(self) -> str:
        return printed(lambda to: draw_group(to, self))

    @property
    def is_scheduled(self) -> bool:
        return self.decided is not None and self.decided.status.is_success

    @property
    def message(self) -> str:
        """Message of the group's condition, or why its pods are held back."""
        return self.held if self.decided is None else self.decided.message

    @property
    def suggestions(self) -> list[Suggestion]:
        """Suggestions for the first pod that does not fit, without harm to others of its group."""
        own = {pod.key for pod in self.pods}
        found = [] if self.rest is None else self.rest.suggestions
        return [each for each in found if not own.intersection(each.text.replace(",", " ").split())]

    @property
    def headline(self) -> str:
        """One sentence: ``3 of 8 pods of group train-1 fit; 5 more need 8 nvidia.com/gpu each``."""
        name, total = self.group.name, self.running + len(self.pods)
        if self.held:
            there = f"{total} of the {self.group.minimum} pods" if total < self.group.minimum else f"{total} pods"
            return f"group {name} is held back: {there} are there"
        fit = self.running + len(self.nodes)
        if fit == total:
            return f"all {total} pods of group {name} fit"
        missing = total - fit
        enough = f" ({self.group.minimum} are enough)" if self.is_scheduled else ""
        return f"{fit} of {total} pods of group {name} fit{enough}; {missing} more {self._lack(missing)}"

    def _lack(self, missing: int) -> str:
        """Return the missing requests of the pods that do not fit."""
        if self.rest is None:
            return "find no node"
        each = " each" if missing > 1 else ""
        requests = self.requests
        wanted = [f"{written(name, requests[name])} {display_name(name)}" for name in self.short if requests.get(name)]
        needs = "need" if missing > 1 else "needs"
        return f"{needs} {' and '.join(wanted)}{each}" if wanted else "find no node"

    @property
    def short(self) -> list[str]:
        """Return the resources of which nodes have too little for the next pod."""
        refusals = [] if self.rest is None else self.rest.refusals
        reasons = {reason for refusal in refusals for reason in refusal.reasons}
        return sorted(reason.removeprefix(SHORT) for reason in reasons if reason.startswith(SHORT))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values in camelCase, as ``-o json`` prints it."""
        return {
            "podGroup": self.group.key,
            "outcome": "held" if self.held else "scheduled" if self.is_scheduled else "unschedulable",
            "headline": self.headline,
            "message": self.message,
            "minCount": self.group.minimum,
            "running": self.running,
            "fits": self.running + len(self.nodes),
            "pods": [
                {"pod": pod.key, "node": self.nodes.get(pod.key), "message": self.refusals.get(pod.key, "")}
                for pod in self.pods
            ],
            "victims": sorted(each.pod.key for each in self.decided.victims) if self.decided is not None else [],
            "remedies": [each.text for each in self.remedies],
            "suggestions": [each.text for each in self.suggestions],
            "notes": [] if self.rest is None else self.rest.notes,
        }


def explain_group(session: Session, group: PodGroup, pods: Sequence[Pod]) -> GroupExplanation:
    """Decide about a group and explain the decision. ``pods`` are those without a node. The cluster is not changed."""
    cluster = session.state
    placed = len(cluster.groups.placed(group.key))
    if not pods:
        return GroupExplanation(group, pods, placed, held="" if placed else "the group has no pods")
    profile = session.profile_for(pods[0])
    for pod in pods:
        held = run_pre_enqueue(profile.pre_enqueue, pod)
        if not held.is_success:
            remedies = GroupRemedies(session, group, pods, placed + len(pods), ()).run()
            return GroupExplanation(group, pods, placed, held=held.message, remedies=remedies)
    info = PodGroupInfo(group, [cluster.info(pod) for pod in pods])
    cycle = session.groups(profile)
    found = GroupExplanation(group, pods, placed, decided=cycle.decide(info))
    # An attempt ends once it cannot succeed. As a basic group it continues, which shows how many pods fit.
    as_basic = replace(group.spec, scheduling_policy=PodGroupSchedulingPolicy(basic=BasicSchedulingPolicy()))
    basic = PodGroupInfo(replace(group, spec=as_basic), info.pods)
    run = cycle.run(basic)
    found.nodes = {each.pod.pod.key: each.node_name for each in run.assignments}
    found.refusals = {each.pod.pod.key: each.message for each in run.decisions if each.node is None}
    left = [pod for pod in pods if pod.key not in found.nodes]
    if left:
        there = session.fork()
        for member in info.pods:
            if member.pod.key in found.nodes:
                there.assume(member, found.nodes[member.pod.key])
        found.rest = explain_pod(there, left[0])
        found.requests = cluster.info(left[0]).shape.requests
    if not found.is_scheduled:
        short = [name for name in found.short if found.requests.get(name)]
        found.remedies = GroupRemedies(session, group, pods, placed + len(found.nodes), short).run()
    return found


# ---- rendering of explanations, on a terminal and as text ------------------------------------------------------------


def draw(to: Console, found: Explanation, top: int, *, suggestions: int = 8) -> None:
    """Print a decision: the outcome, then its reasons, then suggestions."""
    if found.is_scheduled:
        _draw_placement(to, found, top)
        print_notes(to, found.notes)
    else:
        _draw_refusal(to, found, suggestions)


def text(found: Explanation) -> str:
    """Return the explanation without colours."""
    return printed(lambda to: draw(to, found, top=5))


def _draw_placement(to: Console, found: Explanation, top: int) -> None:
    to.print(f"[green]{escape(found.pod)} goes to [bold]{escape(found.node or '')}[/bold][/green]")
    feasible = f"{found.feasible_nodes} of {count_of(found.num_nodes, 'node')} can take it"
    if not found.scores:
        to.print(f"{feasible}, so nothing had to be scored.")
    else:
        tie = f"; {found.ties} are equally good, and the first in kube-scheduler's order wins" if found.ties > 1 else ""
        to.print(f"{feasible}{tie}.")
        to.print()
        draw_scores(to, found.scores[:top])
        if len(found.scores) > top:
            to.print(f"… and {len(found.scores) - top} more (--top N shows N)")
    if found.refusals:
        to.print()
        _draw_groups(to, found.refusals)


def draw_scores(to: Console, shares: Sequence[NodeShare]) -> None:
    """Print nodes by plugins; a plugin that gives 0 to all of them is left out."""
    plugins = [name for name in shares[0].shares if any(share.shares[name] for share in shares)]
    rows: list[list[str | Text]] = [
        [
            Text(share.node, style="bold green" if i == 0 else ""),
            Text(str(share.total), style="bold"),
            *(str(share.shares[name]) for name in plugins),
        ]
        for i, share in enumerate(shares)
    ]
    print_table(to, ["NODE", "TOTAL", *(_header(name, to) for name in plugins)], rows)
    silent = [name for name in shares[0].shares if name not in plugins]
    if silent:
        to.print(f"0 everywhere: {', '.join(silent)}", style="dim")


def _header(name: str, to: Console) -> str:
    """Break a long name between its words on a terminal, so that the table fits."""
    return "\n".join(re.findall(r"[A-Z][a-z0-9]*|[^A-Z]+", name)) if to.is_terminal else name


def _draw_refusal(to: Console, found: Explanation, suggestions: int) -> None:
    what = {"gated": "is held back", "error": "cannot be decided"}.get(found.outcome.value, "fits nowhere")
    to.print(f"[red]{escape(found.pod)} {what}[/red]")
    to.print(escape(found.message))
    if found.refusals:
        to.print()
        _draw_groups(to, found.refusals)
    print_notes(to, found.notes)
    if found.nominated_node:
        to.print()
        to.print(f"Room can be made on [bold]{escape(found.nominated_node)}[/bold] by evicting:")
        for victim in found.victims:
            broken = f", against the budget {', '.join(victim.breaks)}" if victim.breaks else ""
            to.print(f"  {escape(victim.pod)} (priority {victim.priority}{escape(broken)})")
    if found.suggestions:
        to.print()
        to.print("[bold]What would help[/bold], the smallest change first; each was tried:")
        for suggestion in found.suggestions[:suggestions]:
            to.print(f"  {_suggestion(suggestion)}")
    elif found.outcome.value == "unschedulable":
        to.print()
        to.print("No small change was found that would help.")


def _suggestion(suggestion: Suggestion) -> str:
    text = f"[green]{escape(suggestion.text)}[/green]"
    says_where = suggestion.about_node or suggestion.text.endswith(f" on {suggestion.nodes[0]}")
    return text if says_where else f"{text} [dim]({escape(first_of(suggestion.nodes))})[/dim]"


def _draw_groups(to: Console, refusals: Sequence[RefusalRow]) -> None:
    """Print one line per reason, whether or not evicting pods could help (``-o json`` distinguishes these)."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for refusal in refusals:
        nodes.setdefault((", ".join(refusal.reasons), refusal.plugin), []).extend(refusal.nodes)
    rows = [
        (str(len(names)), Text(reasons), Text(plugin), Text(first_of(names)))
        for (reasons, plugin), names in sorted(nodes.items(), key=lambda entry: -len(entry[1]))
    ]
    print_table(to, ["NODES", "REFUSED BECAUSE", "PLUGIN", "WHICH"], rows)


# ---- rendering of a pod group's explanation on a terminal -----------------------------------------------------------

MAX_PODS = 20


def draw_group(to: Console, found: GroupExplanation, *, suggestions: int = 8) -> None:
    """Print a decision: one sentence, then the pods, then suggestions."""
    to.print(f"[{'green' if found.is_scheduled else 'red'}]{escape(found.headline)}[/]")
    if found.message:
        to.print(escape(found.message))
    if found.decided is None:
        _draw_remedies(to, found)
        return
    to.print()
    rows = [
        (Text(pod.key), Text(found.nodes.get(pod.key, "-")), Text(found.refusals.get(pod.key, "")))
        for pod in found.pods[:MAX_PODS]
    ]
    print_table(to, ["POD", "NODE" if found.is_scheduled else "WOULD FIT ON", "WHY NOT"], rows)
    if len(found.pods) > MAX_PODS:
        to.print(f"… and {len(found.pods) - MAX_PODS} more (-o json has all)")
    if found.decided.victims:
        to.print()
        to.print("Room can be made for the group by evicting:")
        for victim in found.decided.victims:
            to.print(f"  {escape(victim.pod.key)} (priority {victim.priority})")
    _draw_remedies(to, found)
    for note in found.rest.notes if found.rest is not None else ():
        to.print(f"Note: {escape(note)}")
    if found.suggestions:
        to.print()
        to.print("[bold]What would help the next pod[/bold], the smallest change first; each was tried:")
        for suggestion in found.suggestions[:suggestions]:
            to.print(f"  [green]{escape(suggestion.text)}[/green]")


def _draw_remedies(to: Console, found: GroupExplanation) -> None:
    if found.remedies:
        to.print()
        to.print("[bold]What would let the whole group run[/bold], the smallest change first; each was tried:")
        for remedy in found.remedies:
            to.print(f"  [green]{escape(remedy.text)}[/green]")
