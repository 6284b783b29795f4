"""``mooring capacity``, ``drill`` and ``plan``: exit codes, formats, mistakes, records, live clusters."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.api.codec import to_plain
from mooring.api.meta import Object
from mooring.ask.drill import lose
from mooring.cli.main import run
from mooring.controlplane.server import ControlPlane
from mooring.net.kubeconfig import find_config
from mooring.net.rest import RestClient
from mooring.testing import make_node, make_pod

EXAMPLES = Path(__file__).parents[2] / "examples"
SHOP = f"--cluster {EXAMPLES}/what-if/cluster.yaml"
WEB = f"{EXAMPLES}/what-if/more.yaml"
CATALOGUE = f"{EXAMPLES}/catalogue.csv"


def said(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = run(command.split())
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("command", "code", "headline"),
    [
        pytest.param(f"capacity {SHOP} --pod shop/batch-b", 0, "4 more shop/batch-b fit, on 3 nodes", id="some fit"),
        pytest.param(f"capacity {SHOP} --pod {WEB}", 0, "1 more shop/web-xxxxx fits, on 1 node", id="one fits"),
        pytest.param(
            f"capacity {SHOP} --pod {WEB} --copies 2", 1, "1 of 2 shop/web-xxxxx fits, on 1 node", id="too few fit"
        ),
        pytest.param(f"capacity {SHOP} --pod shop/batch-a", 1, "0 more shop/batch-a fit", id="none fits"),
        pytest.param(f"drill {SHOP}", 1, "Not safe: losing 2 of 4 nodes does harm", id="not safe"),
        pytest.param(f"drill {SHOP} --lose north-1", 0, "Losing north-1 does no harm", id="safe"),
        pytest.param(f"plan {SHOP}", 0, "No pods need a place", id="nothing waits"),
        pytest.param(
            f"plan {SHOP} --pod shop/web-a=2", 0, "Add 1 node for 1: then there is room for 2 pods", id="a plan"
        ),
        pytest.param(
            f"consolidate {SHOP}", 0, "1 node can be removed with 1 move. No plan removes more.", id="a consolidation"
        ),
        pytest.param(
            f"optimise {SHOP}", 0, "A better placement frees 1 of 4 nodes, with 1 move", id="a better placement"
        ),
        pytest.param(f"optimise {SHOP} --pending", 1, "No better placement was found", id="nothing is pending"),
    ],
)
def test_exit_codes_and_first_lines(command: str, code: int, headline: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, out, err = said(command, capsys)
    assert (found, out.splitlines()[0], err) == (code, headline, "")


@pytest.mark.parametrize("command", ["capacity --pod shop/web-a", "drill", "plan", "consolidate", "optimise"])
def test_yaml_and_json_say_the_same(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    from mooring.api import yaml

    _, as_json, _ = said(f"{command} {SHOP} -o json", capsys)
    _, as_yaml, _ = said(f"{command} {SHOP} -o yaml", capsys)
    assert json.loads(as_json) == yaml.load(as_yaml)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        pytest.param(f"capacity {SHOP}", "Missing option '--pod'; see mooring capacity --help", id="no pod"),
        pytest.param(
            f"capacity {SHOP} --pod shop/web-a=x", "--pod shop/web-a=x: the share 'x' is no number", id="a share"
        ),
        pytest.param(f"capacity {SHOP} --pod shop/wb-a", "did you mean shop/web-a?", id="a pod that is not there"),
        pytest.param(f"capacity {SHOP} --kubeconfig x --pod a", "--cluster means a dump", id="two clusters"),
        pytest.param(f"drill {SHOP} --lose nort-1", "did you mean north-1?", id="a node that is not there"),
        pytest.param(f"drill {SHOP} --plugin nope.py", "there is no file nope.py", id="a plugin that is not there"),
        pytest.param(f"plan {SHOP} --types nope.yaml", "nope.yaml: no such file", id="types that are not there"),
        pytest.param(f"plan {SHOP} --spot", "expected a catalogue", id="spot nodes of no catalogue"),
        pytest.param(
            f"plan {SHOP} --no-cluster --catalogue {CATALOGUE} --pod x",
            "--no-cluster excludes --cluster",
            id="no cluster and one",
        ),
        pytest.param("plan --no-cluster", "give --pod, and --types or --catalogue", id="neither cluster nor nodes"),
        pytest.param(f"optimise {SHOP} --for cost", "cost needs prices", id="cost without prices"),
        pytest.param(f"optimise {SHOP} --prices nope.yaml", "prices belong to the objective cost", id="only prices"),
        pytest.param(
            f"consolidate {SHOP} --prices nope.yaml", "nope.yaml: no such file", id="prices that are not there"
        ),
        pytest.param(f"optimise {SHOP} --time-limit nan", "is not a number", id="a time that is no number"),
        pytest.param(
            f"optimise {SHOP} --pending --for spread", "--pending only places pods", id="pending and something else"
        ),
        pytest.param(f"plan {SHOP} --pod shop/web-a=0", "'0' is no number of copies", id="no copies"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(command: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(command, capsys)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert line in err


def test_nodes_are_bought_from_a_catalogue_where_there_is_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(f"plan --no-cluster --catalogue {CATALOGUE} --spot --zone a --pod {WEB}=2 -o json", capsys)
    found = json.loads(out)
    assert (code, found["isCheapest"], [each["type"] for each in found["nodes"]]) == (0, True, ["arm-8 (spot)"])


def test_an_empty_cluster_can_be_planned_from_types_alone(capsys: pytest.CaptureFixture[str]) -> None:
    types = f"{EXAMPLES}/what-if/types.yaml"
    code, out, _ = said(f"plan --cluster {WEB} --types {types} --pod {WEB}=2 -o json", capsys)
    assert code == 0 and [(each["type"], each["count"]) for each in json.loads(out)["nodes"]] == [("small", 1)]


def test_a_records_moment_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "run.mrec"
    assert run(["scenario", "run", "preemption", "--virtual-time", "--record", str(record)]) == 0
    capsys.readouterr()
    code, out, _ = said(f"plan --cluster {record}@1s", capsys)
    assert code == 0 and out.startswith("Add 1 node for 1: then there is room for 1 pod")
    code, out, _ = said(f"plan --cluster {record}", capsys)
    assert code == 0 and out == "No pods need a place\n"
    code, out, _ = said(f"drill --cluster {record} -o json", capsys)
    assert code == 1 and {tuple(loss["lost"]) for loss in json.loads(out)} == {("node1",), ("node2",)}


async def test_a_live_cluster_is_read_and_not_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with ControlPlane(kubeconfig_path=kubeconfig) as plane:
        async with RestClient(find_config(str(kubeconfig))) as client:
            for node in ("a", "b"):
                await client.create("/api/v1/nodes", json.dumps(manifest(make_node(node, cpu="2"))).encode())
        before = plane.api.store.rv
        live = ["--kubeconfig", str(kubeconfig), "-o", "json"]
        small = tmp_path / "small.json"
        small.write_text(json.dumps(manifest(make_pod("small", cpu="1"))))
        codes = [
            await asyncio.to_thread(run, [*command, *live])
            for command in (["capacity", "--pod", str(small)], ["drill"])
        ]
        assert plane.api.store.rv == before
    out, err = capsys.readouterr()
    assert (codes, err) == ([0, 0], "")
    assert '"fits": 4' in out and '"isHarmless": true' in out


def manifest(obj: Object) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(obj)
    return {**plain, "kind": type(obj).__name__, "apiVersion": "v1"}


def test_the_steps_of_a_better_placement_are_a_story(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(f"optimise {SHOP} --story {tmp_path}/better.yaml", capsys)[0] == 0
    code, out, _ = said(f"scenario run --virtual-time {tmp_path}/better.yaml", capsys)
    assert (code, "pod/shop/web-a is on south-2" in out) == (0, True)


def test_the_story_does_not_replace_the_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "cluster.yaml"
    copy.write_text(Path(SHOP.split()[-1]).read_text(encoding="utf-8"), encoding="utf-8")
    code, _, err = said(f"optimise --cluster {copy} --story {copy}", capsys)
    assert (code, "is an input" in err) == (2, True)


def test_ctrl_c_prints_what_a_drill_knows_by_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left = iter(range(2))

    def lose_one(base: Any, domain: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return lose(base, domain.names, domain.nodes)

    monkeypatch.setattr("mooring.ask.drill._lose", lose_one)
    code, out, _ = said(f"drill {SHOP}", capsys)
    assert code == 130 and out.startswith("Interrupted after 2 of 4 losses; ")
