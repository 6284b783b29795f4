"""The store by example: pages, the past, indexes, versions. Random histories are in ``test_store_machine``."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.registry.groups.core import EVENTS
from mooring.controlplane.storage.store import ADDED, DELETED, MAX_OBJECT_BYTES, MODIFIED, Event, Store
from mooring.controlplane.types.status import StatusError


def pod(name: str, namespace: str = "default", node: str = "", **metadata: Any) -> dict[str, Any]:
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"u-{name}", **metadata}, "spec": spec}


def names(entries: list[Any]) -> list[str]:
    return [entry.key for entry in entries]


def test_pages_follow_each_other_in_the_order_of_keys() -> None:
    store = Store()
    for name in "dbace":
        store.create(PODS, pod(name))
    store.create(PODS, pod("z", "another"))
    first = store.page(PODS, limit=2)
    assert names(first.entries) == ["another/z", "default/a"]
    assert (first.next_key, first.remaining) == ("default/b", 4)
    second = store.page(PODS, limit=2, start=first.next_key, at=first.rv)
    assert names(second.entries) == ["default/b", "default/c"]
    last = store.page(PODS, limit=2, start=second.next_key, at=first.rv)
    assert (names(last.entries), last.next_key) == (["default/d", "default/e"], "")


def test_a_page_of_the_past_shows_what_was_then() -> None:
    store = Store()
    kept, changed, gone = (store.create(PODS, pod(name)) for name in ("kept", "changed", "gone"))
    then = store.rv
    store.update(PODS, changed, pod("changed", node="n"))
    store.delete(PODS, gone)
    store.create(PODS, pod("new"))
    past = store.page(PODS, at=then)
    assert names(past.entries) == ["default/changed", "default/gone", "default/kept"]
    assert past.entries[0] is changed and past.rv == then
    assert kept in past.entries


@pytest.mark.parametrize(
    ("namespace", "want"),
    [("x", ["x/a"]), ("x-y", ["x-y/a"]), ("x0", ["x0/a"]), ("y", [])],
)
def test_a_namespace_is_not_its_neighbour(namespace: str, want: list[str]) -> None:
    store = Store()
    for space in ("x", "x-y", "x0"):
        store.create(PODS, pod("a", space))
    assert names(list(store.iterate(PODS, namespace))) == want
    assert names(store.page(PODS, namespace).entries) == want


def test_only_matching_entries_count_towards_a_page() -> None:
    store = Store()
    for name in "abcd":
        store.create(PODS, pod(name, node="n" if name in "bd" else ""))
    page = store.page(PODS, limit=1, match=lambda entry: entry.field("spec.nodeName") == "n")
    assert names(page.entries) == ["default/b"] and page.next_key == "default/d"


def test_versions_that_are_not_there_yet_or_no_longer() -> None:
    store = Store(history=2)
    for name in "abcd":
        store.create(PODS, pod(name))
    for call in (lambda: store.page(PODS, at=store.rv + 1), lambda: store.events_since(PODS, store.rv + 1)):
        with pytest.raises(StatusError) as refused:
            call()
        assert refused.value.code == 504
    for call in (lambda: store.page(PODS, at=2), lambda: store.events_since(PODS, 2)):
        with pytest.raises(StatusError) as refused:
            call()
        assert refused.value.code == 410
    assert [event.entry.name for event in store.events_since(PODS, store.oldest(PODS))] == ["c", "d"]


def test_the_history_of_one_kind_does_not_push_out_anothers() -> None:
    store = Store(history=2)
    store.create(NODES, {"metadata": {"name": "n"}})
    since = store.rv - 1
    for name in "abcd":
        store.create(PODS, pod(name))
    assert [event.entry.name for event in store.events_since(NODES, since)] == ["n"]


def test_pods_are_found_by_their_node() -> None:
    store = Store()
    entry = store.create(PODS, pod("a"))
    assert store.pods_on("n") == []
    entry = store.update(PODS, entry, pod("a", node="n"))
    assert names(store.pods_on("n")) == ["default/a"]
    entry = store.update(PODS, entry, pod("a", node="m"))
    assert (names(store.pods_on("n")), names(store.pods_on("m"))) == ([], ["default/a"])
    store.delete(PODS, entry)
    assert store.pods_on("m") == []


def test_dependents_follow_their_references() -> None:
    store = Store()
    entry = store.create(PODS, pod("a", ownerReferences=[{"uid": "o"}, {"uid": ""}, {}]))
    assert names(store.dependents("o")) == ["default/a"]
    entry = store.update(PODS, entry, pod("a", ownerReferences=[{"uid": "p"}]))
    assert (store.dependents("o"), names(store.dependents("p"))) == ([], ["default/a"])
    store.delete(PODS, entry)
    assert store.dependents("p") == []


def test_objects_are_found_by_uid_until_they_go() -> None:
    store = Store()
    entry = store.create(PODS, pod("a"))
    assert store.by_uid("u-a") is entry
    store.delete(PODS, entry)
    assert store.by_uid("u-a") is None


def test_nothing_is_written_over_a_version_that_is_not_current() -> None:
    store = Store()
    old = store.create(PODS, pod("a"))
    new = store.update(PODS, old, pod("a", node="n"))
    for call in (lambda: store.update(PODS, old, pod("a")), lambda: store.delete(PODS, old)):
        with pytest.raises(StatusError) as refused:
            call()
        assert refused.value.code == 409
    store.delete(PODS, new)
    with pytest.raises(StatusError) as refused:
        store.update(PODS, new, pod("a"))
    assert refused.value.code == 404


def test_an_object_that_cannot_be_stored_costs_no_version() -> None:
    store = Store()
    before = store.rv
    for bad in (pod("a", annotations={"x": object()}), pod("a", annotations={"x": "y" * MAX_OBJECT_BYTES})):
        with pytest.raises((TypeError, StatusError)):
            store.create(PODS, bad)
    assert store.rv == before and store.count(PODS) == 0
    assert store.create(PODS, pod("a")).rv == before + 1


def test_subscribers_hear_of_every_change_until_they_stop() -> None:
    store, heard = Store(), []

    def note(event: Event) -> None:
        heard.append((event.type, event.entry.name, event.previous is not None))

    stop = store.subscribe(PODS, note)
    entry = store.create(PODS, pod("a"))
    entry = store.update(PODS, entry, pod("a", node="n"))
    store.delete(PODS, entry)
    stop()
    stop()
    store.create(PODS, pod("b"))
    assert heard == [(ADDED, "a", False), (MODIFIED, "a", True), (DELETED, "a", True)]


def test_a_deletion_shows_the_last_state_at_a_new_version() -> None:
    store = Store()
    entry = store.create(PODS, pod("a"))
    gone = store.delete(PODS, entry, pod("a", deletionTimestamp="t"))
    assert gone.rv == entry.rv + 1
    assert gone.object()["metadata"]["deletionTimestamp"] == "t"


def test_an_entry_gives_copies() -> None:
    store = Store()
    entry = store.create(PODS, pod("a", labels={"x": "y"}))
    entry.object()["metadata"]["labels"]["x"] = "z"
    assert entry.object()["metadata"]["labels"] == {"x": "y"} == dict(entry.labels)
    assert (entry.name, entry.namespace, entry.uid) == ("a", "default", "u-a")


def test_fields_that_are_read_on_demand() -> None:
    store = Store()
    event = {"metadata": {"name": "e", "namespace": "default"}, "reason": "Scheduled"}
    entry = store.create(EVENTS, event)
    assert entry.fields is None
    assert (entry.field("reason"), entry.field("metadata.name"), entry.field("nothing")) == ("Scheduled", "e", "")
    node = store.create(NODES, {"metadata": {"name": "n"}})
    assert (node.field("spec.unschedulable"), node.field("metadata.namespace")) == ("false", "")


def test_loading_objects_does_not_notify_subscribers() -> None:
    store, heard = Store(start_rv=100), []
    store.subscribe(PODS, heard.append)
    raw = b'{"metadata":{"name":"a","namespace":"default","uid":"u","resourceVersion":"7"},"spec":{"nodeName":"n"}}'
    store.load(PODS, raw)
    store.load(PODS, raw)
    assert (store.count(PODS), names(store.pods_on("n")), heard, store.rv) == (1, ["default/a"], [], 100)
    entry = store.get(PODS, "default", "a")
    assert entry is not None and entry.rv == 7 and store.by_uid("u") is entry
