"""The writer: what it does when the API server's answer is not a plain yes."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from mooring.api.core import Pod
from mooring.api.meta import ObjectMeta
from mooring.api.storage import PersistentVolumeClaim
from mooring.client.errors import Conflict, ConnectionFailed, NotFound, ServerError
from mooring.client.pool import Answer
from mooring.scheduler.writer import ApiWriter
from mooring.state.cluster import Cluster


class FakeClient:
    """Answers requests from a script: a value is the body, an exception is raised."""

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
            return Answer(200, {}, json.dumps(answer).encode())

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


BROKEN = ConnectionFailed("POST to server: the server closed the connection")
NOBODY = ConnectionFailed("cannot connect to server: refused")
TAKEN = Conflict("already assigned", code=409)


@pytest.mark.parametrize(
    ("answers", "looks"),
    [
        pytest.param([{}], 0, id="a plain yes"),
        pytest.param([BROKEN], 1, id="no answer, but it was carried out"),
        pytest.param([TAKEN], 1, id="a conflict with our own earlier request"),
    ],
)
async def test_a_pod_is_bound(answers, looks):
    client = FakeClient(create=answers, get=[stored("a")])
    await make_writer(client, make_pod()).bind(Cluster().info(make_pod()), "a")
    assert [verb for verb, *_ in client.sent] == ["create"] + ["get"] * looks


@pytest.mark.parametrize(
    ("failure", "found", "error"),
    [
        pytest.param(BROKEN, [stored("")], ConnectionFailed, id="no answer, and it was not carried out"),
        pytest.param(BROKEN, [ServerError("x", code=500), stored("")], ConnectionFailed, id="asked until one answers"),
        pytest.param(BROKEN, [stored("b")], Conflict, id="no answer, and it is somewhere else"),
        pytest.param(BROKEN, [stored("a", uid="other")], NotFound, id="no answer, and it is another pod by now"),
        pytest.param(BROKEN, [NotFound("gone", code=404)], NotFound, id="no answer, and it is gone"),
        pytest.param(TAKEN, [stored("")], Conflict, id="a conflict without a reason"),
        pytest.param(TAKEN, [stored("b")], Conflict, id="somebody else was faster"),
        pytest.param(ServerError("x", code=500), [], ServerError, id="a server error is not looked into"),
        pytest.param(NOBODY, [], ConnectionFailed, id="nothing was sent, so nothing has happened"),
    ],
)
async def test_a_pod_is_not_bound(failure, found, error):
    client = FakeClient(create=[failure], get=found)
    with pytest.raises(error):
        await make_writer(client, make_pod()).bind(Cluster().info(make_pod()), "a")
    assert not client.script["get"]


async def test_what_the_watch_knows_already_need_not_be_asked():
    client = FakeClient(create=[BROKEN])
    await make_writer(client, make_pod("a")).bind(Cluster().info(make_pod()), "a")
    assert [verb for verb, *_ in client.sent] == ["create"]


@pytest.mark.parametrize(
    ("failures", "tries"),
    [
        pytest.param([Conflict("x", code=409)] * 2, 3, id="conflicts are repeated"),
        pytest.param([ServerError("x", code=503), NOBODY], 3, id="so are troubled servers and nobody home"),
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
    ],
)
async def test_a_status_patch_is_given_up(failures, tries):
    client = FakeClient(patch=failures)
    with pytest.raises((Conflict, NotFound, ConnectionFailed)):
        await make_writer(client).patch_pod_status("d", "p", {"status": {}})
    assert len(client.sent) == tries


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
