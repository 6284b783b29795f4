"""Garbage collection: owners that go, dependents that stay or follow, namespaces that empty, events that expire."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.clock import VirtualClock
from mooring.controlplane.cluster.garbage import GarbageCollector, expire_events
from mooring.controlplane.registry.catalog import NAMESPACES, NODES
from mooring.controlplane.registry.groups.core import CONFIG_MAPS, EVENTS
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.storage.store import Store, StoredEntry


class Yard:
    def __init__(self, *, start: bool = True) -> None:
        self.clock = VirtualClock(1_767_225_600.0)
        self.api = Api(Store(), self.clock)
        for name in ("default", "other"):
            self.api.create(NAMESPACES, "", {"metadata": {"name": name}})
        self.garbage = GarbageCollector(self.api)
        if start:
            self.garbage.start()

    def make(
        self, name: str, *owners: StoredEntry, namespace: str = "default", blocks: bool = True, **metadata: Any
    ) -> StoredEntry:
        references = [
            {"apiVersion": "v1", "kind": o.kind.kind, "name": o.name, "uid": o.uid, "blockOwnerDeletion": blocks}
            for o in owners
        ]
        obj = {"metadata": {"name": name, "ownerReferences": references, **metadata}}
        return self.api.create(CONFIG_MAPS, namespace, obj)

    def delete(self, name: str, policy: str = "") -> None:
        self.api.delete(CONFIG_MAPS, "default", name, {"propagationPolicy": policy} if policy else {})

    def left(self) -> list[str]:
        self.garbage.drain()
        return [entry.name for entry in self.api.store.iterate(CONFIG_MAPS)]


def test_a_chain_of_owners_goes_link_by_link() -> None:
    yard = Yard()
    first = yard.make("a")
    second = yard.make("b", first)
    yard.make("c", second)
    yard.delete("a")
    assert yard.left() == []


def test_a_dependent_stays_while_one_owner_does() -> None:
    yard = Yard()
    first, second = yard.make("a"), yard.make("b")
    yard.make("c", first, second)
    yard.delete("a")
    assert yard.left() == ["b", "c"]
    references = yard.api.get(CONFIG_MAPS, "default", "c").object()["metadata"]["ownerReferences"]
    assert [each["name"] for each in references] == ["b"]
    yard.delete("b")
    assert yard.left() == []


def test_an_orphan_loses_its_reference_and_stays() -> None:
    yard = Yard()
    owner = yard.make("a")
    yard.make("b", owner)
    yard.delete("a", "Orphan")
    assert yard.left() == ["b"]
    assert "ownerReferences" not in yard.api.get(CONFIG_MAPS, "default", "b").object()["metadata"]


def test_in_the_foreground_the_owner_waits_for_dependents_that_block() -> None:
    yard = Yard()
    owner = yard.make("a")
    yard.make("b", owner, finalizers=["x/hold"])
    yard.delete("a", "Foreground")
    assert yard.left() == ["a", "b"]
    yard.api.modify(CONFIG_MAPS, "default", "b", lambda obj: obj["metadata"].pop("finalizers"))
    assert yard.left() == []


def test_in_the_foreground_the_owner_does_not_wait_for_others() -> None:
    yard = Yard()
    owner = yard.make("a")
    yard.make("b", owner, blocks=False, finalizers=["x/hold"])
    yard.delete("a", "Foreground")
    assert yard.left() == ["b"]


def test_the_foreground_reaches_down_the_chain() -> None:
    yard = Yard()
    first = yard.make("a")
    second = yard.make("b", first)
    yard.make("c", second, finalizers=["x/hold"])
    yard.delete("a", "Foreground")
    assert yard.left() == ["a", "b", "c"]
    yard.api.modify(CONFIG_MAPS, "default", "c", lambda obj: obj["metadata"].pop("finalizers"))
    assert yard.left() == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"uid": "nobody"}, id="an unknown uid"),
        pytest.param({"name": "another"}, id="another name"),
        pytest.param({"kind": "Secret"}, id="another kind"),
    ],
)
def test_a_dangling_owner_reference_does_not_keep_an_object(change: dict[str, str]) -> None:
    yard = Yard()
    owner = yard.make("a")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": owner.uid, **change}
    yard.make("b", ownerReferences=[reference])
    assert yard.left() == ["a"]


def test_an_owner_in_another_namespace_does_not_count_but_a_cluster_scoped_one_does() -> None:
    yard = Yard()
    yard.make("b", yard.make("a"), namespace="other")
    node = yard.api.create(NODES, "", {"metadata": {"name": "n"}})
    yard.make("c", node)
    assert yard.left() == ["a", "c"]
    yard.api.delete(NODES, "", "n")
    assert yard.left() == ["a"]


def test_a_collector_that_starts_late_finds_what_it_missed() -> None:
    yard = Yard(start=False)
    owner = yard.make("a")
    yard.make("b", owner)
    yard.delete("a")
    assert yard.left() == ["b"]
    yard.garbage.start()
    assert yard.left() == []


def test_a_collector_that_is_stopped_does_nothing_more() -> None:
    yard = Yard()
    owner = yard.make("a")
    yard.make("b", owner)
    yard.garbage.drain()
    yard.garbage.stop()
    yard.delete("a")
    assert yard.left() == ["b"]


def test_work_is_done_in_steps() -> None:
    yard = Yard()
    owner = yard.make("a")
    for i in range(10):
        yard.make(f"b{i}", owner)
    yard.garbage.drain()
    yard.delete("a")
    assert yard.garbage.step(3) is True
    assert len(list(yard.api.store.iterate(CONFIG_MAPS))) == 7
    assert yard.left() == []


def test_a_namespace_goes_when_it_is_empty() -> None:
    yard = Yard()
    yard.make("a", namespace="other", finalizers=["x/hold"])
    yard.make("b", namespace="other")
    yard.api.delete(NAMESPACES, "", "other")
    assert yard.left() == ["a"]
    assert yard.api.find(NAMESPACES, "", "other") is not None
    yard.api.modify(CONFIG_MAPS, "other", "a", lambda obj: obj["metadata"].pop("finalizers"))
    assert yard.left() == []
    assert yard.api.find(NAMESPACES, "", "other") is None


def test_a_namespace_with_a_finalizer_of_its_own_waits_for_it() -> None:
    yard = Yard()
    yard.api.modify(
        NAMESPACES, "", "other", lambda obj: obj["spec"]["finalizers"].append("x/y"), subresource="finalize"
    )
    yard.api.delete(NAMESPACES, "", "other")
    yard.garbage.drain()
    assert yard.api.get(NAMESPACES, "", "other").object()["spec"] == {"finalizers": ["x/y"]}


@pytest.mark.parametrize(
    ("event", "expires"),
    [
        pytest.param({}, True, id="made long ago"),
        pytest.param({"lastTimestamp": "2026-01-01T01:30:00Z"}, False, id="seen again"),
        pytest.param({"series": {"lastObservedTime": "2026-01-01T01:30:00.000000Z"}}, False, id="a continuing series"),
        pytest.param({"series": {"lastObservedTime": "2026-01-01T00:10:00.000000Z"}}, True, id="a series that ended"),
    ],
)
def test_events_expire(event: dict[str, Any], expires: bool) -> None:
    yard = Yard()
    yard.api.create(EVENTS, "default", {"metadata": {"name": "e"}, **event})
    yard.clock.advance(2 * 3600)
    assert expire_events(yard.api, 3600.0) == (1 if expires else 0)
    assert (yard.api.find(EVENTS, "default", "e") is None) is expires
