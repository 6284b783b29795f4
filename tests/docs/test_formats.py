"""What commands print as JSON, and the decision log, is what the schemas on the site say: every field is described."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from mooring.cli.main import cli, run
from mooring.core.engine.decision import ScheduleResult
from mooring.core.framework.runtime import Profile
from mooring.live.observer import MAX_NODES, log_entry
from mooring.net.kubeconfig import find_config
from mooring.net.rest import RestClient
from mooring.testing import NOON, Scheduler, make_node, make_pod

from .test_texts import Terminal
from .texts import REPOSITORY

SCHEMAS = REPOSITORY / "docs" / "reference" / "schemas"
EXAMPLES = REPOSITORY / "examples"
EXPLAIN = f"mooring explain --cluster {EXAMPLES}/02-explain/cluster.yaml"
PLAN = f"mooring plan --cluster {EXAMPLES}/what-if/cluster.yaml"
CAPACITY = f"mooring capacity --cluster {EXAMPLES}/02-explain/cluster.yaml"
GOLDEN = REPOSITORY / "tests" / "parity" / "golden"
NAMES = sorted(path.stem for path in SCHEMAS.glob("*.json"))
LINES = {"story-v1", "decide-v1", "lesson-v1"}  # one object per line

# Which schema each command's -o json has.
COMMANDS = {
    "start": "story-v1",
    "explain": "explain-v1",
    "queue": "queue-v1",
    "replay": "replay-v1",
    "capacity": "capacity-v1",
    "drill": "drill-v1",
    "plan": "plan-v1",
    "optimise": "optimise-v1",
    "consolidate": "consolidate-v1",
    "deschedule": "deschedule-v1",
    "admission": "admission-v1",
    "diff": "diff-v1",
    "lint": "lint-v1",
    "sweep run": "sweep-run-v1",
    "tune": "tune-v1",
    "simulate": "simulate-v1",
    "autoscale": "autoscale-v1",
    "scenario run": "story-v1",
    "shadow": "shadow-v1",
    "decide": "decide-v1",
    **{f"learn {number}": "lesson-v1" for number in range(1, 8)},
    "config check": "config-check-v1",
    "config convert": "configuration-v1",
    "config defaults": "configuration-v1",
    "extender check": "extender-check-v1",
    "extender config": "configuration-v1",
    "bench decide": "bench-decide-v1",
    "bench growth": "bench-growth-v1",
    "bench gym": "bench-gym-v1",
    "bench perf": "bench-perf-v1",
    "bench simulate": "bench-simulate-v1",
}


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def closed(value: Any) -> Any:
    """The same schema, but no object may have fields that are not described."""
    if isinstance(value, list):
        return [closed(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {key: closed(each) for key, each in value.items()}
    if isinstance(made.get("properties"), dict) and "type" in made:
        made.setdefault("additionalProperties", False)
    return made


def check(name: str, value: Any) -> None:
    jsonschema.Draft202012Validator(closed(schema(name))).validate(value)


def test_every_command_that_prints_json_has_a_schema() -> None:
    assert {name for name, _ in _printing_json(cli, "")} == set(COMMANDS)
    others = {"bench-perf-list-v1", "decision-log-v1", "report-v1", "explain-group-v1"}
    assert set(COMMANDS.values()) | others == set(NAMES)


def _printing_json(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _printing_json(found, f"{path} {name}".strip())
    for parameter in command.params:
        if "--output" in parameter.opts and "json" in getattr(parameter.type, "choices", ()):
            yield path, command


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_valid_versioned_and_describes_every_field(name: str) -> None:
    found = schema(name)
    jsonschema.Draft202012Validator.check_schema(found)
    assert found["$id"] == f"urn:mooring:schema:{name}"
    assert found["title"] and found["description"]
    assert list(_undescribed(found)) == []


def _undescribed(value: dict[str, Any], path: str = "$") -> Iterator[str]:
    for field, inner in value.get("properties", {}).items():
        if "$ref" not in inner and not inner.get("description"):
            yield f"{path}.{field}"
        yield from _undescribed(inner, f"{path}.{field}")
    for key in ("items", "additionalProperties"):
        if isinstance(value.get(key), dict):
            yield from _undescribed(value[key], f"{path}[]")
    for field, inner in value.get("$defs", {}).items():
        yield from _undescribed(inner, field)


def printed(command: str) -> list[Any]:
    """The objects that a command prints: one, or one per line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(command.split()[1:])
    assert code in (0, 1), err.getvalue()
    text = out.getvalue()
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


