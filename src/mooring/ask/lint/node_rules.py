"""Rules about nodes and spreading: what a pod requires of nodes, and whether nodes, or all together, can provide it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mooring.api.core import Pod, Taint, Toleration, TopologySpreadConstraint
from mooring.api.selectors import compile_selector, tolerates
from mooring.api.text import count_of, hint, label_fact, nearest, selector_text, taint_text
from mooring.api.well_known import CONDITION_PREFIX
from mooring.ask.lint.context import FieldPath, LintContext, Subject
from mooring.ask.lint.findings import Problem, Severity, rule
from mooring.core.state.node_rows import Mask
from mooring.core.state.requests import written

# Taints that follow the condition of a node, or that a cloud sets while a node starts.
_PASSING = (CONDITION_PREFIX, "node.cloudprovider.kubernetes.io/")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_HARD = ("DoNotSchedule", "")  # the default if it is not set


@rule("no-matching-node", Severity.ERROR, needs_cluster=True)
def no_matching_node(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A node selector or a required node affinity that no node meets.

    The pods wait for ever. Most often a label or its value is misspelt, or it is the label of another cluster.
    Write a label that nodes have, or label the nodes that are meant.
    """
    pod = subject.pod
    if pod is None or context.passes("NodeAffinity", pod).any():
        return
    keys = _wanted_keys(pod)
    labels = context.node_labels
    facts = "; ".join(label_fact(key, labels) for key in keys) or "no node has this name"
    yield Problem(
        _selector_path(subject, pod), f"no node meets the node selector and affinity: {facts}", _label_fix(keys, labels)
    )


