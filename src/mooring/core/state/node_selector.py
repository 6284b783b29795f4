"""Node selectors over columns: a requirement is a comparison of integers; and the node requirements of a pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from mooring.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec
from mooring.api.errors import ParseError
from mooring.api.selectors import Requirement, requirement
from mooring.core.state.node_rows import Mask, NodeRows
from mooring.core.state.pod_info import PodShape

NAME_FIELD = "metadata.name"
Label = tuple[str, str | None]  # a key and a value; None: any value


def requirement_mask(req: Requirement, nodes: NodeRows) -> Mask:
    """Return where the nodes' label meets the requirement."""
    column, ids = nodes.label(req.key), nodes.label_ids(req.key)
    match req.operator:
        case "Exists":
            return ids >= 0
        case "DoesNotExist":
            return ids < 0
        case "In" | "NotIn":
            is_listed = np.zeros(len(column.values) + 1, np.bool_)  # by id; the last entry is read for a missing label
            is_listed[[known for value in req.values if (known := column.id_of(value)) >= 0]] = True
            listed = is_listed[ids]
            return listed if req.operator == "In" else ~listed
        case _:  # Gt, Lt: evaluated once per distinct value; the last entry is for a missing label (-1)
            verdicts = np.fromiter((req.matches_value(v) for v in (*column.values, None)), np.bool_)
            return verdicts[ids]


def labels_mask(labels: Mapping[str, str], nodes: NodeRows) -> Mask:
    """Return where the nodes have all of these labels."""
    mask = np.ones(len(nodes), np.bool_)
    for key, value in labels.items():
        mask &= nodes.label_ids(key) == nodes.label(key).id_of(value)
    return mask


class CompiledTerm(msgspec.Struct, frozen=True):
    """One term: all its requirements must match. An empty or invalid term matches nothing."""

    requirements: tuple[Requirement, ...]
    fields: tuple[tuple[str, str], ...]  # (operator, node name)
    error: str = ""

    @property
    def is_void(self) -> bool:
        return bool(self.error) or not (self.requirements or self.fields)

    def mask(self, nodes: NodeRows) -> Mask:
        if self.is_void:
            return np.zeros(len(nodes), np.bool_)
        mask = np.ones(len(nodes), np.bool_)
        for req in self.requirements:
            mask &= requirement_mask(req, nodes)
        for operator, name in self.fields:
            named = _named(name, nodes)
            mask &= named if operator == "In" else ~named
        return mask

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Match one node, for callers without a table (queueing hints)."""
        if self.is_void:
            return False
        return all(req.matches(labels) for req in self.requirements) and all(
            (wanted == name) == (operator == "In") for operator, wanted in self.fields
        )


def _named(name: str, nodes: NodeRows) -> Mask:
    info = nodes.table.nodes.get(name)
    named: Mask = nodes.rows == (-1 if info is None else info.row)
    return named


def compile_term(term: NodeSelectorTerm) -> CompiledTerm:
    try:
        requirements = tuple(requirement(r.key, r.operator, r.values, node=True) for r in term.match_expressions)
        fields = tuple(_field(r) for r in term.match_fields)
    except ParseError as error:
        return CompiledTerm((), (), str(error))
    return CompiledTerm(requirements, fields)


def _field(req: NodeSelectorRequirement) -> tuple[str, str]:
    if req.key != NAME_FIELD or req.operator not in ("In", "NotIn") or len(req.values) != 1:
        raise ParseError(f"{req.key} {req.operator}: only {NAME_FIELD} with In or NotIn and one value can be matched")
    return req.operator, req.values[0]


@dataclass(frozen=True)
class CompiledNodeSelector:
    """Terms of which one must match; without terms nothing matches."""

    terms: tuple[CompiledTerm, ...]

    @cached_property
    def _by_label(self) -> Mapping[Label, list[CompiledTerm]]:
        """Index terms by a label that a node must have, with a value if they list some: one of thousands may match."""
        found: dict[Label, list[CompiledTerm]] = {}
        for term in self.terms:
            listed = [req for req in term.requirements if req.operator == "In"]
            if listed:
                fewest = min(listed, key=lambda req: len(req.values))
                labels: Iterable[Label] = ((fewest.key, value) for value in fewest.values)
            else:
                present = (req.key for req in term.requirements if req.operator not in ("NotIn", "DoesNotExist"))
                labels = [(next(present, ""), None)]
            for label in labels:
                found.setdefault(label, []).append(term)
        return found

    def mask(self, nodes: NodeRows) -> Mask:
        mask = np.zeros(len(nodes), np.bool_)
        for term in self.terms:
            mask |= term.mask(nodes)
        return mask

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        known = self._by_label
        possible: Iterable[Label] = (("", None), *((key, None) for key in labels), *labels.items())
        return any(term.matches(name, labels) for label in possible for term in known.get(label, ()))


def compile_node_selector(selector: NodeSelector) -> CompiledNodeSelector:
    return CompiledNodeSelector(tuple(compile_term(term) for term in selector.node_selector_terms))


# ---- node requirements of a pod: nodeSelector and required node affinity together
# ---------------------------------------


class NodeRequirements:
    """The conjunction; ``is_empty`` if the pod can run on any node."""

    __slots__ = ("node_selector", "required")

    def __init__(self, spec: PodSpec) -> None:
        self.node_selector: Mapping[str, str] = spec.node_selector or {}
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        required = affinity.required if affinity is not None else None
        self.required: CompiledNodeSelector | None = None if required is None else compile_node_selector(required)

    @property
    def is_empty(self) -> bool:
        return not self.node_selector and self.required is None

    def mask(self, nodes: NodeRows) -> Mask:
        if self.is_empty:
            return np.ones(len(nodes), np.bool_)
        mask = labels_mask(self.node_selector, nodes)
        if self.required is not None:
            mask &= self.required.mask(nodes)
        return mask

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if any(labels.get(key) != value for key, value in self.node_selector.items()):
            return False
        return self.required is None or self.required.matches(name, labels)


def node_requirements(shape: PodShape) -> NodeRequirements:
    """Return the compiled requirements, cached per shape."""
    found: NodeRequirements | None = shape.kept.get(NodeRequirements)
    if found is None:
        found = shape.kept[NodeRequirements] = NodeRequirements(shape.spec)
    return found
