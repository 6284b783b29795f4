"""For each plugin that refuses a node: what could be different there. The engine is asked whether it would help.

A proposal is a set of changes that belong together; several proposals for one
node are alternatives. They are guesses, made from what the pod and the node
say: only those that the engine confirms are ever shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import (
    Node,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Taint,
    Toleration,
    Volume,
)
from mooring.api.meta import LabelSelector
from mooring.api.selectors import requirement
from mooring.api.storage import PersistentVolumeClaim
from mooring.api.taints import UNSCHEDULABLE, is_tolerated
from mooring.engine.amounts import ask_for, handy, spoken, written
from mooring.engine.what_if import Change
from mooring.errors import ParseError
from mooring.state.cluster import Cluster
from mooring.state.node_info import NodeInfo
from mooring.state.node_rows import NodeRows, ports_clash
from mooring.state.pod_info import PodInfo

Proposal = tuple[Change, ...]
CONDITION_PREFIX = "node.kubernetes.io/"  # taints that say how the node is; nobody should tolerate them to get a pod in
MAX_BLOCKERS = 3


@dataclass(frozen=True, slots=True)
class Question:
    """One pod and one node that refused it, with the reasons given."""

    cluster: Cluster
    nodes: NodeRows
    pod: Pod  # with the changes made so far
    info: PodInfo
    node: NodeInfo
    reasons: tuple[str, ...]

    def alone(self) -> NodeRows:
        return self.nodes.subset(np.array([self.node.row]))


def propose(plugin: str, question: Question) -> list[Proposal]:
    """Alternatives that could make this plugin accept this node; none if nobody knows."""
    found = PROPOSERS.get(plugin)
    return [] if found is None else [proposal for proposal in found(question) if proposal]


# ---- resources ---------------------------------------------------------------------------------------------------


def shortfalls(info: PodInfo, nodes: NodeRows) -> dict[str, NDArray[np.int64]]:
    """What is missing per node, for each resource that the pod asks for."""
    return {
        name: np.maximum(wanted - (nodes.allocatable(name) - nodes.requested(name)), 0)
        for name, wanted in info.shape.requests.items()
        if wanted > 0
    }


def closeness(info: PodInfo, nodes: NodeRows) -> NDArray[np.float64]:
    """How far each node is from having room, as shares of the request; smaller is closer."""
    total = np.zeros(len(nodes), np.float64)
    for name, missing in shortfalls(info, nodes).items():
        total += missing / info.shape.requests[name]
    return total + 0.5 * (nodes.pod_count >= nodes.allowed_pods)


def _resources(question: Question) -> Iterable[Proposal]:
    here = question.alone()
    requests = question.info.shape.requests
    missing = {name: int(column[0]) for name, column in shortfalls(question.info, here).items() if column[0]}
    count, allowed = int(here.pod_count[0]), int(here.allowed_pods[0])
    room: Proposal = ()
    if count >= allowed:
        room = _one_pod_fewer(question, count, allowed)
        if not room:
            return
    smaller = []
    for name, amount in missing.items():
        amount = min(handy(name, amount), requests[name])
        smaller.append(_less(name, amount, requests[name] - amount))
    yield (*room, *smaller)
    if missing and not room:
        blocker = _who_frees(question.node, missing)
        if blocker is not None:
            text = f"without pod {blocker.pod.key} on {question.node.name}"
            yield (Change(text, "removePod", 6.0, removes=(blocker,)),)


def _less(resource: str, amount: int, target: int) -> Change:
    share = amount / (amount + target)
    if not target:
        text = f"no {spoken(resource)} request ({written(resource, amount)} now)"
    else:
        now = written(resource, amount + target)
        text = f"{written(resource, amount)} less {spoken(resource)} ({written(resource, target)} instead of {now})"

    def edit(pod: Pod) -> None:
        ask_for(pod, resource, target)

    return Change(text, "request", 1.0 + 10.0 * share, edit=edit)


def _least_important(node: NodeInfo) -> list[PodInfo]:
    pods = [pod for pod in node.pods.values() if not pod.pod.is_terminating]
    return sorted(pods, key=lambda pod: (pod.priority, pod.pod.metadata.creation_timestamp or "", pod.pod.key))


def _one_pod_fewer(question: Question, count: int, allowed: int) -> Proposal:
    pods = _least_important(question.node)
    needed = count - allowed + 1
    if needed > len(pods) or needed > MAX_BLOCKERS:
        return ()
    what = "one pod" if needed == 1 else f"{needed} pods"
    text = f"{what} fewer on {question.node.name} (pods: {count} of {allowed})"
    return (Change(text, "podCount", 2.0 + needed, removes=tuple(pods[:needed])),)


def _who_frees(node: NodeInfo, missing: dict[str, int]) -> PodInfo | None:
    """The least important pod whose requests cover what is missing."""
    for pod in _least_important(node):
        if all(pod.shape.requests.get(name, 0) >= amount for name, amount in missing.items()):
            return pod
    return None


# ---- the node itself ---------------------------------------------------------------------------------------------


def _uncordon(question: Question) -> Iterable[Proposal]:
    def edit_node(node: Node) -> None:
        node.spec.unschedulable = False
        node.spec.taints = [taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE.key]

    name = question.node.name
    yield (Change(f"uncordon {name}", "uncordon", 2.0, node=name, edit_node=edit_node, same="uncordon"),)


def _taints(question: Question) -> Iterable[Proposal]:
    node = question.node.node
    assert node is not None
    minded = [
        taint
        for taint in node.spec.taints
        if taint.effect in ("NoSchedule", "NoExecute") and not is_tolerated(taint, question.pod.spec.tolerations)
    ]
    conditions = [taint for taint in minded if taint.key.startswith(CONDITION_PREFIX)]
    recovered = _recover(question.node.name, conditions) if conditions else ()
    yield (*recovered, *(_tolerate(taint) for taint in minded if taint not in conditions))


def _recover(name: str, taints: list[Taint]) -> Proposal:
    keys = {taint.key for taint in taints}

    def edit_node(node: Node) -> None:
        node.spec.taints = [taint for taint in node.spec.taints if taint.key not in keys]

    what = ", ".join(sorted(key.removeprefix(CONDITION_PREFIX) for key in keys))
    return (Change(f"{name} no longer {what}", "nodeCondition", 4.0, node=name, edit_node=edit_node, same=what),)


def taint_text(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _tolerate(taint: Taint) -> Change:
    def edit(pod: Pod) -> None:
        pod.spec.tolerations.append(Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect))

    return Change(f"tolerate {taint_text(taint)}", "toleration", 2.0, edit=edit)


def _node_affinity(question: Question) -> Iterable[Proposal]:
    name, labels = question.node.name, question.node.labels
    selector = question.pod.spec.node_selector or {}
    missing = {key: value for key, value in selector.items() if labels.get(key) != value}
    terms = _required_terms(question.pod)
    if not terms:
        yield tuple(_label(name, key, value) for key, value in missing.items())
        yield tuple(_without_selector(key, value) for key, value in missing.items())
        return
    for term in terms:
        wanted = _labels_for(term, labels)
        if wanted is not None:
            yield tuple(_label(name, key, value) for key, value in (missing | wanted).items())
    if any(_holds(term, name, labels) for term in terms):
        yield tuple(_without_selector(key, value) for key, value in missing.items())
        return
    yield (*(_without_selector(key, value) for key, value in missing.items()), _without_node_affinity(terms))


def _required_terms(pod: Pod) -> list[NodeSelectorTerm]:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    return [] if affinity is None or affinity.required is None else affinity.required.node_selector_terms


def _met(expression: NodeSelectorRequirement, labels: dict[str, str]) -> bool:
    try:
        return requirement(expression.key, expression.operator, expression.values, node=True).matches(labels)
    except ParseError:
        return False


def _holds(term: NodeSelectorTerm, name: str, labels: dict[str, str]) -> bool:
    return all(_met(expression, labels) for expression in term.match_expressions) and all(
        (name in field.values) == (field.operator == "In") for field in term.match_fields
    )


def _labels_for(term: NodeSelectorTerm, labels: dict[str, str]) -> dict[str, str] | None:
    """Labels that would make the term hold; None if adding labels is not enough."""
    if term.match_fields:
        return None
    wanted: dict[str, str] = {}
    for expression in term.match_expressions:
        if _met(expression, labels):
            continue
        if expression.operator == "In" and expression.values:
            wanted[expression.key] = expression.values[0]
        elif expression.operator == "Exists":
            wanted[expression.key] = "true"
        else:
            return None
    return wanted


def _label(name: str, key: str, value: str) -> Change:
    def edit_node(node: Node) -> None:
        node.metadata.labels = {**node.metadata.labels, key: value}

    what = f"label {key}={value}"
    return Change(f"{what} on {name}", "label", 2.0, node=name, edit_node=edit_node, same=what)


def _without_selector(key: str, value: str) -> Change:
    def edit(pod: Pod) -> None:
        if pod.spec.node_selector is not None:
            pod.spec.node_selector.pop(key, None)

    return Change(f"without nodeSelector {key}={value}", "nodeSelector", 3.0, edit=edit)


def expression_text(key: str, operator: str, values: list[str]) -> str:
    match operator:
        case "In" | "NotIn":
            listed = ", ".join(values)
            sign = "=" if operator == "In" else "!="
            return f"{key}{sign}{listed}" if len(values) == 1 else f"{key} {operator} ({listed})"
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case _:
            return f"{key} {operator} {', '.join(values)}"


def _without_node_affinity(terms: list[NodeSelectorTerm]) -> Change:
    texts = [
        " and ".join(
            expression_text(e.key, e.operator, e.values) for e in (*term.match_expressions, *term.match_fields)
        )
        for term in terms
    ]

    def edit(pod: Pod) -> None:
        if pod.spec.affinity is not None and pod.spec.affinity.node_affinity is not None:
            pod.spec.affinity.node_affinity.required = None

    return Change(f"without the required node affinity ({' or '.join(texts)})", "nodeAffinity", 4.0, edit=edit)


# ---- ports -------------------------------------------------------------------------------------------------------


def _ports(question: Question) -> Iterable[Proposal]:
    taken = {
        want
        for want in question.info.shape.host_ports
        if any(ports_clash(want, have) for have in question.node.host_ports)
    }
    yield tuple(_without_port(protocol, port) for _, protocol, port in sorted(taken))


def _without_port(protocol: str, port: int) -> Change:
    def edit(pod: Pod) -> None:
        for container in (*pod.spec.containers, *pod.spec.init_containers):
            for taken in container.ports:
                if taken.host_port == port and (taken.protocol or "TCP") == protocol:
                    taken.host_port = 0

    number = f"{port}" if protocol == "TCP" else f"{port}/{protocol}"
    return Change(f"remove host port {number}", "hostPort", 3.0, edit=edit)


# ---- other pods --------------------------------------------------------------------------------------------------


def _spread(question: Question) -> Iterable[Proposal]:
    labels = question.node.labels
    hard = [
        (i, constraint)
        for i, constraint in enumerate(question.pod.spec.topology_spread_constraints)
        if constraint.when_unsatisfiable == "DoNotSchedule"
    ]
    lacking = [(i, constraint) for i, constraint in hard if constraint.topology_key not in labels]
    for i, constraint in lacking or hard:
        yield (_soften(i, constraint.topology_key),)
    if len(lacking) > 1:
        yield tuple(_soften(i, constraint.topology_key) for i, constraint in lacking)


def _soften(index: int, key: str) -> Change:
    def edit(pod: Pod) -> None:
        pod.spec.topology_spread_constraints[index].when_unsatisfiable = "ScheduleAnyway"

    return Change(f"spread over {key} only where possible (ScheduleAnyway)", "spread", 5.0, edit=edit)


def max_skew(index: int, key: str, skew: int, now: int) -> Change:
    """Allow more skew; how much is found by asking."""

    def edit(pod: Pod) -> None:
        pod.spec.topology_spread_constraints[index].max_skew = skew

    text = f"spread over {key}: allow maxSkew {skew} (now {now})"
    return Change(text, "maxSkew", 1.0 + (skew - now), edit=edit)


def selector_text(selector: LabelSelector | None) -> str:
    if selector is None:
        return "no pods"
    parts = [f"{key}={value}" for key, value in selector.match_labels.items()]
    parts += [expression_text(e.key, e.operator, e.values) for e in selector.match_expressions]
    return ",".join(parts) or "all pods"


def _pod_affinity(question: Question) -> Iterable[Proposal]:
    affinity = question.pod.spec.affinity
    wanted = (affinity.pod_affinity if affinity is not None else None) or PodAffinity()
    unwanted = (affinity.pod_anti_affinity if affinity is not None else None) or PodAffinity()
    reasons = " ".join(question.reasons)
    if "existing pods anti-affinity" in reasons:
        objectors = _objectors(question)
        if 0 < len(objectors) <= MAX_BLOCKERS:
            keys = ", ".join(pod.pod.key for pod in objectors)
            text = f"without {keys}, whose anti-affinity keeps this pod away from {question.node.name}"
            yield (Change(text, "removePod", 4.0 + 2.0 * len(objectors), removes=tuple(objectors)),)
    elif "anti-affinity" in reasons:
        for i, term in enumerate(unwanted.required):
            yield (_without_term(i, term, anti=True),)
        if len(unwanted.required) > 1:
            yield tuple(_without_term(i, term, anti=True) for i, term in reversed(list(enumerate(unwanted.required))))
    else:
        for i, term in enumerate(wanted.required):
            yield (_without_term(i, term, anti=False),)
        if len(wanted.required) > 1:
            yield tuple(_without_term(i, term, anti=False) for i, term in reversed(list(enumerate(wanted.required))))


def _without_term(index: int, term: PodAffinityTerm, *, anti: bool) -> Change:
    def edit(pod: Pod) -> None:
        affinity = pod.spec.affinity
        terms = None if affinity is None else affinity.pod_anti_affinity if anti else affinity.pod_affinity
        if terms is not None:
            del terms.required[index]

    what = "anti-affinity" if anti else "affinity"
    text = f"without the required {what} term on {term.topology_key} ({selector_text(term.label_selector)})"
    return Change(text, "podAntiAffinity" if anti else "podAffinity", 4.0, edit=edit)


def _objectors(question: Question) -> list[PodInfo]:
    """Running pods whose required anti-affinity means this pod, and whose domain the node is in."""
    meta = question.pod.metadata
    namespace_labels = question.cluster.namespace_labels(meta.namespace)
    found = []
    nodes = question.cluster.table.nodes
    for pod in question.cluster.pods():
        labels = nodes[pod.pod.spec.node_name].labels
        for term in pod.terms.required_anti_affinity:
            value = question.node.labels.get(term.topology_key)
            same = value is not None and labels.get(term.topology_key) == value
            if same and term.matches(meta.namespace, meta.labels, namespace_labels):
                found.append(pod)
                break
    return found


# ---- volumes and claims ------------------------------------------------------------------------------------------


def _volumes(question: Question) -> Iterable[Proposal]:
    changes = [_without_volume(volume, question) for volume in question.info.shape.volumes]
    yield from ((change,) for change in changes)
    if len(changes) > 1:
        yield tuple(changes)


def _without_volume(volume: Volume, question: Question) -> Change:
    """The pod without this volume: if it fits then, the volume is what stands in the way."""

    def edit(pod: Pod) -> None:
        pod.spec.volumes = [other for other in pod.spec.volumes if other.name != volume.name]

    return Change(_volume_text(volume, question), "volume", 6.0, edit=edit)


def _volume_text(volume: Volume, question: Question) -> str:
    pod, objects = question.pod, question.cluster.objects
    if volume.persistent_volume_claim is not None:
        key = f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"
    elif volume.ephemeral is not None:
        key = f"{pod.namespace}/{pod.name}-{volume.name}"
    else:
        return f"without volume {volume.name}"
    claim = objects.get(PersistentVolumeClaim, key)
    if claim is None:
        return f"create persistentvolumeclaim {key} of volume {volume.name}: without it the pod fits"
    if not claim.spec.volume_name:
        kind = claim.spec.storage_class_name
        of_class = f" (storage class {kind})" if kind else ""
        return f"bind persistentvolumeclaim {key}{of_class} of volume {volume.name}: without it the pod fits"
    return f"without volume {volume.name} (claim {key}, volume {claim.spec.volume_name})"


def _claims(question: Question) -> Iterable[Proposal]:
    for claim in question.pod.spec.resource_claims:
        yield (_without_claim(claim.name, claim.resource_claim_name or claim.resource_claim_template_name or ""),)


def _without_claim(name: str, source: str) -> Change:
    def edit(pod: Pod) -> None:
        pod.spec.resource_claims = [claim for claim in pod.spec.resource_claims if claim.name != name]

    text = f"without resource claim {name}" + (f" ({source})" if source else "")
    return Change(text, "resourceClaim", 6.0, edit=edit)


PROPOSERS: dict[str, Callable[[Question], Iterable[Proposal]]] = {
    "NodeResourcesFit": _resources,
    "NodeUnschedulable": _uncordon,
    "TaintToleration": _taints,
    "NodeAffinity": _node_affinity,
    "NodePorts": _ports,
    "PodTopologySpread": _spread,
    "InterPodAffinity": _pod_affinity,
    "VolumeRestrictions": _volumes,
    "NodeVolumeLimits": _volumes,
    "VolumeBinding": _volumes,
    "VolumeZone": _volumes,
    "DynamicResources": _claims,
}