STORIES = ["preemption", "taints", "volumes", "node-failure", "gang", "permit-wait"]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        pytest.param("explain-v1", f"{EXPLAIN} --pod {EXAMPLES}/02-explain/report.yaml -o json", id="a refused pod"),
        pytest.param("explain-v1", f"{EXPLAIN} --pod {EXAMPLES}/02-explain/web.yaml -o json", id="a placed pod"),
        pytest.param(
            "explain-group-v1",
            f"mooring explain podgroup/ml/train-1 --cluster {EXAMPLES}/pod-groups/cluster.yaml -o json",
            id="a group that does not fit",
        ),
        pytest.param("capacity-v1", f"{CAPACITY} --pod {EXAMPLES}/02-explain/web.yaml -o json", id="room for more"),
        pytest.param("drill-v1", f"mooring drill --cluster {EXAMPLES}/what-if/cluster.yaml -o json", id="losses"),
        pytest.param("plan-v1", f"{PLAN} --pod {EXAMPLES}/what-if/more.yaml -o json", id="nodes to add"),
        pytest.param(
            "simulate-v1", f"mooring simulate {EXAMPLES}/quotas/two-teams.yaml -o json", id="a simulation with quotas"
        ),
        pytest.param(
            "admission-v1",
            f"mooring admission {EXAMPLES}/quotas/train.yaml --cluster {EXAMPLES}/quotas/cluster.yaml -o json",
            id="an admission",
        ),
        pytest.param(
            "consolidate-v1",
            f"mooring consolidate --cluster {EXAMPLES}/what-if/cluster.yaml -o json",
            id="nodes to remove",
        ),
        pytest.param(
            "optimise-v1",
            f"mooring optimise --cluster {EXAMPLES}/what-if/cluster.yaml -o json",
            id="a better placement",
        ),
        pytest.param(
            "diff-v1",
            f"mooring diff --cluster {EXAMPLES}/02-explain/cluster.yaml --all -o json "
            f"--config {EXAMPLES}/configurations/bin-packing.yaml",
            id="a difference",
        ),
        pytest.param(
            "diff-v1",
            f"mooring diff --story {EXAMPLES}/05-sweep/day.yaml --config {EXAMPLES}/05-sweep/pack.yaml -o json",
            id="two simulations",
        ),
        pytest.param(
            "lint-v1",
            f"mooring lint {EXAMPLES}/04-lint --cluster {EXAMPLES}/02-explain/cluster.yaml -o json",
            id="findings",
        ),
        pytest.param(
            "sweep-run-v1",
            f"mooring sweep run {EXAMPLES}/05-sweep/sweep.yaml --set data={EXAMPLES}/05-sweep/traces --shard 0/12 "
            "--results results -o json",
            id="a row of a sweep",
        ),
        pytest.param(
            "tune-v1",
            f"mooring tune {EXAMPLES}/05-sweep/day.yaml --trials 1 --jobs 1 -o json",
            id="a short search",
        ),
        pytest.param(
            "simulate-v1", f"mooring simulate {EXAMPLES}/05-sweep/day.yaml --placements -o json", id="a simulated day"
        ),
        pytest.param(
            "autoscale-v1",
            f"mooring autoscale {EXAMPLES}/06-autoscale/day.yaml --policy {EXAMPLES}/06-autoscale/eager.yaml "
            f"--catalogue {EXAMPLES}/catalogue.csv --until 30m --seeds 2 -o json",
            id="nodes that come and go",
        ),
        pytest.param(
            "config-check-v1", f"mooring config check {EXAMPLES}/configurations/two-profiles.yaml -o json", id="valid"
        ),
        pytest.param(
            "config-check-v1", f"mooring config check {EXAMPLES}/configurations/policy.json -o json", id="not valid"
        ),
        pytest.param("configuration-v1", "mooring config defaults -o json", id="defaults"),
        pytest.param(
            "configuration-v1",
            f"mooring config convert {EXAMPLES}/configurations/policy.json -o json",
            id="a converted policy",
        ),
        pytest.param(
            "configuration-v1", f"mooring extender config {EXAMPLES}/03-extenders/lucky.py -o json", id="an extender"
        ),
        pytest.param("decide-v1", f"mooring decide {GOLDEN}/gates.jsonl.gz", id="gated pods"),
        pytest.param("decide-v1", f"mooring decide {GOLDEN}/preemption.jsonl.gz", id="preempting pods"),
        pytest.param("decide-v1", f"mooring decide {GOLDEN}/requeue.jsonl.gz", id="recreated pods"),
        *(pytest.param("story-v1", f"mooring scenario run --virtual-time {s} -o json -v", id=s) for s in STORIES),
        pytest.param(
            "bench-decide-v1", "mooring bench decide --nodes 20 --pods 5 --workload plain -o json", id="decide"
        ),
        pytest.param(
            "bench-growth-v1",
            "mooring bench growth --by nodes --nodes 20,40 --kind plain --decisions 20 -o json",
            id="growth by nodes",
        ),
        pytest.param("bench-gym-v1", "mooring bench gym --nodes 5 --steps 20 -o json", id="steps"),
        pytest.param("lesson-v1", "mooring learn 7 -o json", id="a lesson"),
        pytest.param("bench-perf-list-v1", "mooring bench perf --list -o json", id="workloads"),
        pytest.param(
            "bench-growth-v1",
            "mooring bench growth --by pods --fixed-nodes 20 --pods 0,50 --kind plain --decisions 20 -o json",
            id="growth by pods",
        ),
        pytest.param("bench-perf-v1", "mooring bench perf SchedulingPodAntiAffinity/5Nodes -o json", id="a workload"),
        pytest.param(
            "bench-simulate-v1", "mooring bench simulate --pods 20 --nodes 5 --record -o json", id="simulations"
        ),
        pytest.param("bench-perf-v1", "mooring bench perf SchedulingPodAntiAffinity/5Nodes -o json", id="a workload"),
    ],
)
def test_what_a_command_prints_is_described(
    name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = printed(command)
    assert found and (len(found) == 1 or name in LINES)
    for value in found:
        check(name, value)


async def create_a_pod_that_fits_nowhere(kubeconfig: Path) -> None:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "999"}}}
    pod = {"metadata": {"name": "large"}, "spec": {"containers": [container]}}
    async with RestClient(find_config(str(kubeconfig))) as client:
        await client.create("/api/v1/namespaces/default/pods", json.dumps(pod).encode())


