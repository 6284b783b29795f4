"""Rules about budgets, priorities and claims."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from mooring.api.budgets import budget_selector, share_of
from mooring.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.api.text import count_of, label_fact, nearest, selector_text
from mooring.api.workloads import PodDisruptionBudget, PriorityClass
from mooring.ask.lint.context import FieldPath, LintContext, Subject
from mooring.ask.lint.findings import Problem, Severity, rule
from mooring.core.state.node_selector import compile_node_selector

# Words in names that suggest an importance.
_RANKS = {
    **dict.fromkeys(("low", "lowest"), 0),
    **dict.fromkeys(("default", "normal", "medium"), 1),
    **dict.fromkeys(("high", "higher"), 2),
    **dict.fromkeys(("critical", "highest"), 3),
}


# ---- budgets -----------------------------------------------------------------------------------------------------


@rule("budget-blocks-drain", Severity.ERROR)
def budget_blocks_drain(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A budget that blocks every drain.

    `maxUnavailable: 0`, or a `minAvailable` that is as large as the number of pods, never allows an eviction. A
    node with such a pod cannot be drained, and an upgrade of the cluster stops there. Allow at least one pod to
    be away, and run at least two.
    """
    budget = subject.obj
    if not isinstance(budget, PodDisruptionBudget):
        return
    spec = budget.spec
    if spec.max_unavailable is not None:
        if share_of(spec.max_unavailable, 100) <= 0:
            yield Problem(
                ("spec", "maxUnavailable"),
                f"maxUnavailable: {spec.max_unavailable} allows no eviction",
                "write 1 or more",
            )
        return
    pods = _selected(budget, context)
    if spec.min_available is None or not pods:
        if str(spec.min_available) == "100%":
            yield Problem(("spec", "minAvailable"), "minAvailable: 100% allows no eviction", "write maxUnavailable: 1")
        return
    if share_of(spec.min_available, pods) >= pods:
        yield Problem(
            ("spec", "minAvailable"),
            f"minAvailable: {spec.min_available} of {count_of(pods, 'pod')} allows no eviction",
            "write maxUnavailable: 1, or run more pods",
        )


