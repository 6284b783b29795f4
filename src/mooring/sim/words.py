"""The words of the narration: short texts for objects, events, refusals and scores."""

from __future__ import annotations

from mooring.api.core import Node, Pod
from mooring.api.meta import Object
from mooring.api.taints import UNSCHEDULABLE
from mooring.engine.decision import Decision
from mooring.framework.cluster_event import ClusterEvent
from mooring.framework.extender import EXTENDER_PLUGIN
from mooring.framework.status import Status

MAX_ROWS = 5
MAX_VERBOSE_ROWS = 20
MAX_REASONS = 6


def name_of(obj: Object) -> str:
    space = obj.metadata.namespace
    return obj.metadata.name if space in ("", "default") else f"{space}/{obj.metadata.name}"


def about(obj: Object) -> str:
    return f"{type(obj).__name__.lower()} {name_of(obj)}"


def plural(noun: str) -> str:
    if noun.endswith(("s", "x")):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") else noun + "s"


def many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {plural(noun)}"


def detail(obj: Object) -> str:
    if isinstance(obj, Node):
        parts = ["unschedulable"] if obj.spec.unschedulable else []
        parts += [f"taint {text}" for text in shown_taints(obj)]
        return " " + ", ".join(parts) if parts else ""
    if isinstance(obj, Pod) and obj.spec.priority_class_name:
        return f" priority {obj.spec.priority_class_name}"
    return ""


def shown_taints(node: Node) -> list[str]:
    """The taints, without the one that only repeats that the node is cordoned."""
    return [f"{taint.key}:{taint.effect}" for taint in node.spec.taints if taint.key != UNSCHEDULABLE.key]


def plain_event(event: ClusterEvent, old: Node, new: Node) -> str:
    label = event.label
    if old.spec.unschedulable != new.spec.unschedulable and "Taint" in label:
        return "no longer unschedulable" if old.spec.unschedulable else "unschedulable"
    if "Label" in label:
        before, after = old.metadata.labels, new.metadata.labels
        changed = [f"{key}={value}" for key, value in sorted(after.items()) if before.get(key) != value]
        changed += [f"{key} removed" for key in sorted(before) if key not in after]
        return "label " + ", ".join(changed)
    if "Taint" in label:
        return "taints " + (", ".join(shown_taints(new)) or "none")
    if "Allocatable" in label:
        return "allocatable changed"
    if "Annotation" in label:
        return "annotations changed"
    if "Condition" in label:
        ready = next((each for each in new.status.conditions if each.type == "Ready"), None)
        return "Ready is " + ("unknown" if ready is None else ready.status)
    return label


def refusal_rows(decision: Decision) -> list[str]:
    """Rows of a table: how many nodes each filter refused, and why; the most frequent first."""
    if decision.statuses is None:
        return []
    rows = []
    groups = sorted(decision.statuses.groups(), key=lambda group: (-len(group[1]), group[0].plugin, group[0].message))
    for status, nodes in groups[:MAX_REASONS]:
        rows.append(f"✗ {many(len(nodes), 'node'):<9} {_refused_by(status):<20} {status.message}")
    if len(groups) > MAX_REASONS:
        rows.append(f"  … and {many(len(groups) - MAX_REASONS, 'more reason')}")
    return rows


def _refused_by(status: Status) -> str:
    """The plugin's name. Without one, it is an extender, or PreFilter plugins that the message names."""
    return status.plugin or ("PreFilter" if "didn't satisfy plugin(s)" in status.message else EXTENDER_PLUGIN)


def score_rows(decision: Decision, *, is_verbose: bool) -> list[str]:
    """The best nodes with the scores that tell them apart."""
    scores = decision.scores
    if scores is None or not scores.by_plugin:
        return []
    count = len(scores.totals)
    limit = MAX_VERBOSE_ROWS if is_verbose else MAX_ROWS
    best = (-scores.totals).argsort(kind="stable")[: limit + 1].tolist()
    infos = scores.nodes.infos
    chosen = next((i for i in best if infos[i].name == decision.node), -1)
    if chosen < 0:  # one of very many with the same total
        chosen = next(i for i in range(count) if infos[i].name == decision.node)
    shown = [chosen, *(i for i in best if i != chosen)][:limit]
    names = {i: infos[i].name for i in shown}
    columns = {name: column for name, column in scores.by_plugin.items() if column.any()}
    telling = {name: each for name, each in columns.items() if is_verbose or each.min() != each.max()}
    width = max(map(len, names.values()))
    header = "  ".join(["  " + "node".ljust(width), "total", *telling])
    rows = [header]
    for i in shown:
        cells = [f"{int(column[i]):>{len(name)}}" for name, column in telling.items()]
        mark = "✓" if i == chosen else " "
        rows.append("  ".join([f"{mark} {names[i]:<{width}}", f"{int(scores.totals[i]):>5}", *cells]))
    if count > len(shown):
        rows.append(f"  … and {many(count - len(shown), 'more node')}")
    same = [f"{name} {int(column[0])}" for name, column in columns.items() if name not in telling]
    if same and count > 1:
        rows.append("  the same everywhere: " + ", ".join(same))
    return rows
