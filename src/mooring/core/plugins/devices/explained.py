"""Devices of a pod's claims: why each device is rejected, and which small change would help.

For people: a decision never calls this. The engine tries every suggested change before it is shown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from msgspec.structs import replace

from mooring.api.core import Pod
from mooring.api.quantity import parse_quantity
from mooring.api.resource import (
    AllocationResult,
    CapacityRequirements,
    Device,
    DeviceClaim,
    DeviceConstraint,
    DeviceRequest,
    DeviceTaint,
    DeviceTaintRule,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from mooring.api.text import count_of, expression_text, first_of
from mooring.core.framework.interfaces import FEW, Change, Remedy
from mooring.core.plugins.devices.allocator import AllocationTask, Allocator
from mooring.core.plugins.devices.claims import RequestedDevices
from mooring.core.plugins.devices.cluster_devices import prevents_allocation, taints
from mooring.core.plugins.devices.constraints import format_like, lookup_attribute
from mooring.core.plugins.devices.device_checks import Refusal, Why
from mooring.core.plugins.devices.extended import IN_MEMORY_NAME
from mooring.core.plugins.devices.pools import DeviceId, Pool, PublishedDevice
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_rows import NodeRows

MOST_NODES = 200  # whose devices an explanation examines
MOST_DEVICES = 4  # named for one reason
TOLERATE, LESS, GIVE_UP, UNTAINT, ANOTHER_POD = 2.5, 3.0, 4.0, 2.0, 6.0  # costs of changes, see Change.cost


@dataclass(slots=True, eq=False)
class Looked:
    """One device, as one request of one claim sees it."""

    claim: ResourceClaim
    request: RequestedDevices
    pool: Pool
    candidate: PublishedDevice
    refusal: Refusal | None  # None: it would serve


@dataclass(slots=True, eq=False)
class NodeDevices:
    """All devices that a node reaches, as all requests see them."""

    node: NodeInfo
    looked: list[Looked] = field(default_factory=list)

    def by_request(self) -> dict[RequestedDevices, list[Looked]]:
        found: defaultdict[RequestedDevices, list[Looked]] = defaultdict(list)
        for each in self.looked:
            found[each.request].append(each)
        return found

    @property
    def missing(self) -> int:
        """Return how many devices are missing, each request by itself; fewer missing means a nearer node."""
        least: dict[tuple[str, str], int] = {}  # of the alternatives of a prioritized list, the nearest
        for request, some in self.by_request().items():
            place, lacking = (some[0].claim.key, request.base_name), max(wanted_of(request, some) - fit_for(some), 0)
            least[place] = min(least.get(place, lacking), lacking)
        return sum(least.values())


def wanted_of(request: RequestedDevices, looked: Sequence[Looked]) -> int:
    """Return how many devices a request wants: all that it selects, or its count."""
    if not request.wants_all:
        return request.count
    return sum(each.refusal is None or each.refusal.why not in (Why.SELECTOR, Why.NODE) for each in looked)


def fit_for(looked: Iterable[Looked]) -> int:
    return sum(each.refusal is None for each in looked)


Claims = Callable[[], Iterable[ResourceClaim]]


class DevicesExplained:
    """Examines the devices of some nodes for the claims of one pod."""

    def __init__(
        self, allocator: Allocator, task: AllocationTask, nodes: NodeRows, cluster: ClusterState, claims: Claims
    ) -> None:
        self._task = task
        self._cluster = cluster
        self._claims = claims
        self.nodes = [
            NodeDevices(
                node,
                [
                    Looked(claim, request, pool, candidate, why)
                    for claim, request, pool, candidate, why in allocator.refusals(node.name, node.labels, task)
                ],
            )
            for node in nodes.infos[:MOST_NODES]
        ]

    # ---- facts --------------------------------------------------------------------------------------------------

    def facts(self) -> Iterator[str]:
        """Yield by request how many devices there are and why each is rejected; then the nearest node, one by one."""
        found: dict[str, Counter[str]] = {}
        for each in (looked for node in self.nodes for looked in node.looked):
            wants = "all devices" if each.request.wants_all else count_of(each.request.count, "device")
            name = f"claim {each.claim.key}, request {each.request.full_name} wants {wants} of one node"
            found.setdefault(name, Counter())[str(each.refusal or "would do")] += 1
        for name, reasons in found.items():
            counted = "; ".join(f"{n} {why}" for why, n in reasons.most_common())
            yield f"{name}; {reasons.total()} looked at: {counted}"
        if not found:
            yield f"no device is published for {count_of(len(self.nodes), 'node')}"
            return
        yield from self._about_constraints()
        yield from self._nearest()

    def rows(self) -> list[dict[str, str]]:
        """Return every device of every node for every request, for programs: ``refused`` is empty if it would serve."""
        return [
            {
                "claim": each.claim.key,
                "request": each.request.full_name,
                "node": node.node.name,
                "device": str(each.candidate.id),
                "refused": "" if each.refusal is None else self._why(each),
            }
            for node in self.nodes
            for each in node.looked
        ]

    def _nearest(self) -> Iterator[str]:
        """Yield the devices of the node with the fewest missing, each with its reason."""
        if len(self.nodes) == 1 and len(self.nodes[0].looked) == 1:
            return  # already named
        nearest = min((node for node in self.nodes if node.looked), key=lambda node: node.missing)
        for request, looked in nearest.by_request().items():
            by_reason: defaultdict[str, list[str]] = defaultdict(list)
            for each in looked:
                by_reason[self._why(each)].append(_device(each.candidate))
            said = [f"{first_of(devices, MOST_DEVICES)} {why}" for why, devices in by_reason.items()]
            yield f"nearest is node {nearest.node.name}, request {request.full_name}: {'; '.join(said)}"

    def _why(self, looked: Looked) -> str:
        if looked.refusal is None:
            return "would do"
        if looked.refusal.why is Why.IN_USE and (holder := self._holder(looked.candidate.id)) is not None:
            users = [pod.key for pod in _users(holder, self._cluster)]
            return f"in use by claim {holder.key}" + (f" ({first_of(users, 2)})" if users else "")
        return looked.refusal.brief

    def _about_constraints(self) -> Iterator[str]:
        """Yield constraints that no node can satisfy although it has enough devices for each request."""
        for plan in self._task.plans:
            for constraint in plan.claim.spec.devices.constraints:
                name = constraint.match_attribute or constraint.distinct_attribute
                enough = [node for node in self.nodes if node.looked and not node.missing]
                if name is None or not enough:
                    continue
                is_match = constraint.match_attribute is not None
                wanted, most = 0, 0
                for node in enough:
                    concerned = [each for each in node.looked if _is_about(constraint, plan.claim, each)]
                    wanted = sum(
                        wanted_of(r, some) for r, some in NodeDevices(node.node, concerned).by_request().items()
                    )
                    values: defaultdict[str, set[DeviceId]] = defaultdict(set)
                    for each in concerned:
                        if each.refusal is None:
                            values[_value_of(each.candidate.device, each.candidate.id.driver, name)].add(
                                each.candidate.id
                            )
                    values.pop("", None)
                    most = max(most, max(map(len, values.values()), default=0) if is_match else len(values))
                if most < wanted:
                    what = "the same value" if is_match else "different values"
                    yield (
                        f"claim {plan.claim.key} wants {count_of(wanted, 'device')} with {what} of {name} "
                        f"on one node; the most that go together are {most}"
                    )

    # ---- changes that could help --------------------------------------------------------------------------------

    def remedies(self) -> Iterator[Remedy]:
        """Yield the cheapest first within each kind; nearer nodes first."""
        near = sorted((node for node in self.nodes if node.looked), key=lambda node: node.missing)[:FEW]
        for plan in self._task.plans:
            if plan.claim.name == IN_MEMORY_NAME:
                continue  # not written by a user
            for request in (each for alternatives in plan.requests for each in alternatives):
                yield from _about_request(plan.claim, request, near)
            for i, constraint in enumerate(plan.claim.spec.devices.constraints):
                yield (_without_constraint(plan.claim, i, constraint),)
        for node in near:
            yield from self._untaint(node)
            yield from self._make_free(node)

    def _untaint(self, node: NodeDevices) -> Iterator[Remedy]:
        """Suggest to remove the taints of enough devices of the node."""
        for request, looked in node.by_request().items():
            lacking = max(wanted_of(request, looked) - fit_for(looked), 1)  # the node is rejected, even with these
            tainted = [each for each in looked if each.refusal is not None and each.refusal.why is Why.TAINT]
            if len(tainted) >= lacking:
                yield tuple(_without_taints(node.node.name, each.candidate, request) for each in tainted[:lacking])

    def _make_free(self, node: NodeDevices) -> Iterator[Remedy]:
        """Suggest to delete as few pods as possible, so that their claims release enough devices."""
        for request, looked in node.by_request().items():
            lacking = max(wanted_of(request, looked) - fit_for(looked), 1)
            taken = [each for each in looked if each.refusal is not None and each.refusal.why is Why.IN_USE]
            if len(taken) >= lacking:
                yield self._release(self._holders(each.candidate.id for each in taken), lacking, node.node.name)
            short = [
                each for each in looked if each.refusal is not None and each.refusal.why in (Why.CAPACITY, Why.COUNTER)
            ]
            if short:
                drawing = self._holders(
                    other.id
                    for other in (*short[0].pool.candidates, *short[0].pool.elsewhere)
                    if short[0].refusal is not None
                    and (other.id == short[0].candidate.id or short[0].refusal.why is Why.COUNTER)
                )
                for holder in drawing[:2]:
                    yield self._release([holder], 1, node.node.name)
                if len(drawing) > 1:
                    yield self._release(drawing, len(drawing), node.node.name)

    def _holders(self, ids: Iterable[DeviceId]) -> list[tuple[ResourceClaim, int]]:
        """Return the claims that hold these devices, each with how many; those with the fewest pods first."""
        counted = Counter(holder.key for id in ids if (holder := self._holder(id)) is not None)
        known = [(claim, counted[claim.key]) for claim in self._claims() if claim.key in counted]
        return sorted(known, key=lambda each: (len(_users(each[0], self._cluster)), -each[1], each[0].key))

    def _release(self, holders: Sequence[tuple[ResourceClaim, int]], lacking: int, node: str) -> Remedy:
        """Suggest to release these claims, one after another, until enough devices are free."""
        released: list[Change] = []
        for claim, count in holders:
            if lacking <= 0:
                break
            lacking -= count
            users = _users(claim, self._cluster)
            who = f"without pod{'s' if users[1:] else ''} {first_of([pod.key for pod in users], 3)}"
            text = f"{who}, which {'use' if users[1:] else 'uses'} claim {claim.key} on {{node}}"
            if not users:
                text = f"deallocate claim {claim.key} on {{node}}"
            cost = max(len(users), 1) * ANOTHER_POD
            released.append(
                Change(text, "removePod", cost, node=node, removes=tuple(users), edit_cluster=_deallocate(claim))
            )
        return tuple(released) if lacking <= 0 else ()

    def _holder(self, id: DeviceId) -> ResourceClaim | None:
        for claim in self._claims():
            allocation = claim.status.allocation
            if allocation is not None and any(
                (each.driver, each.pool, each.device) == id and not each.admin_access
                for each in allocation.devices.results
            ):
                return claim
        return None


# ---- claims that hold devices already -------------------------------------------------------------------------------


def held_elsewhere(claim: ResourceClaim, cluster: ClusterState) -> Iterator[str]:
    """Yield where the devices of an allocated claim can be used, and which pods use it."""
    if claim.status.allocation is None:
        return
    users = [pod.key for pod in _users(claim, cluster)]
    yield (
        f"claim {claim.key} holds {first_of(_held(claim.status.allocation), 3)}, "
        f"for {_where(claim.status.allocation)}" + (f"; used by {first_of(users, 3)}" if users else "; no pod uses it")
    )


def release(claim: ResourceClaim, cluster: ClusterState) -> Remedy:
    """Suggest to release the claim, without the pods that use it."""
    users = _users(claim, cluster)
    text = f"deallocate claim {claim.key}"
    if users:
        who = f"without pod{'s' if users[1:] else ''} {first_of([pod.key for pod in users], 3)}"
        text = f"{who}: claim {claim.key} is free"
    cost = LESS + len(users) * ANOTHER_POD
    return (Change(text, "resourceClaim", cost, removes=tuple(users), edit_cluster=_deallocate(claim)),)


def _held(allocation: AllocationResult) -> list[str]:
    return [f"{each.pool}/{each.device}" for each in allocation.devices.results]


def _where(allocation: AllocationResult) -> str:
    """Return ``node a``, ``nodes with zone=a``."""
    terms = allocation.node_selector.node_selector_terms if allocation.node_selector is not None else []
    names = [value for term in terms for each in term.match_fields for value in each.values]
    labels = [
        expression_text(each.key, each.operator, each.values) for term in terms for each in term.match_expressions
    ]
    if names:
        return f"node {first_of(names)}"
    return f"nodes with {first_of(labels)}" if labels else "all nodes"


def _users(claim: ResourceClaim, cluster: ClusterState) -> list[Pod]:
    found = (cluster.pod(consumer.uid) for consumer in claim.status.reserved_for)
    return [each.pod for each in found if each is not None]


# ---- parts of texts -------------------------------------------------------------------------------------------------


def _device(candidate: PublishedDevice) -> str:
    return f"{candidate.id.pool}/{candidate.id.device}"


def _is_about(constraint: DeviceConstraint, claim: ResourceClaim, looked: Looked) -> bool:
    names: Collection[str] = constraint.requests
    return looked.claim is claim and (not names or not looked.request.names.isdisjoint(names))


def _value_of(device: Device, driver: str, name: str) -> str:
    """Return the attribute's value as text, with its type; empty if the device does not have it."""
    found = lookup_attribute(device, driver, name)
    return "" if found is None else repr(found)


