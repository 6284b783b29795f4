"""In-tree volumes translated to the CSI drivers that replace them.

Only what scheduling reads is translated: the driver, the volume handle, and for persistent volumes the topology in
their node affinity.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from mooring.api.core import (
    AwsElasticBlockStore,
    AzureDisk,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Volume,
)
from mooring.api.errors import ParseError
from mooring.api.storage import CSINode, CsiSource, PersistentVolume, VolumeNodeAffinity
from mooring.api.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
ZONE_DELIMITER = "__"
_UNSPECIFIED = "UNSPECIFIED"
_EBS_ID = re.compile(r"vol-[^/]*")


class InTreePlugin(msgspec.Struct, frozen=True):
    """A volume type that a CSI driver replaces."""

    source: str  # the field of a volume's spec
    name: str
    driver: str
    migrated: bool  # whether the scheduler treats the migration as complete
    topology_key: str = ""  # the driver's key for zones; empty: its volumes keep their affinity


GCE_PD = InTreePlugin(
    "gce_persistent_disk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", True, "topology.gke.io/zone"
)
AWS_EBS = InTreePlugin(
    "aws_elastic_block_store", "kubernetes.io/aws-ebs", "ebs.csi.aws.com", True, "topology.ebs.csi.aws.com/zone"
)
CINDER = InTreePlugin(
    "cinder",
    "kubernetes.io/cinder",
    "cinder.csi.openstack.org",
    True,
    "topology.cinder.csi.openstack.org/zone",
)
AZURE_DISK = InTreePlugin("azure_disk", "kubernetes.io/azure-disk", "disk.csi.azure.com", True)
AZURE_FILE = InTreePlugin("azure_file", "kubernetes.io/azure-file", "file.csi.azure.com", False)
VSPHERE = InTreePlugin("vsphere_volume", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", False)
PORTWORX = InTreePlugin("portworx_volume", "kubernetes.io/portworx-volume", "pxd.portworx.com", True)

PLUGINS = (GCE_PD, AWS_EBS, CINDER, AZURE_DISK, AZURE_FILE, VSPHERE, PORTWORX)
BY_NAME = {plugin.name: plugin for plugin in PLUGINS}


def inline_plugin(volume: Volume) -> InTreePlugin | None:
    """Return the in-tree plugin of a pod's inline volume, if a driver replaces it."""
    return next((plugin for plugin in PLUGINS if getattr(volume, plugin.source) is not None), None)


def volume_plugin(volume: PersistentVolume) -> InTreePlugin | None:
    """Return the in-tree plugin of a persistent volume, if a driver replaces it."""
    return next((plugin for plugin in PLUGINS if getattr(volume.spec, plugin.source) is not None), None)


def migrated_plugins(csi_node: CSINode | None) -> frozenset[str]:
    """Return the plugins that a node reports as migrated."""
    text = "" if csi_node is None else csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "")
    return frozenset(text.split(",")) if text else frozenset()


def inline_handle(plugin: InTreePlugin, volume: Volume) -> str:
    """Return the driver's handle of a pod's inline volume; raise ParseError if it has none."""
    source = getattr(volume, plugin.source)
    if plugin is GCE_PD:
        return f"projects/{_UNSPECIFIED}/zones/{_UNSPECIFIED}/disks/{source.pd_name}"
    return _HANDLES[plugin.name](source)


def volume_source(plugin: InTreePlugin, volume: PersistentVolume) -> CsiSource:
    """Return driver and handle of a persistent volume after migration; raise ParseError if it cannot be translated."""
    source = getattr(volume.spec, plugin.source)
    if plugin is GCE_PD:
        return CsiSource(driver=plugin.driver, volume_handle=_gce_handle(volume, source.pd_name))
    return CsiSource(driver=plugin.driver, volume_handle=_HANDLES[plugin.name](source))


def _gce_handle(volume: PersistentVolume, disk: str) -> str:
    labels = volume.metadata.labels
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE, "")).split(ZONE_DELIMITER)
    if len(zones) > 1:
        return f"projects/{_UNSPECIFIED}/regions/{_gce_region(zones)}/disks/{disk}"
    return f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{disk}"


def _gce_region(zones: list[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise ParseError(
                "failed to get region from zones: zone in unexpected format, "
                f"expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        listed = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise ParseError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{listed}]"
        )
    return regions.pop()


def _ebs_handle(source: AwsElasticBlockStore) -> str:
    """Return the handle of a disk: ``aws://zone/vol-1`` and ``vol-1`` are the same."""
    text = source.volume_id
    if not text.startswith("aws://"):
        return text
    handle = urlsplit(text).path.strip("/")
    if not _EBS_ID.fullmatch(handle):
        raise ParseError(f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({text})")
    return handle


def _azure_disk_handle(source: AzureDisk) -> str:
    if source.kind is not None and source.kind.lower() != "managed":
        raise ParseError(f"kind({source.kind}) is not supported in csi migration")
    return source.disk_uri


_HANDLES: dict[str, Callable[[Any], str]] = {
    AWS_EBS.name: _ebs_handle,
    CINDER.name: lambda source: source.volume_id,
    AZURE_DISK.name: _azure_disk_handle,
    AZURE_FILE.name: lambda source: f"#{source.secret_name}#{source.share_name}#",
    VSPHERE.name: lambda source: source.volume_path,
    PORTWORX.name: lambda source: source.volume_id,
}


def translated_affinity(plugin: InTreePlugin, volume: PersistentVolume) -> VolumeNodeAffinity | None:
    """Translate a volume's node affinity to its driver's: zones under its key, regions under the current label."""
    affinity = volume.spec.node_affinity
    if not plugin.topology_key:
        return affinity
    terms = affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else []
    zone, region = _zone_and_region_keys(volume, terms)
    renamed = {}
    if any(r.key == zone and r.values for term in terms for r in term.match_expressions):
        renamed[zone] = plugin.topology_key
    elif zone in volume.metadata.labels:
        zones = sorted({z.strip() for z in volume.metadata.labels[zone].split(ZONE_DELIMITER)} - {""})
        if zones:
            more = NodeSelectorRequirement(plugin.topology_key, "In", zones)
            terms = [
                NodeSelectorTerm([*term.match_expressions, more], term.match_fields)
                for term in terms or [NodeSelectorTerm()]
            ]
    if region == BETA_REGION:
        renamed[region] = REGION
    if not terms:
        return affinity
    return VolumeNodeAffinity(required=NodeSelector([_renamed(term, renamed) for term in terms]))


def _zone_and_region_keys(volume: PersistentVolume, terms: list[NodeSelectorTerm]) -> tuple[str, str]:
    """Return the topology labels that a volume uses, by its affinity, then by its labels."""
    used = {r.key for term in terms for r in term.match_expressions}
    for keys in (used, volume.metadata.labels):
        if ZONE in keys:
            return ZONE, REGION
        if BETA_ZONE in keys:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _renamed(term: NodeSelectorTerm, names: dict[str, str]) -> NodeSelectorTerm:
    renamed = [NodeSelectorRequirement(names.get(r.key, r.key), r.operator, r.values) for r in term.match_expressions]
    return NodeSelectorTerm(renamed, term.match_fields)