@rule("untolerated-taint", Severity.ERROR, needs_cluster=True)
def untolerated_taint(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """Every node that the pod may go to has a taint that it does not tolerate.

    The node selector or affinity leads to nodes that keep the pod out. Nodes for a purpose, such as those with GPUs,
    are often tainted: add the toleration for it. Taints that follow a node's condition do not count.
    """
    pod = subject.pod
    if pod is None:
        return
    wanted = context.passes("NodeAffinity", pod)
    if not wanted.any() or (wanted & context.passes("TaintToleration", pod)).any():
        return
    taints = [
        next((taint for taint in info.node.spec.taints if _keeps_out(taint, pod)), None)
        for info, here in zip(context.nodes.infos, wanted, strict=True)
        if here and info.node is not None
    ]
    if any(taint is not None and taint.key.startswith(_PASSING) for taint in taints):
        return
    first = next((taint for taint in taints if taint is not None), None)
    if first is None:
        return
    yield Problem(
        (*subject.pod_spec, "tolerations"),
        f"the {count_of(int(wanted.sum()), 'node')} that it may go to have taints that it does not tolerate, "
        f"such as {taint_text(first)}",
        f"tolerate {taint_text(first)}, or lead the pod to other nodes",
    )


@rule("request-too-large", Severity.ERROR, needs_cluster=True)
def request_too_large(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A request that no empty node can take once its DaemonSets run.

    A node with 8 cores never has 8 cores for one pod: part is reserved, and pods of DaemonSets run on every
    node. The rule counts what nodes can allocate, less what the DaemonSets' pods of the cluster ask for, on the
    nodes that the pod may go to. Ask for less, or add larger nodes.
    """
    pod = subject.pod
    if pod is None or subject.kind == "DaemonSet":
        return
    allowed = context.passes("NodeAffinity", pod)
    allowed = allowed & context.passes("TaintToleration", pod) if allowed.any() else np.ones_like(allowed)
    if not allowed.any() or (allowed & context.passes("NodeResourcesFit", pod)).any():
        return
    for name, amount in context.empty.state.info(pod).shape.requests.items():
        most, node = _largest(context, name, allowed)
        if amount > most:
            has = (
                f"an empty node has at most {written(name, most)} ({node})"
                if most
                else "no node that it may go to has any"
            )
            fix = f"ask for at most {written(name, most)} of {name}" if most else f"add a node that has {name}"
            yield Problem((*subject.pod_spec, "containers"), f"asks for {written(name, amount)} of {name}; {has}", fix)
            return
    yield Problem(
        (*subject.pod_spec, "containers"),
        "no empty node has all that it asks for at once, although some have enough of each",
        "ask for less of the resource that is rare beside the others",
    )


@rule("unknown-toleration", Severity.WARNING, needs_cluster=True)
def unknown_toleration(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A toleration for a taint that does not exist.

    It has no effect, and the nodes that were meant still keep the pod out if their taint is written differently.
    Tolerations for everything, and those for taints that follow a node's condition, are ignored.
    """
    if subject.pod is None:
        return
    taints = context.taints
    given = _written_tolerations(subject)
    for i, toleration in enumerate(given):
        if not toleration.key or toleration.key.startswith(_PASSING) or any(tolerates(toleration, t) for t in taints):
            continue
        same = sorted({taint_text(taint) for taint in taints if taint.key == toleration.key})
        fix = (
            f"write what the taint says: {', '.join(same[:3])}"
            if same
            else hint(toleration.key, {taint.key for taint in taints}, "remove it, or taint the nodes that are meant")
        )
        text = toleration.key + (f"={toleration.value}" if toleration.value else "")
        text += f":{toleration.effect}" if toleration.effect else ""
        yield Problem((*subject.pod_spec, "tolerations", i), f"no node has a taint that {text} tolerates", fix)


@rule("fits-nowhere", Severity.ERROR, needs_cluster=True)
def fits_nowhere(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """No node can take the pod even when it is empty, although no single demand is impossible.

    Constraints that are met one by one, but not together on one node: labels here, room there. Your own filter plugins
    (`--plugin`) are also asked. The message is kube-scheduler's.
    """
    pod = subject.pod
    if pod is None or subject.kind == "DaemonSet" or not len(context.nodes):
        return
    for check in (no_matching_node, untolerated_taint, request_too_large):
        if any(True for _ in check(subject, context)):
            return
    decided = context.decide(pod)
    if decided.node is None:
        yield Problem(subject.pod_spec, decided.message, "loosen one of the demands that the message counts")


# ---- words and places --------------------------------------------------------------------------------------------


def _wanted_keys(pod: Pod) -> list[str]:
    keys = list(pod.spec.node_selector or ())
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    for term in affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ():
        keys += [each.key for each in term.match_expressions]
    return list(dict.fromkeys(keys))


def _selector_path(subject: Subject, pod: Pod) -> FieldPath:
    if pod.spec.node_selector:
        return (*subject.pod_spec, "nodeSelector")
    return (*subject.pod_spec, "affinity", "nodeAffinity", _REQUIRED)


def _label_fix(keys: list[str], labels: list[dict[str, str]]) -> str:
    missing = [key for key in keys if not any(key in each for each in labels)]
    near = nearest(missing[0], {name for each in labels for name in each}) if missing else ""
    if near:
        return f"write {near} instead of {missing[0]}"
    return "write a label that nodes have, or label the nodes that are meant"


def _keeps_out(taint: Taint, pod: Pod) -> bool:
    return taint.effect in ("NoSchedule", "NoExecute") and not any(tolerates(t, taint) for t in pod.spec.tolerations)


def _largest(context: LintContext, resource: str, allowed: Mask) -> tuple[int, str]:
    """Return the most of a resource left on one of these nodes, and the node's name."""
    left = context.nodes.allocatable(resource) - context.nodes.requested(resource)
    left = np.where(allowed, left, -1)
    row = int(left.argmax())
    return max(0, int(left[row])), context.nodes.infos[row].name


def _written_tolerations(subject: Subject) -> list[Toleration]:
    """Return the manifest's tolerations, without those that controllers and admission append."""
    value = subject.pod_field("tolerations")
    assert subject.pod is not None
    return subject.pod.spec.tolerations[: len(value) if isinstance(value, list) else 0]


# ---- spreading and (anti-)affinity: topology keys, selectors, and contradictory requirements -------------------------


@rule("unknown-topology-key", Severity.ERROR, needs_cluster=True)
def unknown_topology_key(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A topology key that no node has.

    With a key that no node has, required affinity and spreading that must hold keep the pods waiting for ever,
    and anti-affinity and wishes have no effect. Write the key of a label that nodes carry.
    """
    if subject.pod is None or not len(context.nodes):
        return
    keys = context.label_keys
    for path, key in _topology_keys(subject):
        if key and key not in keys:
            near = nearest(key, keys)
            fix = f"write {near}" if near else "write the key of a label that nodes have"
            yield Problem(path, f"no node has the label {key}", fix)


@rule("spread-cannot-hold", Severity.ERROR, needs_cluster=True)
def spread_cannot_hold(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """Spreading and anti-affinity that cannot hold together for all replicas.

    Required anti-affinity among a workload's own pods allows one pod per domain, such as a node. Spreading that
    must hold allows the domains to differ by at most `maxSkew`. The rule counts the domains of the nodes that
    the pod may go to, and how many pods they can take under both; if the workload wants more, the rest waits
    for ever. Ask for fewer replicas, make the demand a wish (`preferredDuringScheduling…`, `ScheduleAnyway`),
    or add nodes.
    """
    pod = subject.pod
    if pod is None or subject.kind in ("Pod", "DaemonSet") or subject.copies < 2:
        return
    keys, hard = _own_anti_affinity(pod), _hard_constraints(pod)
    nodes = _own_nodes(pod, context) if keys or hard else []
    if not nodes:
        return
    limits = [(f"anti-affinity over {key}", most) for key in keys if (most := _distinct(nodes, key)) is not None]
    for constraint in hard:
        most = _most_spread(nodes, constraint, keys)
        if most is not None:
            beside = " beside the anti-affinity" if keys else ""
            limits.append((f"spreading over {constraint.topology_key}{beside}", most))
    if not limits:
        return
    why, most = min(limits, key=lambda limit: limit[1])
    if subject.copies > most:
        field: FieldPath = ("spec", "parallelism" if subject.kind == "Job" else "replicas")
        yield Problem(
            field,
            f"{why} leaves room for {count_of(most, 'pod')} of {subject.copies}",
            f"ask for at most {most}, or make the demand a wish",
        )


@rule("spread-misses-own-pods", Severity.WARNING)
def spread_misses_own_pods(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A spread constraint whose selector does not select the pod itself.

    It counts other pods, and this workload's own pods are not spread. Most often the labels of the template
    were changed and the selector was not. Use the labels of the template in `labelSelector`.
    """
    if subject.pod is None:
        return
    for i, constraint in enumerate(subject.pod.spec.topology_spread_constraints):
        if not compile_selector(constraint.label_selector).matches(subject.pod.labels):
            yield Problem(
                (*subject.pod_spec, "topologySpreadConstraints", i),
                f"it counts {selector_text(constraint.label_selector)}, and the pod itself is not among them",
                "use the labels of the pod in labelSelector",
            )


# ---- counting ----------------------------------------------------------------------------------------------------


def _own_nodes(pod: Pod, context: LintContext) -> list[dict[str, str]]:
    """Return labels of the nodes that the pod may use."""
    allowed = context.passes("NodeAffinity", pod) & context.passes("TaintToleration", pod)
    infos = context.nodes.infos
    return [node.labels for i in np.flatnonzero(allowed) if (node := infos[int(i)].node) is not None]


def _own_anti_affinity(pod: Pod) -> list[str]:
    """Return the topology keys over which the pod avoids others like itself."""
    anti = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None
    terms = anti.required if anti is not None else ()
    return [
        term.topology_key
        for term in terms
        if compile_selector(term.label_selector).matches(pod.labels)
        and (not term.namespaces or pod.namespace in term.namespaces)
    ]


def _hard_constraints(pod: Pod) -> list[TopologySpreadConstraint]:
    return [
        each
        for each in pod.spec.topology_spread_constraints
        if each.when_unsatisfiable in _HARD and compile_selector(each.label_selector).matches(pod.labels)
    ]


def _most_spread(nodes: list[dict[str, str]], constraint: TopologySpreadConstraint, keys: list[str]) -> int | None:
    """Return how many pods fit if domains differ by at most maxSkew; None if unlimited."""
    rooms = _rooms(nodes, constraint.topology_key, keys)
    if not rooms:
        return 0
    skew, wanted = max(1, constraint.max_skew), constraint.min_domains or 1
    fewest: int | None = 0 if len(rooms) < wanted else _least(rooms)
    if fewest is None:
        return None
    return sum(fewest + skew if room is None else min(room, fewest + skew) for room in rooms)


def _rooms(nodes: list[dict[str, str]], key: str, anti_affinity: list[str]) -> list[int | None]:
    """Return how many pods anti-affinity allows in each domain of a key; None if unlimited."""
    inside: dict[str, list[dict[str, str]]] = {}
    for labels in nodes:
        if key in labels:
            inside.setdefault(labels[key], []).append(labels)
    return [
        _least([1 if other == key else _distinct(members, other) for other in anti_affinity])
        for members in inside.values()
    ]


def _distinct(members: list[dict[str, str]], key: str) -> int | None:
    """Count the domains of a key; None if nodes lack it, which is unlimited."""
    if any(key not in labels for labels in members):
        return None
    return len({labels[key] for labels in members})


def _least(rooms: list[int | None]) -> int | None:
    known = [room for room in rooms if room is not None]
    return min(known) if known else None


# ---- places ------------------------------------------------------------------------------------------------------


def _topology_keys(subject: Subject) -> Iterator[tuple[FieldPath, str]]:
    assert subject.pod is not None
    spec, root = subject.pod.spec, subject.pod_spec
    for i, constraint in enumerate(spec.topology_spread_constraints):
        yield (*root, "topologySpreadConstraints", i, "topologyKey"), constraint.topology_key
    if spec.affinity is None:
        return
    for field, terms in (
        ("podAffinity", spec.affinity.pod_affinity),
        ("podAntiAffinity", spec.affinity.pod_anti_affinity),
    ):
        if terms is None:
            continue
        for i, term in enumerate(terms.required):
            yield (*root, "affinity", field, _REQUIRED, i, "topologyKey"), term.topology_key
        for i, weighted in enumerate(terms.preferred):
            place = (*root, "affinity", field, _PREFERRED, i, "podAffinityTerm", "topologyKey")
            yield place, weighted.pod_affinity_term.topology_key
