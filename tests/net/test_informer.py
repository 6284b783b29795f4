"""The informer alone: what handlers get of the events that a watch delivers. No server, no clock."""

from __future__ import annotations

import gc

import msgspec
import pytest

from mooring.api.memory import frozen_gc
from mooring.net import informer as informer_module
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


def thing(name: str, version: int | str, uid: str = "u") -> Thing:
    return Thing(Meta(name, "d", uid, str(version)))


class Heard(list[str]):
    """A handler that records its events: + added, ~ updated, - deleted, each with the version."""

    def on_add(self, item: Thing) -> None:
        self.append(f"+{item.metadata.name}{item.metadata.resource_version}")

    def on_update(self, old: Thing, new: Thing) -> None:
        self.append(f"~{new.metadata.name}{old.metadata.resource_version}>{new.metadata.resource_version}")

    def on_delete(self, item: Thing) -> None:
        self.append(f"-{item.metadata.name}{item.metadata.resource_version}")


@pytest.fixture
def informer() -> Informer[Thing]:
    return Informer(RestClient(ClientConfig(server="http://unused")), typed_kind("things", "v1", Thing))


@pytest.fixture
def heard(informer) -> Heard:
    heard = Heard()
    informer.add_handler(heard.on_add, heard.on_update, heard.on_delete)
    return heard


ADD, CHANGE, DELETE = "ADDED", "MODIFIED", "DELETED"


@pytest.mark.parametrize(
    ("events", "lines"),
    [
        pytest.param([(ADD, thing("a", 1)), (CHANGE, thing("a", 2)), (DELETE, thing("a", 3))],
                     ["+a1", "~a1>2", "-a3"], id="a whole life"),
        pytest.param([(ADD, thing("a", 1)), (ADD, thing("a", 1))], ["+a1"], id="an event that comes twice"),
        pytest.param([(ADD, thing("a", 5)), (CHANGE, thing("a", 3))], ["+a5"], id="an old event after a newer one"),
        pytest.param([(CHANGE, thing("a", 2))], ["+a2"], id="a change of what is not known is an add"),
        pytest.param([(ADD, thing("a", 1)), (ADD, thing("a", 2))], ["+a1", "~a1>2"],
                     id="an add of what is known is an update"),
        pytest.param([(DELETE, thing("a", 2))], [], id="a delete of what is not known"),
        pytest.param([(DELETE, thing("a", 3)), (ADD, thing("a", 2))], [], id="an add that its delete has overtaken"),
        pytest.param([(ADD, thing("a", 5)), (DELETE, thing("a", 3))], ["+a5"], id="a delete of an earlier life"),
        pytest.param([(ADD, thing("a", 1)), (DELETE, thing("a", 2)), (ADD, thing("a", 3, "v"))],
                     ["+a1", "-a2", "+a3"], id="deleted and made again"),
        pytest.param([(ADD, thing("a", 1)), (ADD, thing("a", 3, "v"))], ["+a1", "-a1", "+a3"],
                     id="another object of the same name, without a word of the delete"),
        pytest.param([(ADD, thing("a", "")), (CHANGE, thing("a", ""))], ["+a", "~a>"],
                     id="without versions every event counts"),
        pytest.param([(ADD, thing("a", "x9")), (CHANGE, thing("a", "x1"))], ["+ax9", "~ax9>x1"],
                     id="versions that are no numbers are not compared"),
    ],
)  # fmt: skip
async def test_what_handlers_hear_of_events(informer, heard, events, lines):
    await informer.apply(events)
    assert heard == lines


@pytest.mark.parametrize(
    ("known", "listed", "lines"),
    [
        pytest.param([], [thing("a", 1)], ["+a1"], id="what is new"),
        pytest.param([thing("a", 1)], [thing("a", 1)], [], id="what has not changed"),
        pytest.param([thing("a", 1)], [thing("a", 4)], ["~a1>4"], id="what has changed meanwhile"),
        pytest.param([thing("a", 1)], [], ["-a1"], id="what has gone meanwhile"),
        pytest.param([thing("a", 1)], [thing("a", 4, "v")], ["-a1", "+a4"], id="deleted and recreated"),
        pytest.param([thing("a", 9)], [thing("a", 4)], ["~a9>4"], id="a server that was restored from a backup"),
        pytest.param([thing("a", 1), thing("b", 2)], [thing("c", 3), thing("b", 2)], ["+c3", "-a1"],
                     id="adds come before deletes"),
    ],
)  # fmt: skip
async def test_what_handlers_hear_of_a_list(informer, heard, known, listed, lines):
    await informer.apply([(ADD, item) for item in known])
    heard.clear()
    assert not informer.has_synced
    await informer.replace(listed, "10")
    assert heard == lines
    assert informer.has_synced
    assert {item.metadata.name for item in informer} == {item.metadata.name for item in listed}


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        pytest.param((ADD, thing("a", 9)), [], id="an add of before the list"),
        pytest.param((ADD, thing("a", 11)), ["+a11"], id="an add of after the list"),
        pytest.param((DELETE, thing("a", 9)), [], id="a delete of before the list"),
    ],
)
async def test_events_older_than_the_list_are_ignored(informer, heard, event, lines):
    await informer.replace([], "10")
    await informer.apply([event])
    assert heard == lines


