"""What a scheduler watches and lists, and which listeners are called."""

from __future__ import annotations

import json

import pytest

from mooring.api.errors import ApiError
from mooring.core.framework.cluster_event import EventResource
from mooring.live.informers import connect, kinds_for, load_objects
from mooring.net.connect import HttpAnswer
from mooring.net.errors import Forbidden, NotFound
from mooring.net.extender.wire import RawObjects
from mooring.net.kinds import NODES, POD_GROUPS, PODS, SCHEDULER_KINDS
from mooring.testing import make_pod


class Heard:
    """A listener that records its calls."""

    def __init__(self):
        self.told = []

    def put(self, obj):
        self.told.append(("put", obj.name))

    def update(self, old, new):
        self.told.append(("update", new.name))

    def delete(self, obj):
        self.told.append(("delete", obj.name))


class PaperInformer:
    def __init__(self, kind):
        self.kind, self.handlers = kind, []

    def add_handler(self, put, update, delete):
        self.handlers.append((put, update, delete))


class PaperInformers(dict):
    def add(self, kind):
        return self.setdefault(kind.plural, PaperInformer(kind))


@pytest.mark.parametrize(
    ("resources", "more"),
    [
        pytest.param((), [], id="what kube-scheduler watches"),
        pytest.param((EventResource.NODE,), [], id="nodes are watched anyway"),
        pytest.param((EventResource.POD_GROUP,), [POD_GROUPS], id="pod groups, where a plugin wants them"),
    ],
)
def test_the_kinds_that_are_watched(resources, more):
    assert kinds_for(resources) == [*SCHEDULER_KINDS, *more]


def test_the_listener_receives_every_kind():
    informers, heard = PaperInformers(), Heard()
    connect(informers, heard, resources=(EventResource.POD_GROUP,))
    assert set(informers) == {kind.plural for kind in (*SCHEDULER_KINDS, POD_GROUPS)}
    for informer in informers.values():
        ((put, update, delete),) = informer.handlers
        put(make_pod(informer.kind.plural))
        update(make_pod("old"), make_pod(informer.kind.plural))
        delete(make_pod(informer.kind.plural))
    assert len(heard.told) == 3 * len(informers)


def test_extenders_get_pods_and_nodes_as_they_came_until_those_are_gone():
    informers, heard, raw = PaperInformers(), Heard(), RawObjects()
    connect(informers, heard, raw=raw)
    kept = informers["pods"].kind
    assert kept.decode is not PODS.decode and kept.decode_event is None and kept.share is None
    assert informers["nodes"].kind.decode is not NODES.decode
    assert informers["services"].kind.decode_event is not None
    pod = kept.decode(b'{"metadata":{"name":"web","namespace":"d","uid":"u"},"spec":{"unknown":1}}')
    assert raw.pod_json(pod) == b'{"metadata":{"name":"web","namespace":"d","uid":"u"},"spec":{"unknown":1}}'
    ((_, _, delete),) = informers["pods"].handlers
    delete(pod)
    assert heard.told == [("delete", "web")] and b"unknown" not in raw.pod_json(pod)


class PaperServer:
    """Answers lists, page by page; ``answers`` has bodies or errors by the last part of the path."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    async def get(self, path, query, *, into):
        plural = path.rpartition("/")[2]
        self.asked.append((plural, dict(query)))
        answers = self.answers.get(plural)
        if answers is None:
            return await self._given(into, b'{"items":null}')
        answer = answers[1 if "continue" in query else 0]
        if isinstance(answer, Exception):
            raise answer
        return await self._given(into, answer if isinstance(answer, bytes) else json.dumps(answer).encode())

    @staticmethod
    async def _given(into, body):
        into.begin()
        await into.feed(body)
        return HttpAnswer(200, {}, b"")


async def test_lists_are_read_page_by_page():
    pages = [
        {"metadata": {"continue": "more"}, "items": [{"metadata": {"name": "a"}}]},
        {"metadata": {}, "items": [{"metadata": {"name": "b"}}]},
    ]
    server = PaperServer(nodes=pages)
    assert [obj.name for obj in await load_objects(server)] == ["a", "b"]
    assert [query.get("continue") for plural, query in server.asked if plural == "nodes"] == [None, "more"]
    assert {plural for plural, _ in server.asked} == {kind.plural for kind in SCHEDULER_KINDS}


async def test_a_kind_that_is_not_served_has_no_objects():
    assert await load_objects(PaperServer(resourceclaims=[NotFound("no such kind", code=404)])) == []


async def test_what_may_not_be_read_is_named():
    with pytest.raises(Forbidden, match="nodes"):
        await load_objects(PaperServer(nodes=[Forbidden('cannot list resource "nodes"', code=403)]))


async def test_an_answer_that_is_no_list_is_one_line_with_the_kind():
    with pytest.raises(ApiError, match=r"^pods: "):
        await load_objects(PaperServer(pods=[b"<html>"]))