@pytest.mark.parametrize("question", ["", "--at 2s", "--open 3"])
def test_a_record_is_described(question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed("mooring scenario run --virtual-time preemption -o json --record r.mrec")
    (found,) = printed(f"mooring replay r.mrec {question} -o json")
    check("replay-v1", found)


def test_a_report_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed("mooring scenario run --virtual-time preemption -o json --record r.mrec")
    assert run(["report", "r.mrec", "-o", "r.json"]) == 0
    (found,) = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    check("report-v1", [found])
    assert found["row"]["placed"] > 0 and len({len(column) for column in found["columns"].values()}) == 1


@pytest.mark.e2e
def test_the_queue_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    terminal = Terminal({**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        terminal.type(f"mooring start --keep --nodes 1 --write-kubeconfig {kubeconfig} &")
        asyncio.run(create_a_pod_that_fits_nowhere(kubeconfig))
        (found,) = printed("mooring queue -o json")
        while not found["pods"]:  # it is being decided about
            (found,) = printed("mooring queue -o json")
    finally:
        terminal.close()
    check("queue-v1", found)
    assert found["counts"].keys() == {"active", "backoff", "unschedulable", "gated"}
    assert [pod["name"] for pod in found["pods"]] == ["large"]


@pytest.mark.e2e
def test_the_check_of_an_extender_is_described(free_port: int) -> None:
    terminal = Terminal({**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        terminal.type(f"mooring extender serve {EXAMPLES}/03-extenders/lucky.py --port {free_port} &")
        (found,) = printed(f"mooring extender check http://127.0.0.1:{free_port} --nodes 200 -o json")
    finally:
        terminal.close()
    check("extender-check-v1", found)


@pytest.fixture
def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ---- the decision log --------------------------------------------------------------------------------------------


def decided(*nodes: Any, **wanted: Any) -> tuple[ScheduleResult, Profile]:
    scheduler = Scheduler(*nodes)
    pod = make_pod("web", **wanted)
    return scheduler.decide(pod), scheduler.session.profile_for(pod)


def _full(name: str) -> Iterator[Any]:
    yield make_node(name, cpu="1")
    yield make_pod("old", node=name, cpu="1", priority=0)


@pytest.mark.parametrize(
    ("decide", "has"),
    [
        pytest.param(lambda: decided(*(make_node(f"n{i}") for i in range(9))), {"node", "scores"}, id="scheduled"),
        pytest.param(lambda: decided(make_node("a")), {"node", "scores"}, id="on the only node"),
        pytest.param(lambda: decided(make_node("a"), cpu="99"), {"reason", "message", "plugins"}, id="fits nowhere"),
        pytest.param(
            lambda: decided(*_full("a"), cpu="1", priority=9), {"message", "nominatedNode", "victims"}, id="preempts"
        ),
        pytest.param(lambda: decided(make_node("a"), cpu="x"), {"reason", "message"}, id="broke"),
    ],
)
def test_a_line_of_the_decision_log_is_described(
    decide: Callable[[], tuple[ScheduleResult, Profile]], has: set[str]
) -> None:
    entry = log_entry(*decide(), 1, NOON, 0.001)
    check("decision-log-v1", entry)
    assert entry.keys() >= has
    assert len(entry.get("scores", ())) <= MAX_NODES


def test_the_schema_says_how_many_nodes_a_line_has() -> None:
    assert f"the {MAX_NODES} best nodes" in schema("decision-log-v1")["properties"]["scores"]["description"]
