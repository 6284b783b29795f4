"""What changes from one lesson to the next, in the order in which it is best understood.

A hunk of the difference belongs to the first explanation one of whose marks is in a changed line. A test holds that
every hunk has an explanation and every explanation a hunk.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field

from mooring.learn.course import Lesson


@dataclass(slots=True)
class LessonChange:
    """One idea of a lesson, and the hunks of the difference that carry it out."""

    says: str
    marks: tuple[str, ...]
    hunks: list[list[str]] = field(default_factory=list)


def hunks(old: Lesson, new: Lesson) -> list[list[str]]:
    """The places where two lessons differ, each with a line of context; the text at the top is left out."""
    before, after = (_code(one) for one in (old, new))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    found = []
    for group in matcher.get_grouped_opcodes(1):
        lines = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f"  {line}".rstrip() for line in before[i1:i2]]
            else:
                lines += [f"- {line}".rstrip() for line in before[i1:i2]]
                lines += [f"+ {line}".rstrip() for line in after[j1:j2]]
        found += _split(lines)
    return found


def _split(lines: list[str]) -> list[list[str]]:
    """Cut a hunk where a new class or function begins, so that each can have its own explanation."""
    parts: list[list[str]] = [[]]
    for before, line in zip([None, *lines], lines, strict=False):
        if before == "+" and re.match(r"\+ +(class|def|async def|@)|\+ (class|def|async def|@)", line):
            parts.append([])
        parts[-1].append(line)
    return [_without_blank_ends(part) for part in parts if any(line[:2] in ("+ ", "- ") for line in part)]


def _without_blank_ends(lines: list[str]) -> list[str]:
    blank = ("", "+", "-")
    first = next(i for i, line in enumerate(lines) if line not in blank)
    last = next(i for i, line in reversed(list(enumerate(lines))) if line not in blank)
    return lines[first : last + 1]


def _code(one: Lesson) -> list[str]:
    text = one.source.read_text(encoding="utf-8")
    return text[text.index("from __future__") :].splitlines()


def explained(old: Lesson, new: Lesson) -> list[LessonChange]:
    """The changes from one lesson to the next; what no explanation claims comes last."""
    changes = [LessonChange(says, marks) for says, marks in EXPLANATIONS[new.number]]
    rest = LessonChange("And what follows from that.", ())
    for lines in hunks(old, new):
        changed = [line for line in lines if line[:1] in "+-"]
        owner = next((one for one in changes if any(mark in line for mark in one.marks for line in changed)), rest)
        owner.hunks.append(lines)
    return [one for one in [*changes, rest] if one.hunks]


EXPLANATIONS: dict[int, list[tuple[str, tuple[str, ...]]]] = {
    2: [
        (
            "A predicate could say no, but not why. A Status carries a code and a reason.",
            ("class Status", "SUCCESS = "),
        ),
        (
            "A plugin is a class with one method per extension point; so far there is filter.",
            ("class Plugin", "May the node take the pod?"),
        ),
        (
            "The first plugin refuses cordoned nodes.",
            ("class NodeUnschedulable", "NodeUnschedulable()", "node(s) were unschedulable"),
        ),
        (
            "The loop over nodes and plugins: one refusal is enough, and it is kept for the message.",
            ("def run_filter_plugins", "feasible = self.run_filter_plugins"),
        ),
        ("If no node is left, FitError counts the reasons.", ("self.plugins = {plugin for", "and counts the reasons")),
        ("The message becomes an event, so that kubectl describe shows it.", ("FailedScheduling",)),
        ("What is needed for that, and what is no longer needed.", ("import", "Predicate = ")),
    ],
    3: [
        (
            "A second extension point: score says how good a node is.",
            ("def score(self, pod: Pod, node: Node) -> int:",),
        ),
        ("NodeNumber takes the place of the dice.", ("class NodeNumber", "NodeNumber()", "def trailing_digit")),
        ("Weights: a total is the sum of score times weight.", ("weight = 1", "def run_score_plugins")),
        ("Scores are compared only if two nodes or more are left.", ("self.run_score_plugins(pod, feasible)",)),
        ("What is no longer needed.", ("Callable",)),
    ],
    4: [
        ("A notebook for one attempt: what one plugin method writes, another reads.", ("CycleState = dict",)),
        (
            "A third extension point: pre_score is called once per pod, before all scoring.",
            ('"""What should be known before scoring?',),
        ),
        ("NodeNumber reads the digit there, and score only looks it up.", ('state["NodeNumber/wanted"]',)),
        ("find_node calls it, between filtering and scoring.", ("plugin.pre_score(state, pod, feasible)",)),
        ("Each attempt begins with an empty notebook.", ("self.find_node({}, pod)",)),
        (
            "Every method gets the notebook as an argument.",
            (
                "def filter(self, state",
                "plugin.filter(state",
                "def run_score_plugins(self, state",
                "def score(self, state",
            ),
        ),
    ],
    5: [
        (
            "First idea: binding in the background. schedule_one decides, and a task of its own binds.",
            (
                "async def schedule_one",
                "async def binding_cycle",
                "def handle_failure",
                "One loop: the next pod, a node for it.",
            ),
        ),
        (
            "Second idea: a fourth extension point. permit may answer Wait.",
            (
                "def permit(self, state: CycleState, pod: Pod, node: str) -> Status:\n",
                "Wait is for permit only",
                "Asked once, in the end",
            ),
        ),
        (
            "A waiting pod has a verdict that comes later: allowed by all, or rejected by one.",
            ("class WaitingPod", "self.pending", "self.verdict"),
        ),
        ("The scheduling cycle asks; the binding cycle waits.", ("def run_permit_plugins", "def wait_on_permit")),
        (
            "NodeNumber makes a pod wait as many seconds as its node's number says.",
            (
                "seconds = trailing_digit",
                "def allow(self, uid",
                "wait that many seconds",
                "NodeNumber(self.waiting_pods)",
                "self.waiting_pods = waiting_pods",
            ),
        ),
    ],
    6: [
        (
            "First idea: a queue with three parts.",
            ("class SchedulingQueue", "self.queue = SchedulingQueue()", "self.active: deque"),
        ),
        (
            "What the queue knows of a pod: how often it was tried, and which plugins refused it.",
            ("class QueuedPodInfo",),
        ),
        (
            "A new pod goes into active; pop takes the next one and counts the attempt.",
            ("def add(self, info", "async def pop", "self.queue.add(QueuedPodInfo", "await self.queue.pop()"),
        ),
        (
            "Second idea: a failed attempt is not the end. An error leads to backoff, a refusal to unschedulable.",
            ("def add_unschedulable", "async def handle_failure", "self.handle_failure(info"),
        ),
        (
            "Timers bring pods back: after their backoff, or after five minutes.",
            ("async def flush", "self.queue.flush()", "BACKOFF_S", "def backoff_until", "def now()"),
        ),
        ("Third idea: a deleted pod leaves the queue.", ("def delete(self, pod", "on_delete=self.queue.delete")),
        ("What is needed for that.", ("import",)),
    ],
    7: [
        ("Each plugin registers the events that might make it accept.", ("events: tuple", "events = (")),
        (
            "Handlers hear of nodes that join or change.",
            ("def node_added", "def node_updated", "self.nodes.add_handler"),
        ),
        (
            "An event wakes only pods that were refused by a plugin that has registered it.",
            ("def cluster_event", "def move_all_to_active_or_backoff"),
        ),
        ("A woken pod goes into active, or into backoff if it failed just now.", ("def wake",)),
        (
            "A changed pod may fit now; one that has a node leaves the queue.",
            ("def update(self, pod", "def pod_updated"),
        ),
    ],
}