# ---- changes of a claim ---------------------------------------------------------------------------------------------


def _about_request(claim: ResourceClaim, request: RequestedDevices, near: Sequence[NodeDevices]) -> Iterator[Remedy]:
    where = f"request {request.full_name} of claim {claim.key}"
    looked = [each for node in near for each in node.looked if each.request is request]
    tainted = (each.candidate.device for each in looked if each.refusal is not None and each.refusal.why is Why.TAINT)
    for against in dict.fromkeys(_taints_against(each, request) for each in tainted):
        if against:
            text = f"{where} tolerates {' and '.join(against)}"
            tolerations = [*request.tolerations, *map(_toleration, against)]
            yield (_changed(claim, request, text, TOLERATE, tolerations=tolerations),)
    if request.count > 1 and not request.wants_all:
        fit = max((fit_for(node.by_request().get(request, ())) for node in near), default=0)
        for fewer in dict.fromkeys((min(fit, request.count - 1), request.count - 1)):
            if fewer > 0:
                text = f"{count_of(fewer, 'device')} instead of {request.count} for {where}"
                cost = LESS + (request.count - fewer) / request.count
                yield (_changed(claim, request, text, cost, count=fewer),)
    own = request.expressions[request.class_expressions :]
    for i, expression in enumerate(own):
        text = f"without the selector {expression} of {where}"
        selectors = [each for k, each in enumerate(request.selectors) if k != i]
        yield (_changed(claim, request, text, GIVE_UP, selectors=selectors),)
    if request.capacity is not None and request.capacity.requests:
        yield from _smaller_shares(claim, request, looked, where)


