"""Rules about nodes: what a pod asks of them, and whether any node has it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mooring.api.core import Pod, Taint, Toleration
from mooring.api.selectors import tolerates
from mooring.api.text import count_of, hint, label_fact, nearest, taint_text
from mooring.api.well_known import CONDITION_PREFIX
from mooring.ask.lint.context import FieldPath, LintContext, Subject
from mooring.ask.lint.findings import Problem, Severity, rule
from mooring.core.state.node_rows import Mask
from mooring.core.state.requests import written

# Taints that come and go with the state of a node, or that a cloud sets while a node starts.
_PASSING = (CONDITION_PREFIX, "node.cloudprovider.kubernetes.io/")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


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

    The node selector or affinity leads to nodes that keep the pod out. Nodes for a purpose, such as those with
    GPUs, are often tainted: add the toleration for it. Taints that come and go with a node's state do not
    count.
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

    It has no effect, and the nodes that were meant still keep the pod out if their taint is written
    differently. A toleration that tolerates everything, and those for taints that come and go with a node's
    state, are not looked at.
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
        text = _toleration_text(toleration)
        yield Problem((*subject.pod_spec, "tolerations", i), f"no node has a taint that {text} tolerates", fix)


@rule("fits-nowhere", Severity.ERROR, needs_cluster=True)
def fits_nowhere(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """No node can take the pod even when it is empty, although no single demand is impossible.

    Demands that are met one by one, but not together on one node: labels here, room there. Your own filter
    plugins (`--plugin`) are asked, too. The message is kube-scheduler's.
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
    """The most of a resource that one of these nodes has left, and its name."""
    left = context.nodes.allocatable(resource) - context.nodes.requested(resource)
    left = np.where(allowed, left, -1)
    row = int(left.argmax())
    return max(0, int(left[row])), context.nodes.infos[row].name


def _written_tolerations(subject: Subject) -> list[Toleration]:
    """Those of the manifest, without those that controllers and admission add behind them."""
    value: object = subject.value
    for step in (*subject.pod_spec, "tolerations"):
        value = value.get(step) if isinstance(value, dict) else None
    count = len(value) if isinstance(value, list) else 0
    assert subject.pod is not None
    return subject.pod.spec.tolerations[:count]


def _toleration_text(toleration: Toleration) -> str:
    value = f"={toleration.value}" if toleration.value else ""
    return f"{toleration.key}{value}" + (f":{toleration.effect}" if toleration.effect else "")