async def test_a_few_deletes_are_remembered_and_not_all(informer, heard, monkeypatch):
    monkeypatch.setattr(informer_module, "TOMBSTONES", 2)
    await informer.apply([(DELETE, thing(name, 5)) for name in "abc"])
    await informer.apply([(ADD, thing(name, 4)) for name in "abc"])
    assert heard == ["+a4"], "the oldest is forgotten"


async def test_handlers_may_leave_out_what_they_do_not_want(informer):
    informer.add_handler()
    await informer.apply([(ADD, thing("a", 1)), (CHANGE, thing("a", 2)), (DELETE, thing("a", 3))])
    assert len(informer) == 0


async def test_a_handler_that_fails_costs_only_its_event(informer, caplog):
    heard = Heard()

    def fail(*items: Thing) -> None:
        raise RuntimeError("handler broke")

    informer.add_handler(fail, fail, fail)
    informer.add_handler(heard.on_add, heard.on_update, heard.on_delete)
    await informer.apply([(ADD, thing("a", 1)), (CHANGE, thing("a", 2)), (DELETE, thing("a", 3))])
    assert heard == ["+a1", "~a1>2", "-a3"]
    assert caplog.text.count("things: a handler failed on d/a") == 3


async def test_a_late_handler_receives_existing_objects(informer):
    await informer.apply([(ADD, thing("a", 1)), (ADD, thing("b", 2))])
    heard = Heard()
    informer.add_handler(heard.on_add)
    assert heard == ["+a1", "+b2"]


@pytest.mark.parametrize(
    ("meta", "key"),
    [
        pytest.param(Meta("a", "d", "u", "1"), "d/a", id="in a namespace"),
        pytest.param(Meta("n1", "", "u", "1"), "n1", id="of the whole cluster"),
    ],
)
async def test_objects_are_found_by_key(informer, meta, key):
    await informer.apply([(ADD, Thing(meta))])
    assert informer.get(key).metadata is meta
    assert informer.get("no/such") is None


async def test_many_events_give_others_a_turn(informer, monkeypatch):
    """With slices of no length every sixteenth event lets the loop run."""
    monkeypatch.setattr(informer_module, "SLICE_S", 0.0)
    work, turns = informer.apply([(ADD, thing(f"t{i}", i + 1)) for i in range(64)]), 0
    try:
        while True:
            work.send(None)
            turns += 1
    except StopIteration:
        pass
    assert (turns, len(informer)) == (4, 64)


def test_the_collector_rests_and_what_has_come_is_frozen():
    before = gc.get_freeze_count()
    try:
        with frozen_gc():
            assert not gc.isenabled()
            kept = [[i] for i in range(1000)]
        assert gc.isenabled()
        assert gc.get_freeze_count() >= before + len(kept)
    finally:
        if not before:
            gc.unfreeze()


async def test_a_list_beside_the_watch_adds_what_the_watch_has_not_delivered(informer, heard):
    await informer.replace([thing("a", 1), thing("b", 2), thing("c", 3)], "3")
    await informer.apply([(CHANGE, thing("c", 9))])  # the watch is ahead of the list here, and behind it elsewhere
    heard.clear()
    await informer.merge([thing("a", 5), thing("c", 6), thing("d", 7)], "8")
    assert heard == ["~a1>5", "+d7", "-b2"]
    heard.clear()
    late = [(CHANGE, thing("a", 4)), (CHANGE, thing("b", 6)), (DELETE, thing("b", 7)), (ADD, thing("d", 7))]
    await informer.apply(late)
    assert heard == [], "what the watch says late is known already"


async def test_a_small_kind_catches_up_by_a_list(informer, heard, monkeypatch):
    async def listed():
        return [thing("a", 5)], "8"

    monkeypatch.setattr(informer.reflector, "list_now", listed)
    await informer.replace([thing("a", 1)], "1")
    await informer.catch_up()
    assert heard == ["+a1", "~a1>5"]


async def test_a_large_kind_has_caught_up_when_its_watch_has_passed_the_newest_version(informer, monkeypatch):
    async def newest():
        return "8"

    async def never():
        raise AssertionError("it need not be listed")

    monkeypatch.setattr(informer_module, "SMALL", 0)
    monkeypatch.setattr(informer.reflector, "version_now", newest)
    monkeypatch.setattr(informer.reflector, "list_now", never)
    await informer.replace([thing("a", 8)], "8")
    informer.reflector.last_version = "8"
    await informer.catch_up()