def _taints_against(device: Device, request: RequestedDevices) -> tuple[str, ...]:
    """Return the taints that the request does not tolerate."""
    alone = ((taint, replace(device, taints=[taint])) for taint in device.taints)
    return tuple(_taint_text(taint) for taint, only in alone if prevents_allocation(only, request.tolerations))


def _taint_text(taint: DeviceTaint) -> str:
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _toleration(text: str) -> DeviceToleration:
    key, _, effect = text.rpartition(":")
    key, equals, value = key.partition("=")
    return DeviceToleration(key=key, operator="Equal" if equals else "Exists", value=value, effect=effect)


def _smaller_shares(
    claim: ResourceClaim, request: RequestedDevices, looked: Sequence[Looked], where: str
) -> Iterator[Remedy]:
    """Suggest as much of a shared device's capacity as the emptiest device has left."""
    assert request.capacity is not None and request.capacity.requests is not None
    asked = request.capacity.requests
    left: dict[str, Fraction] = {}
    for each in looked:
        if each.refusal is not None and each.refusal.why is Why.CAPACITY:
            for name in asked.keys() & each.refusal.left.keys():
                left[name] = max(left.get(name, Fraction(0)), each.refusal.left[name])
    for name, most in left.items():
        if 0 < most < parse_quantity(asked[name]):
            smaller = format_like(most, asked[name])
            text = f"{smaller} {name} instead of {asked[name]} for {where}"
            capacity = CapacityRequirements(requests={**asked, name: smaller})
            yield (_changed(claim, request, text, LESS, capacity=capacity),)


