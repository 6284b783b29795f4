"""Whatever the order of events, and however often they come, the copy is right and handlers get consistent events."""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.net.informer import Informer
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient
from mooring.net.watch_events import typed_kind


class Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Thing(msgspec.Struct):
    metadata: Meta


KIND = typed_kind("things", "v1", Thing)


@dataclass
class Truth:
    """A server's history: what is, and every event on the way there."""

    version: int = 0
    objects: dict[str, Thing] = field(default_factory=dict)
    events: list[tuple[str, Thing]] = field(default_factory=list)

    def step(self, name: str, remove: bool) -> None:
        old = self.objects.get(name)
        if remove and old is None:
            return
        self.version += 1
        uid = old.metadata.uid if old else f"{name}-{self.version}"
        item = Thing(Meta(name, "default", uid, str(self.version)))
        if remove:
            del self.objects[name]
            self.events.append(("DELETED", item))
        else:
            self.objects[name] = item
            self.events.append(("MODIFIED" if old else "ADDED", item))


class Story:
    """Fails when a handler's events are inconsistent."""

    def __init__(self) -> None:
        self.alive: dict[str, Thing] = {}

    def on_add(self, item: Thing) -> None:
        assert item.metadata.name not in self.alive
        self.alive[item.metadata.name] = item

    def on_update(self, old: Thing, new: Thing) -> None:
        assert self.alive[new.metadata.name] is old
        assert old.metadata.uid == new.metadata.uid
        assert int(new.metadata.resource_version) > int(old.metadata.resource_version)
        self.alive[new.metadata.name] = new

    def on_delete(self, item: Thing) -> None:
        assert self.alive.pop(item.metadata.name).metadata.uid == item.metadata.uid

    def versions(self) -> dict[str, str]:
        return {name: item.metadata.resource_version for name, item in self.alive.items()}


steps = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30)


def informer_and_story() -> tuple[Informer[Thing], Story]:
    informer = Informer(RestClient(ClientConfig(server="http://unused")), KIND)
    story = Story()

    informer.add_handler(story.on_add, story.on_update, story.on_delete)
    # A handler's failure is logged and swallowed; here it must be heard.
    informer._call = lambda function, *arguments: function(*arguments)  # type: ignore[method-assign]
    return informer, story


def finish(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that waits for nothing but its turn: no event loop, no clock."""
    with contextlib.suppress(StopIteration):
        while True:
            work.send(None)


def truth_of(history: list[tuple[str, bool]]) -> Truth:
    truth = Truth()
    for name, remove in history:
        truth.step(name, remove)
    return truth


@settings(max_examples=300)
@given(history=steps, data=st.data())
def test_any_order_with_duplicates_ends_in_the_truth(history, data):
    truth = truth_of(history)
    delivered = data.draw(st.permutations(truth.events + truth.events))
    informer, story = informer_and_story()
    finish(informer.apply(delivered))
    assert story.versions() == {name: item.metadata.resource_version for name, item in truth.objects.items()}
    assert {item.metadata.name for item in informer} == set(truth.objects)


@settings(max_examples=200)
@given(history=steps, data=st.data())
def test_lost_events_are_made_good_by_a_list(history, data):
    truth = truth_of(history)
    lost = data.draw(st.sets(st.integers(0, len(truth.events))))
    kept = [event for number, event in enumerate(truth.events) if number not in lost]
    cut = data.draw(st.integers(0, len(kept)))
    informer, story = informer_and_story()
    finish(informer.apply(kept[:cut]))
    finish(informer.replace(list(truth.objects.values()), str(truth.version)))
    # Late events of before the list change nothing.
    finish(informer.apply(kept))
    assert story.versions() == {name: item.metadata.resource_version for name, item in truth.objects.items()}
