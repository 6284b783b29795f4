"""What is said of a pod's claims and volumes. Facts behind refusals are in test_facts."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.explain.remedies import volume_notes
from mooring.testing import make_cluster, make_object, make_pod


def claim(**spec: Any) -> Any:
    return make_object("PersistentVolumeClaim", "data", "default", spec=spec)


def volume(*terms: list[dict[str, Any]]) -> Any:
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in terms]}
    spec = {"nodeAffinity": {"required": required}} if terms else {}
    return make_object("PersistentVolume", "pv", spec=spec)


ZONE_A = [{"key": "zone", "operator": "In", "values": ["a"]}]
ZONE_B_SSD = [{"key": "zone", "operator": "In", "values": ["b"]}, {"key": "ssd", "operator": "Exists"}]
BOUND = "claim default/data is bound to volume pv"


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([], "claim default/data does not exist", id="a claim that does not exist"),
        pytest.param([claim()], "claim default/data is not bound yet", id="a claim that waits"),
        pytest.param(
            [claim(storageClassName="fast")],
            "claim default/data is not bound yet (storage class fast)",
            id="a claim that waits for its class",
        ),
        pytest.param([claim(volumeName="pv")], f"{BOUND}, which does not exist", id="a volume that does not exist"),
        pytest.param([claim(volumeName="pv"), volume()], BOUND, id="a volume that all nodes reach"),
        pytest.param(
            [claim(volumeName="pv"), volume(ZONE_A)], f"{BOUND}, reachable from nodes with zone=a", id="a zone"
        ),
        pytest.param(
            [claim(volumeName="pv"), volume(ZONE_A, ZONE_B_SSD)],
            f"{BOUND}, reachable from nodes with zone=a or zone=b and ssd",
            id="one of two places",
        ),
    ],
)
def test_volume_notes(objects: list[Any], want: str) -> None:
    cluster = make_cluster(*objects)
    pod = make_pod(spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]})
    assert list(volume_notes(cluster.info(pod), cluster)) == [want]


def test_a_pod_without_claims_has_no_notes() -> None:
    cluster = make_cluster()
    assert list(volume_notes(cluster.info(make_pod()), cluster)) == []