def _changed(claim: ResourceClaim, request: RequestedDevices, text: str, cost: float, **fields: Any) -> Change:
    """Return the claim with some fields of one request, or of one alternative of it, changed."""

    def change(asked: DeviceRequest) -> DeviceRequest:
        if asked.name != request.base_name:
            return asked
        if not request.parent:
            return replace(asked, exactly=replace(asked.exactly or ExactDeviceRequest(), **fields))
        among = [replace(each, **fields) if each.name == request.name else each for each in asked.first_available]
        return replace(asked, first_available=among)

    def edit_cluster(cluster: ClusterState) -> None:
        _put(claim, cluster, lambda devices: replace(devices, requests=[change(each) for each in devices.requests]))

    return Change(text, "resourceClaim", cost, edit_cluster=edit_cluster)


def _without_constraint(claim: ResourceClaim, index: int, constraint: DeviceConstraint) -> Change:
    name = constraint.match_attribute or constraint.distinct_attribute
    kind = "matchAttribute" if constraint.match_attribute is not None else "distinctAttribute"

    def edit_cluster(cluster: ClusterState) -> None:
        def fewer(devices: DeviceClaim) -> DeviceClaim:
            return replace(devices, constraints=[each for i, each in enumerate(devices.constraints) if i != index])

        _put(claim, cluster, fewer)

    return Change(f"claim {claim.key} without {kind} {name}", "resourceClaim", GIVE_UP, edit_cluster=edit_cluster)


