"""The writer: what it does when the API server's answer is not a plain yes."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from mooring.api.core import Pod
from mooring.api.meta import ObjectMeta
from mooring.api.storage import PersistentVolumeClaim
from mooring.core.state.cluster import ClusterState
from mooring.live.writer import ApiWriter
from mooring.net.connect import HttpAnswer
from mooring.net.errors import (
    Conflict,
    ConnectionFailed,
    Fenced,
    Forbidden,
    NotFound,
    RequestTimeout,
    ServerError,
    TooManyRequests,
    Unreachable,
)


class FakeClient:
    """Answers requests from a script: a value is the body as JSON, a text the body itself, an exception is raised."""

    def __init__(self, **script):
        self.script = {verb: list(answers) for verb, answers in script.items()}
        self.sent = []

    def __getattr__(self, verb):
        async def call(path, body=b"", **more):
            self.sent.append((verb, path, json.loads(body) if body else None))
            answers = self.script.get(verb)
            answer = answers.pop(0) if answers else {}
            if isinstance(answer, Exception):
                raise answer
            return HttpAnswer(200, {}, answer.encode() if isinstance(answer, str) else json.dumps(answer).encode())

        return call


def make_pod(node="", uid="u"):
    pod = Pod(metadata=ObjectMeta(name="p", namespace="d", uid=uid))
    pod.spec.node_name = node
    return pod


def stored(node="", uid="u"):
    return {"metadata": {"name": "p", "namespace": "d", "uid": uid}, "spec": {"nodeName": node}}


async def _no_sleep(seconds):
    return None


def make_writer(client, known=None):
    pods = {} if known is None else {"d/p": known}
    return ApiWriter(client, SimpleNamespace(record=None), pods, sleep=_no_sleep)


NOBODY = Unreachable("cannot connect to server: refused")
DISTRUSTED = ConnectionFailed("the server's certificate is not trusted", was_sent=False)
NOT_IN_TIME = RequestTimeout("cannot connect to server: no answer in time", was_sent=False)
BROKEN = ConnectionFailed("POST to server: the server closed the connection", was_sent=True)
SILENT = RequestTimeout("no answer from server in time", was_sent=True)
TAKEN = Conflict("already assigned", code=409)
TROUBLED = ServerError("etcdserver: request timed out", code=500)
ABSENT = NotFound("gone", code=404)
REFUSED = Forbidden("may not create pods/binding", code=403)
FENCED = Fenced()
BUSY = TooManyRequests("come back later", code=429)

# A Binding that may have been carried out: each of these is followed by a look at the pod.
OPEN = {
    "the connection broke": BROKEN,
    "no answer came in time": SILENT,
    "the server had a problem": TROUBLED,
    "there is a conflict": TAKEN,
}
# A Binding that was certainly not carried out: each of these is the result.
CLEAR = {
    "connection refused": NOBODY,
    "the server is not trusted": DISTRUSTED,
    "no connection came about in time": NOT_IN_TIME,
    "the server refuses it": REFUSED,
    "the server is busy": BUSY,
    "the pod is gone": ABSENT,
}


def table(failures):
    return [pytest.param(failure, id=name) for name, failure in failures.items()]


async def bind(client, known):
    await make_writer(client, known).bind(ClusterState().info(make_pod()), "a")


async def test_a_plain_yes_is_believed():
    client = FakeClient(create=[{}])
    await bind(client, make_pod())
    assert [verb for verb, *_ in client.sent] == ["create"]


@pytest.mark.parametrize("failure", table(CLEAR))
async def test_a_binding_that_was_not_carried_out_has_failed(failure):
    client = FakeClient(create=[failure])
    with pytest.raises(type(failure)) as caught:
        await bind(client, make_pod())
    assert caught.value is failure
    assert [verb for verb, *_ in client.sent] == ["create"]


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        pytest.param([stored("a")], None, id="it was carried out"),
        pytest.param([stored("b")], Conflict, id="another node has it"),
        pytest.param([stored("a", uid="other")], NotFound, id="it is another pod by now"),
        pytest.param([ABSENT], NotFound, id="it is gone"),
        pytest.param([TROUBLED, NOBODY, BROKEN, "not a pod", stored("a")], None, id="asked until one answers yes"),
    ],
)
@pytest.mark.parametrize("failure", table(OPEN))
async def test_a_binding_that_may_have_been_carried_out_is_looked_up(failure, found, outcome):
    client = FakeClient(create=[failure], get=found)
    if outcome is None:
        await bind(client, make_pod())
    else:
        with pytest.raises(outcome):
            await bind(client, make_pod())
    assert [verb for verb, *_ in client.sent] == ["create"] + ["get"] * len(found), "sent once, looked up until known"


NO, YES = stored(""), stored("a")


@pytest.mark.parametrize(
    ("failures", "found", "sent", "outcome"),
    [
        pytest.param([BROKEN], [NO], "post look post", None, id="the connection broke"),
        pytest.param([SILENT], [NO], "post look post", None, id="no answer came in time"),
        pytest.param([TROUBLED], [NO], "post look post", None, id="the server had a problem"),
        pytest.param([SILENT], [TROUBLED, NO], "post look look post", None, id="asked until one says no"),
        pytest.param([TAKEN], [NO], "post look", TAKEN, id="a conflict is an answer"),
        pytest.param([BROKEN, TAKEN], [NO, YES], "post look post look", None, id="the first one came first"),
        pytest.param([BROKEN, TAKEN], [NO, NO], "post look post look post", None, id="a conflict, the first not here"),
        pytest.param([BROKEN, NOBODY], [NO, NO], "post look post look post", None, id="then nothing listens"),
        pytest.param([BROKEN, BUSY], [NO, NO], "post look post look post", None, id="then the server is busy"),
        pytest.param([BROKEN, FENCED], [NO], "post look post", FENCED, id="then the lease is lost"),
        pytest.param([BROKEN] * 4, [NO] * 4 + [YES], "post look " * 4 + "look", None, id="there at the last look"),
        pytest.param([BROKEN] * 4, [NO] * 5, "post look " * 4 + "look", BROKEN, id="four times at most"),
    ],
)
async def test_a_binding_that_may_be_on_its_way_is_sent_again_to_the_same_node(failures, found, sent, outcome):
    client = FakeClient(create=[*failures, {}], get=found)
    if outcome is None:
        await bind(client, make_pod())
    else:
        with pytest.raises(type(outcome)) as caught:
            await bind(client, make_pod())
        assert caught.value is outcome
    assert [{"create": "post", "get": "look"}[verb] for verb, *_ in client.sent] == sent.split()
    assert len({str(rest) for verb, *rest in client.sent if verb == "create"}) == 1


@pytest.mark.parametrize(
    ("failures", "found", "tries"),
    [
        pytest.param([TROUBLED], [], 2, id="after a 500"),
        pytest.param([NOBODY, NOBODY, NOBODY], [], 4, id="four times at most"),
        pytest.param([TROUBLED, TAKEN], [stored("a")], 2, id="the first one was carried out after all"),
    ],
)
async def test_since_1_37_a_binding_is_sent_again(failures, found, tries):
    client = FakeClient(create=[*failures, {}], get=found)
    writer = ApiWriter(client, SimpleNamespace(record=None), {"d/p": make_pod()}, sleep=_no_sleep, retries_binding=True)
    await writer.bind(SimpleNamespace(pod=make_pod()), "a")
    assert [verb for verb, *_ in client.sent] == ["create"] * tries + ["get"] * len(found)


@pytest.mark.parametrize("failure", [REFUSED, BUSY], ids=["not allowed", "too many requests"])
async def test_a_binding_is_not_sent_again_where_that_would_not_help(failure):
    client = FakeClient(create=[failure])
    writer = ApiWriter(client, SimpleNamespace(record=None), {}, sleep=_no_sleep, retries_binding=True)
    with pytest.raises(type(failure)):
        await writer.bind(SimpleNamespace(pod=make_pod()), "a")
    assert len(client.sent) == 1


async def test_what_the_watch_knows_already_need_not_be_asked():
    client = FakeClient(create=[BROKEN])
    await bind(client, make_pod("a"))
    assert [verb for verb, *_ in client.sent] == ["create"]


@pytest.mark.parametrize(
    ("failures", "tries"),
    [
        pytest.param([Conflict("x", code=409)] * 2, 3, id="conflicts are repeated"),
        pytest.param([ServerError("x", code=503), NOBODY], 3, id="so are 5xx errors and unreachable servers"),
    ],
)
async def test_a_status_patch_is_repeated(failures, tries):
    client = FakeClient(patch=[*failures, {}])
    await make_writer(client).patch_pod_status("d", "p", {"status": {}})
    assert len(client.sent) == tries


@pytest.mark.parametrize(
    ("failures", "tries"),
    [
        pytest.param([Conflict("x", code=409)] * 9, 4, id="four times in all"),
        pytest.param([NotFound("x", code=404)], 1, id="a pod that is gone is not patched again"),
        pytest.param([BROKEN], 1, id="nor one that may have been patched"),
        pytest.param([SILENT], 1, id="nor one whose answer did not come in time"),
        pytest.param([DISTRUSTED], 1, id="nor when the server is not trusted"),
        pytest.param([NOT_IN_TIME], 1, id="nor after a connection did not come about in time"),
        pytest.param([BUSY], 1, id="nor when the server is busy"),
    ],
)
async def test_a_status_patch_is_given_up(failures, tries):
    client = FakeClient(patch=failures)
    with pytest.raises(type(failures[0])):
        await make_writer(client).patch_pod_status("d", "p", {"status": {}})
    assert len(client.sent) == tries


@pytest.mark.parametrize(
    ("now", "want"),
    [
        pytest.param({"metadata": {"name": "p", "uid": "another"}}, NotFound, id="another pod has its name"),
        pytest.param(NotFound("gone", code=404), NotFound, id="it is gone by now"),
        pytest.param({"metadata": {"name": "p", "uid": "u"}}, Conflict, id="it is there"),
    ],
)
async def test_what_a_conflict_says_of_a_victim(now, want):
    client = FakeClient(delete=[Conflict("x", code=409)], get=[now])
    with pytest.raises(want):
        await make_writer(client).delete_pod(make_pod())


@pytest.mark.parametrize(
    ("failures", "tries"),
    [
        pytest.param([BROKEN], 2, id="its connection broke"),
        pytest.param([SILENT, TROUBLED], 3, id="no answer came, and then an error"),
    ],
)
async def test_a_delete_that_may_be_on_its_way_is_sent_again(failures, tries):
    client = FakeClient(delete=list(failures))
    await make_writer(client).delete_pod(make_pod())
    assert client.sent == [client.sent[0]] * tries


@pytest.mark.parametrize("failure", [NOBODY, REFUSED, Fenced()])
async def test_a_delete_that_is_known_to_have_failed_is_not_sent_again(failure):
    client = FakeClient(delete=[failure])
    with pytest.raises(type(failure)):
        await make_writer(client).delete_pod(make_pod())
    assert len(client.sent) == 1


async def test_a_claim_is_written_whole_with_the_version_that_was_decided_on():
    now = {
        "metadata": {"name": "c", "namespace": "d", "resourceVersion": "9", "managedFields": [{}]},
        "spec": {"unknownToUs": True},
    }
    client = FakeClient(get=[now], update=[now])
    result = await make_writer(client).update(
        PersistentVolumeClaim, "d/c", "7", lambda obj: obj["metadata"].update(annotations={"k": "v"})
    )
    (_, path, body) = client.sent[-1]
    assert path == "/api/v1/namespaces/d/persistentvolumeclaims/c"
    assert body == {
        "metadata": {"name": "c", "namespace": "d", "resourceVersion": "7", "annotations": {"k": "v"}},
        "spec": {"unknownToUs": True},
    }
    assert result.name == "c"


AT_7, AT_8 = ({"metadata": {"name": "c", "namespace": "d", "resourceVersion": version}} for version in "78")


@pytest.mark.parametrize(
    ("failures", "found", "sent", "outcome"),
    [
        pytest.param([BROKEN], [], "patch patch", None, id="the first one did not arrive"),
        pytest.param([TROUBLED, SILENT], [], "patch patch patch", None, id="nor the second"),
        pytest.param([BROKEN, TAKEN], [], "patch patch", Conflict, id="the first one was carried out after all"),
        pytest.param([BROKEN] * 4, [AT_8], "patch patch patch patch get", Conflict, id="found out by looking"),
        pytest.param(
            [BROKEN] * 4, [SILENT, AT_8], "patch patch patch patch get get", Conflict, id="retried until answered"
        ),
        pytest.param([BROKEN] * 4, [AT_7], "patch patch patch patch get", ConnectionFailed, id="none was carried out"),
        pytest.param([BROKEN] * 4, [ABSENT], "patch patch patch patch get", NotFound, id="the claim is gone"),
        pytest.param([BROKEN, FENCED], [], "patch patch", Fenced, id="the lease is lost"),
        pytest.param([NOBODY], [], "patch", Unreachable, id="nothing was sent"),
        pytest.param([REFUSED], [], "patch", Forbidden, id="not allowed"),
    ],
)
async def test_a_patch_of_a_claim_is_sent_until_it_is_known_what_became_of_it(failures, found, sent, outcome):
    client = FakeClient(patch=[*failures, AT_8], get=found)
    patch = {"metadata": {"resourceVersion": "7"}, "status": {}}
    if outcome is None:
        assert (await make_writer(client).patch_claim("d", "c", patch)).metadata.resource_version == "8"
    else:
        with pytest.raises(outcome):
            await make_writer(client).patch_claim("d", "c", patch)
    assert [verb for verb, *_ in client.sent] == sent.split()


def test_writers_of_one_claim_take_turns_and_nothing_is_kept_of_it():
    writer = ApiWriter(FakeClient(), None, {})
    turn = writer.turn("d/shared")
    assert writer.turn("d/shared") is turn
    assert writer.turn("d/other") is not turn
    del turn
    assert not writer._turns


async def test_annotations_go_with_the_binding():
    client = FakeClient(create=[{}])
    writer = ApiWriter(client, SimpleNamespace(record=None), {}, sleep=_no_sleep)
    await writer.bind(SimpleNamespace(pod=make_pod()), "a", {"gpu": "3"})
    assert client.sent[0][2]["metadata"]["annotations"] == {"gpu": "3"}