@rule("budget-selects-nothing", Severity.WARNING, needs_cluster=True)
def budget_selects_nothing(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A budget that selects no pods.

    It protects nothing. Neither the manifests nor the cluster have pods with these labels in its namespace. Use
    the labels of the workload's template.
    """
    budget = subject.obj
    if isinstance(budget, PodDisruptionBudget) and not _selected(budget, context):
        text = selector_text(budget.spec.selector)
        message = f"{text} selects no pod in the namespace {budget.namespace}"
        yield Problem(("spec", "selector"), message, "use the labels of the pods that are meant")


def _selected(budget: PodDisruptionBudget, context: LintContext) -> int:
    """Count the pods of a budget: those of workloads in the manifests, and others of the cluster."""
    selector = budget_selector(budget)
    if selector is None:
        return 0
    count, made = 0, set()
    for subject in context.subjects:
        pod = subject.pod
        if pod is not None and pod.namespace == budget.namespace and selector.matches(pod.labels):
            count += subject.copies
            made.add(subject.name)
    for pod in context.pods_in.get(budget.namespace, ()):
        if selector.matches(pod.labels):
            owner = pod.metadata.controller()
            count += owner is None or not any(owner.name == name or owner.name.startswith(f"{name}-") for name in made)
    return count


# ---- priorities --------------------------------------------------------------------------------------------------


@rule("unknown-priority-class", Severity.ERROR, needs_cluster=True)
def unknown_priority_class(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A priority class that does not exist.

    The API server rejects such pods, so a Deployment stays at zero with an event that is easily missed. Create the
    class, or use one that exists.
    """
    name = subject.pod_field("priorityClassName")
    if isinstance(name, str) and name and name not in context.priorities:
        near = nearest(name, context.priorities)
        known = ", ".join(sorted(context.priorities))
        fix = f"write {near}" if near else f"use one of {known}"
        yield Problem((*subject.pod_spec, "priorityClassName"), f"there is no PriorityClass {name}", fix)


@rule("priority-order", Severity.WARNING)
def priority_order(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A priority class that turns an order round.

    Two cases: an existing class gets a value on the other side of another class, so that pods that were preempted now
    preempt others; or a class whose name says more (`high`) has a lower value than one whose name says less (`low`).
    Priorities decide which pods are evicted: choose values in the intended order.
    """
    mine = subject.obj
    if not isinstance(mine, PriorityClass):
        return
    before = (
        {}
        if context.cluster is None
        else {each.name: each.value for each in context.cluster.state.objects.all(PriorityClass)}
    )
    for name, value in context.priorities.items():
        was, other = before.get(mine.name), before.get(name)
        if was is not None and other is not None and (was - other) * (mine.value - value) < 0:
            side = "above" if mine.value > value else "below"
            yield Problem(
                ("value",),
                f"{mine.name} was {was} and becomes {mine.value}, {side} {name} ({value})",
                f"keep it {'below' if side == 'above' else 'above'} {value}, or use a new name",
            )
            return
        rank, theirs = _rank(mine.name), _rank(name)
        if rank is not None and theirs is not None and rank > theirs and mine.value < value:
            message = f"{mine.name} ({mine.value}) is lower than {name} ({value}), against their names"
            yield Problem(("value",), message, f"choose a value above {value}")
            return


def _rank(name: str) -> int | None:
    """Return the importance that a name suggests, if any; system names suggest none here."""
    if name.startswith("system-"):
        return None
    ranks = [_RANKS[word] for word in re.split(r"[^a-z]+", name.lower()) if word in _RANKS]
    return ranks[0] if len(ranks) == 1 else None


# ---- claims ------------------------------------------------------------------------------------------------------


@rule("claim-out-of-reach", Severity.ERROR, needs_cluster=True)
def claim_out_of_reach(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A claim or a volume in a zone that no node is in.

    A volume can only be used from the nodes that its node affinity names, and a class with `allowedTopologies` makes
    volumes only there. If no such node exists, pods with the claim wait for ever. Use a class or a volume of a zone
    that has nodes.
    """
    match subject.obj:
        case PersistentVolume() as volume:
            yield from _unreachable_volume(volume, ("spec", "nodeAffinity"), context)
        case StorageClass() as found:
            yield from _unreachable_class(found, ("allowedTopologies",), context)
        case PersistentVolumeClaim() as claim:
            yield from _unreachable_claim(claim, ("spec", "volumeName"), ("spec", "storageClassName"), context)
    if subject.pod is None:
        return
    assert context.cluster is not None
    theirs = context.cluster.state.objects
    for i, used in enumerate(subject.pod.spec.volumes):
        reference = used.persistent_volume_claim
        key = f"{subject.pod.namespace}/{reference.claim_name}" if reference is not None else ""
        their = theirs.get(PersistentVolumeClaim, key)
        if their is not None and context.all(PersistentVolumeClaim)[key] is their:  # those of manifests are found there
            path: FieldPath = (*subject.pod_spec, "volumes", i)
            yield from _unreachable_claim(their, path, path, context)
    if subject.kind == "StatefulSet":
        yield from _unreachable_templates(subject, context)


def _unreachable_templates(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """Return the classes of a StatefulSet's claims."""
    classes = context.all(StorageClass)
    spec = subject.value["spec"]
    for i, template in enumerate(spec.get("volumeClaimTemplates") or ()):
        inside = template.get("spec") if isinstance(template, Mapping) else None
        wanted = classes.get(str(inside.get("storageClassName"))) if isinstance(inside, Mapping) else None
        if wanted is not None:
            path: FieldPath = ("spec", "volumeClaimTemplates", i, "spec", "storageClassName")
            yield from _unreachable_class(wanted, path, context)


def _unreachable_claim(
    claim: PersistentVolumeClaim, volume_path: FieldPath, class_path: FieldPath, context: LintContext
) -> Iterator[Problem]:
    volumes = context.all(PersistentVolume)
    classes = context.all(StorageClass)
    bound, wanted = volumes.get(claim.spec.volume_name), classes.get(claim.spec.storage_class_name or "")
    if bound is not None:
        yield from _unreachable_volume(bound, volume_path, context)
    elif wanted is not None:
        yield from _unreachable_class(wanted, class_path, context)


def _unreachable_volume(volume: PersistentVolume, path: FieldPath, context: LintContext) -> Iterator[Problem]:
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        yield from _unmet(f"the volume {volume.name}", affinity.required, path, context)


def _unreachable_class(found: StorageClass, path: FieldPath, context: LintContext) -> Iterator[Problem]:
    terms = [
        NodeSelectorTerm(
            match_expressions=[
                NodeSelectorRequirement(key=each.key, operator="In", values=list(each.values))
                for each in term.match_label_expressions
            ]
        )
        for term in found.allowed_topologies
    ]
    if terms:
        yield from _unmet(f"the class {found.name}", NodeSelector(node_selector_terms=terms), path, context)


def _unmet(what: str, selector: NodeSelector, path: FieldPath, context: LintContext) -> Iterator[Problem]:
    if not len(context.nodes) or compile_node_selector(selector).mask(context.nodes).any():
        return
    labels = context.node_labels
    keys = dict.fromkeys(each.key for term in selector.node_selector_terms for each in term.match_expressions)
    facts = "; ".join(label_fact(key, labels) for key in keys)
    yield Problem(path, f"no node is where {what} can be used: {facts}", "use a zone that has nodes")
