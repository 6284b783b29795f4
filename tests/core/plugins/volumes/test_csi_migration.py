"""In-tree volumes as their CSI drivers see them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.core import Volume
from mooring.api.errors import ParseError
from mooring.api.storage import PersistentVolume
from mooring.core.plugins.volumes.csi_migration import (
    inline_handle,
    inline_plugin,
    translated_affinity,
    volume_plugin,
    volume_source,
)

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
GKE = "topology.gke.io/zone"


def volume(source: dict[str, Any], labels: dict[str, str] | None = None, terms: Any = None) -> PersistentVolume:
    spec = dict(source)
    if terms is not None:
        listed = [{"matchExpressions": [{"key": k, "operator": "In", "values": v} for k, v in t]} for t in terms]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": listed}}
    return msgspec.convert({"metadata": {"name": "pv", "labels": labels or {}}, "spec": spec}, PersistentVolume)


GCE = {"gcePersistentDisk": {"pdName": "d"}}


@pytest.mark.parametrize(
    ("source", "labels", "driver", "handle"),
    [
        (GCE, {}, "pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        (GCE, {ZONE: "z"}, "pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/z/disks/d"),
        (GCE, {ZONE: "z", BETA_ZONE: "y"}, "pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/y/disks/d"),
        (GCE, {ZONE: "a-b-1__a-b-2"}, "pd.csi.storage.gke.io", "projects/UNSPECIFIED/regions/a-b/disks/d"),
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, {}, "ebs.csi.aws.com", "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws://z/vol-1"}}, {}, "ebs.csi.aws.com", "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws:///vol-1"}}, {}, "ebs.csi.aws.com", "vol-1"),
        ({"azureDisk": {"diskURI": "u", "kind": "managed"}}, {}, "disk.csi.azure.com", "u"),
        ({"cinder": {"volumeID": "v"}}, {}, "cinder.csi.openstack.org", "v"),
        ({"portworxVolume": {"volumeID": "v"}}, {}, "pxd.portworx.com", "v"),
    ],
)
def test_driver_and_handle(source: dict[str, Any], labels: dict[str, str], driver: str, handle: str) -> None:
    pv = volume(source, labels)
    plugin = volume_plugin(pv)
    assert plugin is not None
    got = volume_source(plugin, pv)
    assert (got.driver, got.volume_handle) == (driver, handle)


@pytest.mark.parametrize(
    ("source", "labels", "text"),
    [
        (
            {"awsElasticBlockStore": {"volumeID": "aws://z/disk"}},
            {},
            "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z/disk)",
        ),
        ({"azureDisk": {"diskURI": "u", "kind": "Shared"}}, {}, "kind(Shared) is not supported in csi migration"),
        (
            GCE,
            {ZONE: "a__b"},
            "failed to get region from zones: zone in unexpected format, expected: {locale}-{region}-{zone}, got: a",
        ),
        (
            GCE,
            {ZONE: "a-b-1__a-c-1"},
            "failed to get region from zones: multiple or no regions gotten from zones, got: map[a-b:{} a-c:{}]",
        ),
    ],
    ids=["an EBS address without a volume", "an unmanaged Azure disk", "zones of no region", "zones of two regions"],
)
def test_volumes_that_cannot_move(source: dict[str, Any], labels: dict[str, str], text: str) -> None:
    pv = volume(source, labels)
    plugin = volume_plugin(pv)
    assert plugin is not None
    with pytest.raises(ParseError) as raised:
        volume_source(plugin, pv)
    assert str(raised.value) == text


def test_an_inline_disk_has_no_zone_to_speak_of() -> None:
    inline = msgspec.convert({"name": "v"} | GCE, Volume)
    plugin = inline_plugin(inline)
    assert plugin is not None
    assert inline_handle(plugin, inline) == "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"


@pytest.mark.parametrize("source", [{"csi": {"driver": "d"}}, {"nfs": {}}, {"hostPath": {}}], ids=str)
def test_other_volumes_stay_what_they_are(source: dict[str, Any]) -> None:
    assert volume_plugin(volume(source)) is None
    assert inline_plugin(msgspec.convert({"name": "v"} | source, Volume)) is None


Terms = list[list[tuple[str, list[str]]]]


@pytest.mark.parametrize(
    ("source", "labels", "before", "after"),
    [
        pytest.param(GCE, {}, [[(ZONE, ["z"])]], [[(GKE, ["z"])]], id="the zone takes the driver's name"),
        pytest.param(
            GCE,
            {},
            [[(BETA_ZONE, ["z"]), (BETA_REGION, ["r"])]],
            [[(GKE, ["z"]), (REGION, ["r"])]],
            id="a beta region takes today's name",
        ),
        pytest.param(GCE, {ZONE: "z"}, None, [[(GKE, ["z"])]], id="without affinity the label says where"),
        pytest.param(
            GCE,
            {BETA_ZONE: "y__z"},
            [[("host", ["a"])], [("host", ["b"])]],
            [[("host", ["a"]), (GKE, ["y", "z"])], [("host", ["b"]), (GKE, ["y", "z"])]],
            id="the label joins every term",
        ),
        pytest.param(GCE, {ZONE: "other"}, [[(ZONE, ["z"])]], [[(GKE, ["z"])]], id="affinity comes before the label"),
        pytest.param(GCE, {ZONE: "__"}, None, None, id="a label without zones adds nothing"),
        pytest.param(GCE, {}, None, None, id="neither affinity nor label"),
        pytest.param(
            {"cinder": {"volumeID": "v"}},
            {ZONE: "z"},
            None,
            [[("topology.cinder.csi.openstack.org/zone", ["z"])]],
            id="every driver has its own name",
        ),
        pytest.param(
            {"azureDisk": {"diskURI": "u"}},
            {ZONE: "z"},
            [[(ZONE, ["z"])]],
            [[(ZONE, ["z"])]],
            id="Azure disks keep theirs",
        ),
    ],
)
def test_node_affinity(
    source: dict[str, Any], labels: dict[str, str], before: Terms | None, after: Terms | None
) -> None:
    pv = volume(source, labels, before)
    plugin = volume_plugin(pv)
    assert plugin is not None
    got = translated_affinity(plugin, pv)
    if after is None:
        assert got is None
        return
    assert got is not None and got.required is not None
    terms = [[(r.key, r.values) for r in term.match_expressions] for term in got.required.node_selector_terms]
    assert terms == after
