"""The store against a plain model, through random histories."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.storage.store import DELETED, Event, Store, StoredEntry
from mooring.controlplane.types.status import StatusError

NAMES = st.sampled_from(["a", "b", "c", "c-d"])
NAMESPACES = st.sampled_from(["x", "x-y", "y"])
NODES = st.sampled_from(["", "n1", "n2"])
OWNERS = st.lists(st.sampled_from(["u1", "u2"]), max_size=2, unique=True)


def pod(namespace: str, name: str, node: str, owners: list[str]) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}/{name}",
            "ownerReferences": [{"uid": uid} for uid in owners],
        },
        "spec": {"nodeName": node},
    }


class StoreMachine(RuleBasedStateMachine):
    """Every view of the store (get, pages, indexes, history, subscribers) tells the same story as the model."""

    entries: Bundle[StoredEntry] = Bundle("entries")

    def __init__(self) -> None:
        super().__init__()
        self.store = Store(history=6)
        self.model: dict[str, dict[str, Any]] = {}
        self.snapshots: dict[int, dict[str, int]] = {self.store.rv: {}}
        self.replica: dict[str, int] = {}
        self.events: list[Event] = []
        self.store.subscribe(PODS, self._see)

    def _see(self, event: Event) -> None:
        self.events.append(event)
        if event.type == DELETED:
            del self.replica[event.entry.key]
        else:
            self.replica[event.entry.key] = event.rv

    def _remember(self) -> None:
        self.snapshots[self.store.rv] = {
            key: int(obj["metadata"]["resourceVersion"]) for key, obj in self.model.items()
        }

    @rule(target=entries, namespace=NAMESPACES, name=NAMES, node=NODES, owners=OWNERS)
    def create(self, namespace: str, name: str, node: str, owners: list[str]) -> Any:
        obj = pod(namespace, name, node, owners)
        key = f"{namespace}/{name}"
        before = self.store.rv
        if key in self.model:
            with pytest.raises(StatusError) as refused:
                self.store.create(PODS, obj)
            assert refused.value.reason == "AlreadyExists" and self.store.rv == before
            return self.store.entry(PODS, key)
        entry = self.store.create(PODS, obj)
        assert entry.rv == self.store.rv == before + 1
        self.model[key] = json.loads(entry.raw)
        self._remember()
        return entry

    @rule(target=entries, entry=consumes(entries), node=NODES, owners=OWNERS)
    def update(self, entry: StoredEntry, node: str, owners: list[str]) -> Any:
        namespace, name = entry.key.split("/")
        obj = pod(namespace, name, node, owners)
        if self.store.entry(PODS, entry.key) is not entry:
            with pytest.raises(StatusError) as refused:
                self.store.update(PODS, entry, obj)
            assert refused.value.code in (404, 409)
            return self.store.entry(PODS, entry.key) or entry
        updated = self.store.update(PODS, entry, obj)
        self.model[entry.key] = json.loads(updated.raw)
        self._remember()
        return updated

    @rule(entry=consumes(entries))
    def delete(self, entry: StoredEntry) -> None:
        if self.store.entry(PODS, entry.key) is not entry:
            with pytest.raises(StatusError):
                self.store.delete(PODS, entry)
            return
        self.store.delete(PODS, entry)
        del self.model[entry.key]
        self._remember()

    @rule(at=st.integers(0, 40), limit=st.integers(1, 3))
    def page_through_the_past(self, at: int, limit: int) -> None:
        at = max(1, self.store.rv - at)
        want = self.snapshots[at]
        start, found = "", {}
        try:
            while True:
                page = self.store.page(PODS, limit=limit, start=start, at=at)
                found.update({entry.key: entry.rv for entry in page.entries})
                if not page.next_key:
                    break
                assert page.remaining == len(want) - len(found)
                start = page.next_key
        except StatusError as gone:
            assert gone.code == 410 and at < self.store.oldest(PODS)
            return
        assert found == want and list(found) == sorted(found)

    @rule(back=st.integers(0, 10))
    def replay_history(self, back: int) -> None:
        since = max(1, self.store.rv - back)
        try:
            events = self.store.events_since(PODS, since)
        except StatusError as gone:
            assert gone.code == 410 and since < self.store.oldest(PODS)
            return
        state = dict(self.snapshots[since])
        for event in events:
            if event.type == DELETED:
                del state[event.entry.key]
            else:
                state[event.entry.key] = event.rv
        assert state == self.replica

    @invariant()
    def views_agree(self) -> None:
        assert {entry.key: entry.object() for entry in self.store.iterate(PODS)} == self.model
        assert self.replica.keys() == self.model.keys()
        for namespace in ("x", "x-y", "y"):
            want = sorted(key for key in self.model if key.startswith(namespace + "/"))
            assert [entry.key for entry in self.store.iterate(PODS, namespace)] == want
        for node in ("n1", "n2"):
            want = sorted(key for key, obj in self.model.items() if obj["spec"]["nodeName"] == node)
            assert sorted(entry.key for entry in self.store.pods_on(node)) == want
        for uid in ("u1", "u2"):
            want = sorted(key for key, obj in self.model.items() if {"uid": uid} in obj["metadata"]["ownerReferences"])
            assert [entry.key for entry in self.store.dependents(uid)] == want


StoreMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestStore = StoreMachine.TestCase
