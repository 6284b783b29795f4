"""The page's server: only with the link, and nothing that writes unless the cluster is ours."""

from __future__ import annotations

from urllib.parse import urlsplit

import aiohttp
import msgspec
import pytest

from mooring.show.answers import POLICY, ClusterEditing
from mooring.show.shown import Shown, source_for
from mooring.sim.worlds import EmbeddedWorld, PlaySettings

from .decoding import decode

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec: {containers: [{name: a, image: b}]}
"""


async def ask(link: str, path: str = "", *, method: str = "GET", headers: dict[str, str] | None = None, data: str = ""):
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, link + path, headers=headers or {}, data=data or None) as answer,
    ):
        return answer.status, dict(answer.headers), await answer.read()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        pytest.param("{link}", {}, 200, id="the link is served"),
        pytest.param("{origin}/", {}, 403, id="without a token nothing is served"),
        pytest.param("{origin}/wrong/api/meta", {}, 403, id="a wrong token is refused"),
        pytest.param("{link}api/meta", {"Host": "evil.example"}, 403, id="another host name is refused"),
        pytest.param("{link}api/meta", {"Origin": "http://evil.example"}, 403, id="another origin is refused"),
        pytest.param("{link}api/meta", {"Origin": "null"}, 403, id="an origin that hides itself is refused"),
        pytest.param(
            "{link}api/meta", {"Sec-Fetch-Site": "cross-site"}, 403, id="a request of another site is refused"
        ),
        pytest.param("{link}api/meta", {"Origin": "{origin}"}, 200, id="the page's own origin is admitted"),
        pytest.param("{link}../etc/passwd", {}, 403, id="there is no way out of the link"),
        pytest.param("{link}nothing", {}, 404, id="what is not there is not there"),
        pytest.param("{link}api/why?event=0", {}, 400, id="an event that is no attempt is refused"),
        pytest.param("{link}api/why?event=x", {}, 400, id="an event that is no number is refused"),
        pytest.param("{link}api/columns?have=1,2", {}, 400, id="a reader must name every table"),
        pytest.param("{link}api/columns?record=7", {}, 400, id="a record that is not there is refused"),
    ],
)
async def test_who_is_served(story, serve, path, headers, status):
    async with serve(story("first-placement")) as server:
        parts = urlsplit(server.link)
        names = {"link": server.link, "origin": f"{parts.scheme}://{parts.netloc}"}
        found, given, _ = await ask(
            path.format(**names), headers={name: value.format(**names) for name, value in headers.items()}
        )
    assert found == status
    assert given["Content-Security-Policy"] == POLICY
    assert given["X-Content-Type-Options"] == "nosniff"
    assert given["Referrer-Policy"] == "no-referrer"


async def test_the_server_listens_on_loopback_only(story, serve):
    async with serve(story("first-placement")) as server:
        assert urlsplit(server.link).hostname == "127.0.0.1"


async def test_a_record_that_is_only_shown_has_no_route_that_writes(story, serve):
    async with serve(story("first-placement")) as server:
        assert {method for method, _ in server.routes()} == {"GET"}
        for path in ("api/apply", "api/delete?ref=pod/pod1"):
            status, _, _ = await ask(server.link, path, method="POST", data="kind: Pod")
            assert status == 404


async def test_columns_over_the_wire_are_those_of_the_timeline(story, serve):
    shown = story("preemption")
    async with serve(shown) as server:
        _, _, body = await ask(server.link, "api/columns")
    header, tables = decode(body)
    assert not header["isLive"] and header["whole"]
    assert tables["events"] == shown.timeline.events.columns
    assert tables["podNames"] == shown.timeline.pod_names.values


async def test_a_live_cluster_is_read_while_it_grows_and_edited_with_the_servers_words(serve):
    source = source_for(None)
    settings = PlaySettings(level=0, write=lambda line: None, observers=(source.recorder,))
    async with (
        EmbeddedWorld(settings) as world,
        serve(Shown("live", source), editing=ClusterEditing(world.cluster, world.scheduler)) as server,
    ):
        _, _, body = await ask(server.link, "api/columns")
        header, _ = decode(body)
        assert header["isLive"]
        _, _, body = await ask(server.link, "api/meta")
        order, rows = (
            msgspec.json.decode(body)["records"][0]["tables"],
            {each["table"]: each["rows"] for each in header["tables"]},
        )
        have = ",".join(str(rows[name]) for name in order)
        status, _, body = await ask(server.link, "api/apply", method="POST", data=MANIFEST)
        assert (status, body) == (200, b'{"applied":["pod/web"]}')
        _, _, body = await ask(server.link, f"api/columns?have={have}")  # waits until something happens
        assert "default/web" in decode(body)[1]["podNames"]
        status, _, body = await ask(
            server.link, "api/apply", method="POST", data=MANIFEST.replace("name: web", "name: Web_1")
        )
        assert status == 400 and b'Pod \\"Web_1\\" is invalid: metadata.name' in body
        status, _, body = await ask(server.link, "api/manifest?ref=pod/web")
        assert status == 200 and b"image: b" in body and b"managedFields" not in body
        status, _, _ = await ask(server.link, "api/delete?ref=pod/web", method="POST")
        assert status == 200
        status, _, body = await ask(server.link, "api/delete?ref=pod/nothing", method="POST")
        assert status == 400 and b"there is no such object" in body


@pytest.mark.parametrize(
    ("question", "status", "text"),
    [
        pytest.param("lose=node1", 200, b'"lost":[0]', id="a node that is lost"),
        pytest.param("lose=topology.kubernetes.io/zone=a", 200, b'"lost":[0,3]', id="a zone that is lost"),
        pytest.param("lose=nothing", 400, b"no node is 'nothing'", id="a node that is not there"),
        pytest.param("cordon=node1", 200, b'"why":{"pod":"default/', id="a node that is cordoned"),
        pytest.param("add=2&like=node1", 200, b'"added":["node1-1","node1-2"]', id="two nodes more"),
        pytest.param("add=many&like=node1", 400, b"expected a number from 1 to 100", id="a number that is none"),
        pytest.param("wish=1", 400, b"expected lose, drain, cordon, add, weight or try", id="a question that is none"),
        pytest.param("drain=node1", 200, b'"stays":true', id="a node that is drained"),
        pytest.param("drain=nothing", 400, b"drain: no node is 'nothing'", id="a drained node that is not there"),
        pytest.param("weight=NodeResourcesFit:5", 200, b'"asked":"all"', id="another weight"),
        pytest.param("weight=NodeResourcesFit:0", 400, b"expected a number from 1 to 100", id="a weight that is none"),
        pytest.param(
            "weight=Nothing:2", 400, b"no score plugin 'Nothing'; expected one of", id="a plugin that is none"
        ),
    ],
)
async def test_what_if(story, serve, question, status, text):
    shown = story("zone-spread")
    async with serve(shown) as server:
        event = shown.timeline.attempt_events[-1]
        found, _, body = await ask(server.link, f"api/what-if?event={event}&{question}")
    assert found == status
    assert text in body


async def test_losing_a_zone_says_what_the_drill_says(story, serve):
    from mooring.ask.drill import lose
    from mooring.ask.scheduler import Scheduler

    shown = story("zone-spread")
    event = shown.timeline.attempt_events[-1]
    moment = shown.moment(event)()
    expected = lose(Scheduler(moment.cluster, moment.config).session.fork(), ("a",), ["node1", "node4"])
    async with serve(shown) as server:
        _, _, body = await ask(server.link, f"api/what-if?event={event}&lose=topology.kubernetes.io/zone=a")
    found = msgspec.json.decode(body)
    names = shown.timeline.nodes.values
    assert {pod: names[row] for pod, row in found["placed"].items()} == expected.replaced
    assert found["unplaced"] == expected.unplaced
