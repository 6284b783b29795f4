"""Karpenter's NodePools (``karpenter.sh/v1``): their offerings, limits and disruption budgets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import ceil
from typing import Any

from mooring.api.core import Taint
from mooring.api.errors import InputError, ParseError
from mooring.api.selectors import Requirement, requirement
from mooring.api.times import parse_seconds
from mooring.controlplane.registry.groups.batch import Schedule, parse_schedule
from mooring.sim.autoscaler.cloud import Offering, amounts_of, has_known_labels, taint_of
from mooring.sim.step_fields import described, fields_of, mapping, whole_number

GROUP, KIND = "karpenter.sh", "NodePool"
POOL_LABEL = "karpenter.sh/nodepool"
EMPTY, UNDERUTILIZED, DRIFTED, EXPIRED = "Empty", "Underutilized", "Drifted", "Expired"
REASONS = (UNDERUTILIZED, EMPTY, DRIFTED)
WHEN_EMPTY, WHEN_UNDERUTILIZED = "WhenEmpty", "WhenEmptyOrUnderutilized"
DEFAULT_EXPIRY_S = 720 * 3600.0
UNBOUNDED = 2**31 - 1
MAX_VARIANTS = 64  # of a NodePool's own labels
_TEMPLATE = {"taints", "startupTaints", "requirements", "nodeClassRef", "terminationGracePeriod", "expireAfter"}
_COMPARISONS = {"Gt": int.__gt__, "Lt": int.__lt__, "Gte": int.__ge__, "Lte": int.__le__}


@dataclass(frozen=True, slots=True)
class Asked:
    """One requirement of a NodePool."""

    key: str
    operator: str
    values: tuple[str, ...]
    min_values: int = 0

    @staticmethod
    def read(value: Any, where: str) -> Asked:
        fields = fields_of(value, {"key", "operator", "values", "minValues"}, required=("key", "operator"))
        listed = fields.get("values") or []
        if not isinstance(listed, list):
            raise InputError(f"{where}.values: expected a list, found {listed!r:.60}")
        values = tuple(map(str, listed))
        asked = Asked(str(fields["key"]), str(fields["operator"]), values, whole_number(
            fields.get("minValues") or 0, f"{where}.minValues", most=50))  # fmt: skip
        if asked.operator in _COMPARISONS:
            if len(values) != 1 or not values[0].isdecimal():
                raise InputError(f"{where}.values: {asked.operator} expects one whole number, found {list(values)}")
        else:
            try:
                requirement(asked.key, asked.operator, values)
            except ParseError as error:
                raise InputError(f"{where}: {error}") from None
        return asked

    def matches(self, labels: Mapping[str, str]) -> bool:
        compare = _COMPARISONS.get(self.operator)
        if compare is None:
            return Requirement(self.key, self.operator, self.values).matches(labels)
        value = labels.get(self.key, "")
        return value.isdecimal() and bool(compare(int(value), int(self.values[0])))


@dataclass(frozen=True, slots=True)
class NodeBudget:
    """How many nodes may be disrupted at the same time, perhaps only for some reasons or at some times."""

    nodes: str
    reasons: tuple[str, ...] | None = None
    schedule: Schedule | None = None
    duration_s: float = 0.0

    @staticmethod
    def read(value: Any, where: str) -> NodeBudget:
        fields = fields_of(value, {"nodes", "reasons", "schedule", "duration"})
        nodes, reasons = str(fields.get("nodes", "10%")), fields.get("reasons")
        if not re.fullmatch(r"(100|[0-9]{1,2})%|[0-9]+", nodes):
            raise InputError(f"{where}.nodes: expected a number or a percentage, found {nodes!r}")
        if not isinstance(reasons, list | None):
            raise InputError(f"{where}.reasons: expected a list, found {reasons!r:.60}")
        for reason in reasons or ():
            if reason not in REASONS:
                raise InputError(f"{where}.reasons: expected {', '.join(REASONS)}, found {reason!r}")
        if ("schedule" in fields) != ("duration" in fields):
            raise InputError(f"{where}: schedule and duration go together; give both or neither")
        schedule, duration_s = None, 0.0
        if "schedule" in fields:
            try:
                schedule = parse_schedule(str(fields["schedule"]))
                duration_s = parse_seconds(str(fields["duration"]))
            except ParseError as error:
                raise InputError(f"{where}: {error}") from None
        return NodeBudget(nodes, None if reasons is None else tuple(reasons), schedule, duration_s)

    def is_active(self, now: float) -> bool:
        """Report whether it is active at a time (Unix seconds): within its duration after a time of its schedule."""
        if self.schedule is None:
            return True
        hit = self.schedule.next(now - self.duration_s)
        return hit is not None and hit <= now

    def allowed(self, num_nodes: int, now: float) -> int:
        """Return how many of these nodes may be disrupted; a share is rounded up."""
        if not self.is_active(now):
            return UNBOUNDED
        if self.nodes.endswith("%"):
            return ceil(num_nodes * int(self.nodes[:-1]) / 100)
        return int(self.nodes)


@dataclass(frozen=True)
class NodePool:
    """A NodePool with all its offerings."""

    name: str
    weight: int = 0
    limits: Mapping[str, int] = field(default_factory=dict)
    asked: tuple[Asked, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    consolidation: str = WHEN_UNDERUTILIZED
    consolidate_after_s: float | None = 0.0  # None: never
    expire_after_s: float | None = DEFAULT_EXPIRY_S
    grace_s: float | None = None  # after which a node is deleted with its remaining pods
    budgets: tuple[NodeBudget, ...] = ()
    offerings: tuple[Offering, ...] = ()  # those of the catalogue that meet its requirements

    @staticmethod
    def read(value: Mapping[str, Any], where: str) -> NodePool:
        """Read the object; :meth:`offered` adds the offerings."""
        metadata, spec = mapping(value.get("metadata"), f"{where}.metadata"), value.get("spec")
        name = str(metadata.get("name") or "")
        if not name:
            raise InputError(f"{where}: metadata.name is missing")
        where = f"{where} {name}"
        try:
            return _pool(name, spec)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None

    def offered(self, offerings: Sequence[Offering]) -> NodePool:
        """Return the pool with the offerings that meet its requirements, with its labels."""
        own = [asked for asked in self.asked if not has_known_labels(asked.key) and asked.key not in self.labels]
        choices = [
            [(asked.key, value) for value in asked.values] for asked in own if asked.operator == "In" and asked.values
        ]
        variants = [dict(chosen) for chosen in product(*choices)]
        if len(variants) > MAX_VARIANTS:
            raise InputError(f"NodePool {self.name}: its own labels have {len(variants)} combinations, {MAX_VARIANTS} "
                             "are the most")  # fmt: skip
        known = [asked for asked in self.asked if has_known_labels(asked.key)]
        found = [
            offering.with_labels({**self.labels, **variant, POOL_LABEL: self.name})
            for variant in variants
            for offering in offerings
            if all(asked.matches(offering.labels) for asked in known)
        ]
        if not found:
            raise InputError(f"NodePool {self.name}: no type of the catalogue meets its requirements")
        fields = {each: getattr(self, each) for each in self.__dataclass_fields__}
        return NodePool(**{**fields, "offerings": tuple(found)})

    def has_min_values(self, offerings: Sequence[Offering]) -> bool:
        """Report whether offerings have the minValues of the requirements."""
        return all(
            len({offering.labels.get(asked.key, "") for offering in offerings}) >= asked.min_values
            for asked in self.asked
            if asked.min_values
        )

    def allowed_disruptions(self, num_nodes: int, reason: str, now: float) -> int:
        """Return how many nodes may be disrupted for a reason: the smallest of the active budgets."""
        counted = [each for each in self.budgets if each.reasons is None or reason in each.reasons]
        return min((each.allowed(num_nodes, now) for each in counted), default=UNBOUNDED)


def _pool(name: str, spec: Any) -> NodePool:
    fields = fields_of(spec, {"template", "disruption", "limits", "weight"}, required=("template",))
    template = fields_of(fields["template"], {"metadata", "spec"}, required=("spec",))
    metadata = fields_of(template.get("metadata") or {}, {"labels", "annotations"})
    inner = fields_of(template["spec"], _TEMPLATE)
    disruption = fields_of(fields.get("disruption") or {}, {"consolidationPolicy", "consolidateAfter", "budgets"})
    policy = str(disruption.get("consolidationPolicy", WHEN_UNDERUTILIZED))
    if policy not in (WHEN_EMPTY, WHEN_UNDERUTILIZED):
        raise InputError(
            f"spec.disruption.consolidationPolicy: expected {WHEN_EMPTY} or {WHEN_UNDERUTILIZED}, found {policy!r}"
        )
    requirements = _list(inner.get("requirements"), "spec.template.spec.requirements")
    asked = tuple(Asked.read(each, f"spec.template.spec.requirements[{i}]") for i, each in enumerate(requirements))
    for each in asked:
        if each.operator in _COMPARISONS and not has_known_labels(each.key):
            raise InputError(f"requirement {each.key} {each.operator}: the catalogue has no such label; leave it out")
    budgets = _list(disruption.get("budgets", [{"nodes": "10%"}]), "spec.disruption.budgets")
    grace = inner.get("terminationGracePeriod")
    return NodePool(
        name,
        whole_number(fields.get("weight") or 0, "spec.weight", most=100),
        amounts_of(mapping(fields.get("limits"), "spec.limits"), "spec.limits"),
        asked,
        {key: str(label) for key, label in mapping(metadata.get("labels"), "labels").items()},
        _taints(inner.get("taints"), "spec.template.spec.taints"),
        _taints(inner.get("startupTaints"), "spec.template.spec.startupTaints"),
        policy,
        _duration(disruption.get("consolidateAfter", "0s"), "spec.disruption.consolidateAfter"),
        _duration(inner.get("expireAfter", "720h"), "spec.template.spec.expireAfter"),
        None if grace is None else _duration(grace, "spec.template.spec.terminationGracePeriod"),
        tuple(NodeBudget.read(each, f"spec.disruption.budgets[{i}]") for i, each in enumerate(budgets)),
    )


def _list(value: Any, where: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise InputError(f"{where}: expected a list, found {described(value)}")
    return value or []


def _taints(value: Any, where: str) -> tuple[Taint, ...]:
    return tuple(taint_of(each) for each in _list(value, where))


def _duration(value: Any, where: str) -> float | None:
    if value == "Never":
        return None
    try:
        return parse_seconds(str(value))
    except ParseError:
        raise InputError(f"{where}: expected a duration such as 5m, or Never, found {described(value)}") from None
