"""The autoscaler of a simulation, and its policy files.

| a document of the file | is |
|---|---|
| ``kind: NodePool`` of ``karpenter.sh/v1`` | one of Karpenter's NodePools; a file may have several |
| ``kind: ClusterAutoscaler`` | cluster-autoscaler's flags and node groups |
| a node class, such as ``EC2NodeClass`` | ignored: the catalogue describes the nodes |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mooring.api import yaml
from mooring.api.errors import InputError
from mooring.api.manifests import read_bytes
from mooring.api.well_known import ZONE
from mooring.sim.autoscaler import node_groups, node_pool
from mooring.sim.autoscaler.cloud import Cloud, Offering, offerings_of
from mooring.sim.autoscaler.cluster_autoscaler import ClusterAutoscaler
from mooring.sim.autoscaler.fleet import Fleet
from mooring.sim.autoscaler.karpenter import Karpenter
from mooring.sim.autoscaler.node_groups import ClusterAutoscalerPolicy
from mooring.sim.autoscaler.node_pool import NodePool
from mooring.sim.autoscaler.packing import EXACT, PACKINGS
from mooring.sim.catalogue import Catalogue, read_catalogue
from mooring.sim.step_fields import described, fields_of, substituted, texts


class Autoscaler(Protocol):
    """Adds and removes nodes."""

    @property
    def is_idle(self) -> bool:
        """Report whether nothing is in progress, and everything so far was considered."""

    async def start(self) -> None:
        """Start; it runs beside the story."""


@dataclass(frozen=True)
class PolicyFile:
    """A policy before the zones of the cluster are known."""

    name: str
    pools: tuple[NodePool, ...]
    groups: Mapping[str, Any] | None
    catalogue: Catalogue | None
    cloud: Cloud = field(default_factory=Cloud)
    packing: str = EXACT

    def begin(self, fleet: Fleet, zones: Sequence[str]) -> Autoscaler:
        """Return the autoscaler for a cluster with nodes in these zones."""
        offerings = self.offerings(zones)
        is_exact = self.packing == EXACT
        if self.groups is not None:
            return ClusterAutoscaler(fleet, self._groups(offerings), is_exact=is_exact)
        return Karpenter(fleet, [pool.offered(offerings) for pool in self.pools], is_exact=is_exact)

    def offerings(self, zones: Sequence[str]) -> list[Offering]:
        """Return all offerings: in the zones of the policy, else in those of the cluster."""
        named = set(self.cloud.zones)
        for pool in self.pools:
            named |= {
                value for asked in pool.asked if asked.key == ZONE and asked.operator == "In" for value in asked.values
            }
        for row in (self.groups or {}).get("nodeGroups") or ():
            named |= set(texts((row or {}).get("zones") or [], "zones")) if isinstance(row, Mapping) else set()
        return [] if self.catalogue is None else offerings_of(self.catalogue, named or set(zones) - {""})

    def _groups(self, offerings: Sequence[Offering]) -> ClusterAutoscalerPolicy:
        assert self.groups is not None
        try:
            return node_groups.read_policy(self.groups, offerings)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None

    def check(self) -> None:
        """Report its mistakes now, not when it begins."""
        offerings = self.offerings(())
        if self.groups is not None:
            self._groups(offerings)
        for pool in self.pools:
            pool.offered(offerings)


def read_policy_file(
    path: Path,
    catalogue: Path | Catalogue | Sequence[Mapping[str, Any]],
    *,
    cloud: Any = None,
    packing: str = EXACT,
    values: Mapping[str, Any] | None = None,
) -> PolicyFile:
    """Read a policy, in which ``${name}`` is replaced by the story's parameters."""
    documents = [each for each in yaml.load_all(read_bytes(path), str(path)) if each is not None]
    try:
        documents = [substituted(each, values or {}) for each in documents]
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return policy_of(documents, path.stem, str(path), catalogue, cloud=cloud, packing=packing)


def policy_of(
    documents: Sequence[Any],
    name: str,
    source: str,
    catalogue: Path | Catalogue | Sequence[Mapping[str, Any]],
    *,
    cloud: Any = None,
    packing: str = EXACT,
) -> PolicyFile:
    """Return the policy of documents."""
    if packing not in PACKINGS:
        raise InputError(f"packing: expected {' or '.join(PACKINGS)}, found {packing!r}")
    pools: list[NodePool] = []
    groups: Mapping[str, Any] | None = None
    for i, document in enumerate(documents):
        kind = document.get("kind") if isinstance(document, Mapping) else None
        where = f"{source}: {kind or f'document {i + 1}'}"
        if kind == node_pool.KIND:
            pools.append(NodePool.read(document, where))
        elif kind == node_groups.KIND and groups is None:
            groups = document
        elif not (isinstance(kind, str) and kind.endswith("NodeClass")):
            raise InputError(
                f"{where}: expected {node_pool.KIND} or one {node_groups.KIND}, found {described(kind or document)}"
            )
    if bool(pools) == (groups is not None):
        raise InputError(
            f"{source}: expected NodePools or a {node_groups.KIND}, found {'both' if pools else 'neither'}"
        )
    found = PolicyFile(
        name,
        tuple(pools),
        groups,
        catalogue if isinstance(catalogue, Catalogue) else read_catalogue(catalogue),
        Cloud.read(cloud),
        packing,
    )
    try:
        found.check()
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(source) else f"{source}: {text}") from None
    return found


STEP_FIELDS = {"policy", "catalogue", "cloud", "packing"}


def read_step(value: Any, path_of: Any, values: Mapping[str, Any]) -> PolicyFile:
    """Read the step ``autoscaler``; ``path_of`` finds a file in the story's folder."""
    fields = fields_of(value, STEP_FIELDS, required=("policy", "catalogue"))
    policy, catalogue = fields["policy"], fields["catalogue"]
    if not isinstance(catalogue, str | list):
        raise InputError(f"catalogue: expected a file or a list of types, found {catalogue!r:.60}")
    rows: Any = path_of(catalogue) if isinstance(catalogue, str) else catalogue
    packing = str(fields.get("packing", EXACT))
    if isinstance(policy, str):
        return read_policy_file(path_of(policy), rows, cloud=fields.get("cloud"), packing=packing, values=values)
    documents = policy if isinstance(policy, list) else [policy]
    return policy_of(documents, "policy", "policy", rows, cloud=fields.get("cloud"), packing=packing)
