"""Free volumes in columns against the same question asked volume by volume and node by node."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.api.quantity import parse_quantity
from mooring.api.selectors import compile_selector
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.core.plugins.volumes import free_volumes
from mooring.core.plugins.volumes.bind_volumes import bound_to
from mooring.core.plugins.volumes.binding_plan import Planner, PodClaims
from mooring.core.plugins.volumes.free_volumes import AssumeCache

NODES = ["a", "b", "c", "d"]
SIZES = ["1Gi", "1.5Gi", "2Gi", "2147483648"]


def term(key: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


AFFINITIES: list[dict[str, Any] | None] = [
    None,
    *({"required": {"nodeSelectorTerms": [term("host", name)]}} for name in NODES),
    {"required": {"nodeSelectorTerms": [term("zone", "z1")]}},
    {"required": {"nodeSelectorTerms": [term("zone", "z2"), term("host", "a")]}},
    {
        "required": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]
        }
    },
    {"required": {"nodeSelectorTerms": []}},
    {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "host", "operator": "Exists"}]}]}},
    {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "host", "operator": "Odd"}]}]}},
]

volumes = st.fixed_dictionaries(
    {
        "size": st.sampled_from(SIZES),
        "cls": st.sampled_from(["slow", "fast"]),
        "accessModes": st.sampled_from([["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"]]),
        "volumeMode": st.sampled_from([None, "Filesystem", "Block"]),
        "volumeAttributesClassName": st.sampled_from([None, "gold"]),
        "phase": st.sampled_from(["Available", "Available", "Available", "Bound", ""]),
        "nodeAffinity": st.sampled_from(AFFINITIES),
        "claimRef": st.sampled_from(
            [None, None, None, {"name": "c0", "namespace": "ns"}, {"name": "c0", "namespace": "ns", "uid": "x"}]
        ),
        "metadata": st.fixed_dictionaries(
            {
                "labels": st.sampled_from([{}, {"disk": "ssd"}]),
                "deletionTimestamp": st.sampled_from([None, None, None, "2026-01-01T00:00:00Z"]),
            }
        ),
    }
)
claims = st.fixed_dictionaries(
    {
        "size": st.sampled_from(SIZES),
        "cls": st.sampled_from(["slow", "slow", "fast"]),
        "accessModes": st.sampled_from([[], ["ReadWriteOnce"], ["ReadOnlyMany"]]),
        "volumeMode": st.sampled_from([None, "Block"]),
        "volumeAttributesClassName": st.sampled_from([None, "gold"]),
        "selector": st.sampled_from([None, None, {"matchLabels": {"disk": "ssd"}}]),
    }
)


def reaches(volume: PersistentVolume, labels: dict[str, str]) -> bool:
    """The volume's node affinity, one requirement after the other."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    for one in affinity.required.node_selector_terms:
        if not one.match_expressions and not one.match_fields:
            continue
        met = []
        for req in one.match_expressions:
            value = labels.get(req.key)
            met.append({"In": value in req.values, "Exists": value is not None}.get(req.operator, False))
        if all(met):
            return True
    return False


def find(
    claim: PersistentVolumeClaim, candidates: list[PersistentVolume], labels: dict[str, str], taken: set[str]
) -> str | None:
    """Upstream's loop over all volumes for one claim and one node, in the order of names."""
    best: PersistentVolume | None = None
    size = parse_quantity(claim.spec.resources.requests["storage"])
    for volume in sorted(candidates, key=lambda v: v.name):
        ref = volume.spec.claim_ref
        mine = (
            ref is not None
            and (ref.name, ref.namespace) == (claim.name, claim.namespace)
            and ref.uid in ("", claim.uid)
        )
        if volume.name in taken or volume.spec.storage_class_name != claim.spec.storage_class_name:
            continue
        if ref is not None and not mine:
            continue
        if parse_quantity(volume.spec.capacity["storage"]) < size:
            continue
        if (volume.spec.volume_mode or "Filesystem") != (claim.spec.volume_mode or "Filesystem"):
            continue
        if volume.spec.volume_attributes_class_name != claim.spec.volume_attributes_class_name:
            continue
        if volume.metadata.deletion_timestamp is not None:
            continue
        if mine:
            return volume.name if reaches(volume, labels) else None
        if volume.status.phase != "Available" or not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
            continue
        if claim.spec.selector is not None and not compile_selector(claim.spec.selector).matches(volume.labels):
            continue
        if not reaches(volume, labels):
            continue
        if best is None or parse_quantity(volume.spec.capacity["storage"]) < parse_quantity(
            best.spec.capacity["storage"]
        ):
            best = volume
    return None if best is None else best.name


@pytest.mark.parametrize("few", [0, 32], ids=["volumes are sorted anew", "volumes are inserted"])
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_all_claims_on_all_nodes(world: Any, monkeypatch: pytest.MonkeyPatch, few: int, data: st.DataObject) -> None:
    monkeypatch.setattr(free_volumes, "FEW", few)
    world.__init__()
    for name in ("slow", "fast"):
        world.storage_class(name)
    for name in NODES:
        world.node(name, zone=data.draw(st.sampled_from(["z1", "z2"])))
    cache = AssumeCache(PersistentVolume, world.cluster.objects, "persistentvolumes")
    planner = Planner(world.cluster, cache)
    names = [f"v{i}" for i in range(6)]
    for round_ in range(3):
        for name in data.draw(st.lists(st.sampled_from(names), max_size=6, unique=True)):
            if round_ and data.draw(st.booleans(), label="remove"):
                world.cluster.objects.remove(PersistentVolume, name)
            else:
                world.volume(name, **data.draw(volumes))
        if round_ and data.draw(st.booleans(), label="relabel"):
            world.node(data.draw(st.sampled_from(NODES)), zone=data.draw(st.sampled_from(["z1", "z2"])))
        wanted = [world.claim(f"c{i}", **data.draw(claims)) for i in range(data.draw(st.integers(1, 3)))]
        world.cluster.nodes()
        plan = planner.plan(PodClaims(delayed=wanted))
        present = [v for name in names if (v := cache.get(name)) is not None]
        for info in world.cluster.table.infos:
            expected: dict[str, str] = {}
            for claim in sorted(wanted, key=lambda c: parse_quantity(c.spec.resources.requests["storage"])):
                found = find(claim, present, info.labels, set(expected.values()))
                if found is not None:
                    expected[claim.name] = found
            got = planner.volumes_on(plan, info.row)
            assert {b.claim.name: b.volume.name for b in got.bindings} == expected
            assert bool(plan.codes[info.row]) == (len(expected) < len(wanted))
        if got.bindings and data.draw(st.booleans(), label="assume"):
            for binding in got.bindings:
                promised, is_changed = bound_to(binding.volume, binding.claim)
                if is_changed:
                    cache.assume(promised)
                    if data.draw(st.booleans(), label="restore"):
                        cache.restore(promised)


def test_a_volume_with_an_invalid_capacity_is_never_chosen(world: Any) -> None:
    world.node("a")
    world.storage_class("slow")
    world.volume("bad", size="much")
    cache = AssumeCache(PersistentVolume, world.cluster.objects, "persistentvolumes")
    planner = Planner(world.cluster, cache)
    claim = world.claim("c")
    world.cluster.nodes()
    assert planner.plan(PodClaims(delayed=[claim])).codes.all()
    world.volume("good", size="1Gi")
    plan = planner.plan(PodClaims(delayed=[claim]))
    assert [b.volume.name for b in planner.volumes_on(plan, 0).bindings] == ["good"]