def _put(claim: ResourceClaim, cluster: ClusterState, edit: Callable[[DeviceClaim], DeviceClaim]) -> None:
    known = cluster.objects.get(ResourceClaim, claim.key) or claim
    cluster.put(replace(known, spec=replace(known.spec, devices=edit(known.spec.devices))))


def _deallocate(claim: ResourceClaim) -> Callable[[ClusterState], None]:
    def edit_cluster(cluster: ClusterState) -> None:
        cluster.put(replace(claim, status=ResourceClaimStatus()))

    return edit_cluster


def _without_taints(node: str, candidate: PublishedDevice, request: RequestedDevices) -> Change:
    """Remove the taints of a device that the request does not tolerate, of its driver and of DeviceTaintRules."""
    against = _taints_against(candidate.device, request)

    def without(device: Device) -> Device:
        if device.name != candidate.id.device:
            return device
        return replace(device, taints=[taint for taint in device.taints if _taint_text(taint) not in against])

    def edit_cluster(cluster: ClusterState) -> None:
        known = cluster.objects.get(ResourceSlice, candidate.slice.name)
        if known is None:
            return
        cluster.put(replace(known, spec=replace(known.spec, devices=[without(each) for each in known.spec.devices])))
        for rule in list(cluster.objects.all(DeviceTaintRule)):
            if _taint_text(rule.spec.taint) in against and taints(rule, known, candidate.id.device):
                cluster.objects.remove(DeviceTaintRule, rule.key)

    text = f"device {_device(candidate)} of {{node}} without taint {' and '.join(against)}"
    return Change(text, "taint", UNTAINT, node=node, edit_cluster=edit_cluster)
