"""A story with a workload in it, from files: parameters, tables of nodes and pods, and every mistake in one line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mooring
from mooring.api.errors import InputError, MooringError, UsageError
from mooring.cli.main import run
from mooring.sim.library import find
from mooring.sim.player import run_in_virtual_time
from mooring.sim.scenario_file import load_scenario_file
from mooring.sim.simulate import Arrival, run_scenario
from mooring.testing import make_node, make_pod

NODES = "name,cpu,memory,zone\na1,8,32Gi,a\nb1,16,64Gi,b\n"
PODS = "name,at,run,cpu,memory,priority\nshort,0,5s,1,1Gi,0\nbatch,10,5m,10,8Gi,0\nurgent,60,,12,8Gi,100\n"
STORY = """
title: A Monday
parameters:
  pods: pods.csv
  wanted: {default: b1, choices: [a1, b1]}
steps:
- nodes: {csv: nodes.csv}
- workload: {csv: "${pods}"}
- advance: end
- expect: {pod: urgent, node: "${wanted}"}
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write the story and its files, some of them changed, and return the story's path."""
    monkeypatch.chdir(tmp_path)

    def files(story: str = STORY, nodes: str = NODES, pods: str = PODS) -> Path:
        for name, text in (("story.yaml", story), ("nodes.csv", nodes), ("pods.csv", pods)):
            (tmp_path / name).write_text(text)
        return tmp_path / "story.yaml"

    return files


def test_pods_of_a_table_arrive_run_and_end(write: Write) -> None:
    result = run_scenario(load_scenario_file(write()), keeps_placements=True)
    assert result.failure == "" and result.expectations == 1
    assert (result.arrived, result.placed, result.ended, result.evicted) == (3, 3, 1, 1)
    assert result.placements is not None
    assert {key: each.node for key, each in result.placements.items()} == {
        "default/short": "b1",
        "default/batch": "b1",
        "default/urgent": "b1",
    }
    assert result.placements["default/urgent"].at_s == pytest.approx(90)  # after the victim's grace period
    assert result.waiting_s["max"] == pytest.approx(30)


def test_a_scenario_run_plays_the_same_through_the_api_server(write: Write) -> None:
    story = STORY.replace("advance: end", "advance: 2m")
    pods = "name,at,run,cpu\nweb,0,1h,4\nbatch,10,20s,10\nurgent,15,,12\n"
    assert run_in_virtual_time(load_scenario_file(write(story, pods=pods))).failure == ""


def test_fields_are_filled_in_from_columns(write: Write) -> None:
    story = """
steps:
- nodes:
    csv: nodes.csv
    name: "n-{sn}"
    cpu: "{cpu_milli}m"
    capacity: {example.com/gpu: "{gpu}"}
    labels: {model: "{model}"}
- workload:
    csv: pods.csv
    name: "p-{i}"
    every: 1s
    requests: {example.com/gpu: "{gpus}"}
    nodeSelector: {model: "{models}"}
    labels: {app: "{app}"}
"""
    path = write(
        story,
        nodes="sn,cpu_milli,gpu,model\n1,4000,2,A\n2,4000,2,B\n3,4000,0,\n",
        pods="gpus,models,app\n2,B,x\n2,A|B,x\n1,A|B,\n0,,y\n",
    )
    result = run_scenario(load_scenario_file(path), keeps_placements=True)
    assert result.placements is not None
    nodes = [each.node for each in result.placements.values()]
    assert nodes[:2] == ["n-2", "n-1"] and list(result.pending) == ["default/p-3"]


def test_a_class_of_the_story_gives_its_priority(write: Write) -> None:
    story = """
steps:
- nodes: {count: 1, cpu: "1"}
- apply: {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 5}
- workload: {csv: pods.csv}
"""
    path = write(story, pods="name,at,cpu,priorityClassName\nlow,0,1,\nhigh,1,1,high\n")
    result = run_scenario(load_scenario_file(path), keeps_placements=True)
    assert result.failure == "" and list(result.evictions or ()) == ["default/low"]


def test_a_function_arranges_the_rows(write: Write, tmp_path: Path) -> None:
    (tmp_path / "order.py").write_text(
        "def twice(rows, *, seed, nodes):\n    return [*rows, *rows[: len(nodes)]] if seed == 3 else rows\n"
    )
    story = "steps:\n- nodes: {csv: nodes.csv}\n- workload: {csv: pods.csv, arrange: 'order.py:twice', name: 'p{i}'}\n"
    path = write(story, pods="cpu\n1\n1\n1\n")
    assert run_scenario(load_scenario_file(path), seed=3).arrived == 5
    assert run_scenario(load_scenario_file(path), seed=4).arrived == 3


# ---- parameters ----------------------------------------------------------------------------------------------------


def test_a_parameter_keeps_the_type_of_its_default(write: Write) -> None:
    story = "parameters: {count: 3, closed: true}\nsteps:\n- nodes: {count: '${count}', unschedulable: '${closed}'}\n"
    path = write(story)
    assert run_scenario(load_scenario_file(path)).nodes == 3
    assert run_scenario(load_scenario_file(path, {"count": "5"})).nodes == 5


@pytest.mark.parametrize("config", ["{percentageOfNodesToScore: '${seed}'}", "own.yaml"], ids=["in it", "beside it"])
def test_the_configuration_may_name_the_seed(write: Write, tmp_path: Path, config: str) -> None:
    (tmp_path / "own.yaml").write_text("percentageOfNodesToScore: ${seed}\n")
    scenario = load_scenario_file(write(f"config: {config}\nsteps:\n- nodes: {{count: 1}}\n"))
    assert run_scenario(scenario, seed=100).held
    with pytest.raises(MooringError, match=r"percentageOfNodesToScore.*101"):
        run_scenario(scenario, seed=101)


def test_steps_do_not_know_the_seed(write: Write) -> None:
    with pytest.raises(MooringError, match="no parameter 'seed'"):
        load_scenario_file(write("steps:\n- nodes: {count: '${seed}'}\n"))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        pytest.param({"pod": "x.csv"}, "no parameter 'pod'; did you mean pods?", id="a name that is nearly right"),
        pytest.param({"zzz": "1"}, "no parameter 'zzz'; there are pods, wanted", id="a name that is not near any"),
        pytest.param({"wanted": "c1"}, "parameter 'wanted': found 'c1'; there are a1, b1", id="no choice"),
    ],
)
def test_parameters_that_are_not_there(write: Write, given: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says.replace("?", r"\?")):
        load_scenario_file(write(), given)


@pytest.mark.parametrize(
    ("parameters", "given", "says"),
    [
        pytest.param("{many: 3}", {"many": "x"}, "'many': expected something like 3, found 'x'", id="no number"),
        pytest.param(
            "{many: {help: nodes}}", {}, r"'many' has no value; give one with --set many=… \(nodes\)", id="not set"
        ),
        pytest.param("{many: {defualt: 3}}", {}, "unknown field 'defualt'", id="a declaration that is misspelt"),
        pytest.param("{few: 3}", {}, "no parameter 'many'; there are few", id="not declared"),
    ],
)
def test_parameters_that_are_wrong(write: Write, parameters: str, given: dict[str, str], says: str) -> None:
    story = f"parameters: {parameters}\nsteps:\n- nodes: {{count: '${{many}}'}}\n"
    with pytest.raises(MooringError, match=says):
        load_scenario_file(write(story), given)


# ---- mistakes in files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "says"),
    [
        pytest.param(
            {"nodes": "name,cpu\na,1\na,1\n"}, r"nodes.csv, line 3: node a is already in line 2", id="a node twice"
        ),
        pytest.param({"nodes": "name,cpu\na,1,2\n"}, r"line 2: 3 values; expected 2", id="a value too many"),
        pytest.param({"nodes": "name,name\na,1\n"}, r"line 1: the column 'name' occurs twice", id="a column twice"),
        pytest.param({"nodes": ""}, r"nodes.csv, line 1: no header", id="an empty file"),
        pytest.param({"nodes": "name\n"}, r"nodes.csv: no row after the header", id="no nodes"),
        pytest.param({"nodes": "name,cpu\n,1\n"}, r"line 2: a node without a name", id="a node without a name"),
        pytest.param(
            {"story": STORY.replace('"${pods}"', '"${pods}", cpu: "{cores}"')},
            r"pods.csv, line 1: no column 'cores', which the workload needs; there are name, at",
            id="a column that is missing",
        ),
        pytest.param(
            {"story": STORY.replace("pods.csv", "gone.csv")}, r"gone.csv: no such file", id="a file that is not there"
        ),
        pytest.param(
            {"story": STORY.replace('"${pods}"', '"${pods}", arrange: x.py:f')}, r"there is no file", id="no function"
        ),
    ],
)
def test_mistakes_that_are_found_before_anything_happens(write: Write, files: dict[str, str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        load_scenario_file(write(**files))


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        pytest.param("name,at\na,5\nb,3\n", "line 3: at: 3 after 5; pods must come in the order", id="times backwards"),
        pytest.param("name,at\na,-5\n", "line 2: at: expected seconds from 0 to .*, found -5", id="a time too early"),
        pytest.param(
            "name,at,run\na,0,-5\n", "line 2: run: expected seconds from 0 to .*, found -5", id="a negative run time"
        ),
        pytest.param(
            "name,at,run\na,0,soon\n", "line 2: run: expected a duration such as 30s", id="a run time in words"
        ),
        pytest.param("name,at,cpu\na,0,1\na,0,1\n", "line 3: pod default/a already exists", id="a pod twice"),
        pytest.param("name,at,cpu\na,0,much\n", "line 2: .*much", id="no quantity"),
        pytest.param(
            "name,at,priority\na,0,high\n", "line 2: priority: expected a whole number", id="a priority in words"
        ),
        pytest.param(
            "name,at,priorityClassName\na,0,high\n", "line 2: .*no PriorityClass with name high", id="no class"
        ),
    ],
)
def test_mistakes_in_rows_of_a_workload(write: Write, pods: str, says: str) -> None:
    result = run_scenario(load_scenario_file(write(pods=pods)))
    assert "pods.csv, " in result.failure
    assert re.search(says, result.failure), result.failure


@pytest.mark.parametrize("more", ["", "- say: hello\n- advance: 10s\n"], ids=["at the end", "in a later step"])
def test_a_mistake_in_a_workload_is_one_of_its_step(write: Write, more: str) -> None:
    story = "steps:\n- nodes: {count: 1}\n- workload: {every: 1s, count: 2, name: 'a-{i}', cpu: lots}\n" + more
    result = run_scenario(load_scenario_file(write(story)))
    assert result.is_mistake
    assert result.failure.startswith("story.yaml: steps[1]: spec.containers[0].resources.requests[cpu]: 'lots' is not")


def test_a_time_between_pods_counts_instead_of_a_column(write: Write) -> None:
    story = "steps:\n- nodes: {count: 1}\n- workload: {csv: pods.csv, every: 10s}\n"
    result = run_scenario(load_scenario_file(write(story, pods="name,at\na,0\nb,1\n")), keeps_placements=True)
    assert result.placements is not None and [each.at_s for each in result.placements.values()] == [0, 10]


def test_blanks_around_values_do_not_count(write: Write) -> None:
    story = "steps:\n- nodes: {csv: nodes.csv}\n- workload: {csv: pods.csv}\n"
    result = run_scenario(load_scenario_file(write(story, nodes="name, cpu\na, 1\n", pods="name, at, cpu\na, 0, 1\n")))
    assert not result.failure and result.placed == 1


def test_a_mistake_in_a_row_is_found_also_where_the_end_is_given(write: Write) -> None:
    result = run_scenario(
        load_scenario_file(write("steps:\n- workload: {csv: pods.csv}\n", pods="at\n5\n3\n")), until_s=9
    )
    assert "pods.csv, line 3" in result.failure and result.ended_at_s == 9


# ---- measures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expectation", "says"),
    [
        pytest.param("{measure: pods.pending, is: 0}", "", id="as wanted"),
        pytest.param("{measure: waitingSeconds.max, atMost: 1m, atLeast: 30}", "", id="between two"),
        pytest.param("{measure: allocatedAtEnd.cpu, atLeast: 50%}", "", id="a share"),
        pytest.param("{measure: pods.evicted, is: 0}", "pods.evicted is 0: it is 1", id="not as wanted"),
        pytest.param("{measure: waitingSeconds.max, atMost: 5s}", "is at most 5: it is 30", id="too long"),
        pytest.param("{measure: waiting, is: 0}", "no measure 'waiting'; there are seed, ", id="no measure"),
    ],
)
def test_measures_can_be_expected(write: Write, expectation: str, says: str) -> None:
    result = run_scenario(load_scenario_file(write(f"{STORY}- expect: {expectation}\n")))
    assert says in result.failure and bool(says) == bool(result.failure)


@pytest.mark.parametrize(
    ("expectation", "says"),
    [
        pytest.param("{measure: pods.pending}", "a measure needs is, atMost or atLeast", id="of nothing"),
        pytest.param("{measure: pods.pending, is: few}", "is: expected a number, a share", id="no number"),
        pytest.param("{measure: pods.pending, most: 1}", "unknown field 'most'", id="a field that is not there"),
    ],
)
def test_expectations_of_measures_that_are_wrong(write: Write, expectation: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        load_scenario_file(write(f"{STORY}- expect: {expectation}\n"))


def test_a_scenario_run_takes_no_measures(write: Write) -> None:
    story = "steps:\n- expect: {measure: pods.pending, is: 0}\n"
    assert "only mooring simulate takes measures" in run_in_virtual_time(load_scenario_file(write(story))).failure


# ---- the front door ------------------------------------------------------------------------------------------------


def test_a_story_is_simulated_from_python(write: Write, tmp_path: Path) -> None:
    result = mooring.simulate(write(), parameters={"wanted": "b1"}, record=tmp_path / "day.mrec", until="1h")
    assert result.held and result.arrived == 3 and result.ended_at_s == 3600
    assert (tmp_path / "day.mrec").stat().st_size > 100


def test_a_cluster_is_simulated_with_pods_that_arrive() -> None:
    cluster = mooring.Cluster()
    cluster.add(make_node("a", cpu="2"), make_pod("there", cpu="1", node="a"), make_pod("waits", cpu="1"))
    result = mooring.simulate(cluster, [Arrival(5, make_pod("late", cpu="1"))])
    assert result.placements is not None and list(result.placements) == ["default/waits"]
    assert list(result.pending) == ["default/late"] and result.running == 2


def arrivals(*times_s: float) -> list[Arrival]:
    return [Arrival(at_s, make_pod(f"p{i}", cpu="1"), run_s=1) for i, at_s in enumerate(times_s)]


def one_node() -> mooring.Cluster:
    cluster = mooring.Cluster()
    cluster.add(make_node("a", cpu="1"))
    return cluster


def test_a_list_of_arrivals_comes_in_the_order_of_its_times() -> None:
    result = mooring.simulate(one_node(), arrivals(20, 0, 10))
    assert result.placements is not None
    found = {name: placed.at_s for name, placed in result.placements.items()}
    assert found == {"default/p1": 0, "default/p2": 10, "default/p0": 20}


def test_a_story_is_a_dict_too() -> None:
    assert mooring.simulate({"steps": [{"nodes": {"count": 3}}]}).nodes == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param((3,), "expected a scenario file, its content as a dict, or a Cluster", id="no story"),
        pytest.param(({"steps": []}, [1]), "use arrivals with a Cluster", id="arrivals beside a story"),
        pytest.param((one_node(), iter(arrivals(20, 0))), "the order of their times", id="a generator out of order"),
        pytest.param((one_node(), arrivals(-1)), "at: expected seconds from 0", id="a time below 0"),
    ],
)
def test_what_the_front_door_refuses(arguments: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        mooring.simulate(*arguments)


# ---- the command ---------------------------------------------------------------------------------------------------


def test_the_command_prints_json(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(write()), "-o", "json", "--placements", "--seed", "5"]) == 0
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert value["pods"] == {"arrived": 3, "placed": 3, "ended": 1, "running": 1, "pending": 0, "evicted": 1}
    assert value["seed"] == 5 and value["placements"]["default/urgent"]["node"] == "b1"
    assert value["measures"]["allocatedAtEnd.cpu"] == 0.5 and value["measures"]["placed"] == 3


def test_an_expectation_that_does_not_hold_is_exit_code_1(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(write()), "--set", "wanted=a1"]) == 1
    assert "NOT as expected" in capsys.readouterr().out


def test_a_mistake_in_a_later_story_keeps_what_was_simulated(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    Path("wrong.yaml").write_text("steps: [{expect: {measure: pods.pendin, is: 0}}]")
    assert run(["simulate", str(write()), "wrong.yaml", "-o", "json"]) == 2
    told = capsys.readouterr()
    assert [each["pods"]["arrived"] for each in json.loads(told.out)] == [3]
    assert told.err == "mooring: wrong.yaml: steps[0]: no measure 'pods.pendin'; did you mean pods.pending?\n"


def test_a_setting_that_the_file_does_not_have_is_bad_usage(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(write()), "--set", "wantd=a1"]) == 2
    assert "did you mean wanted?" in capsys.readouterr().err


def test_a_record_is_written_and_replayed(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(write()), "--record", "day.mrec"]) == 0
    assert run(["replay", "day.mrec"]) == 0
    assert "default/urgent" in capsys.readouterr().out


def test_the_same_seed_prints_the_same_bytes(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for _ in range(2):
        run(["simulate", str(write()), "-o", "json", "--placements", "--seed", "5"])
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


DUMP = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: node-a}, status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web}
  spec:
    replicas: 2
    selector: {matchLabels: {app: web}}
    template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}
"""


def test_a_simulation_does_not_wait_for_the_deadline_of_a_deployment_that_is_complete(tmp_path: Path) -> None:
    (tmp_path / "dump.yaml").write_text(DUMP)
    result = run_scenario(find(str(tmp_path / "dump.yaml")))
    assert result.placed == 2 and result.ended_at_s < 1


@pytest.mark.parametrize(
    "source",
    ["nfs: {server: s, path: /}", "hostPath: {path: /data}", "csi: {driver: d, volumeHandle: v}", "cephfs: {}"],
)
def test_a_volume_of_any_source_is_imported(tmp_path: Path, source: str) -> None:
    volume = f"{{capacity: {{storage: 1Gi}}, accessModes: [ReadWriteOnce], storageClassName: '', {source}}}"
    claim = "{accessModes: [ReadWriteOnce], storageClassName: '', resources: {requests: {storage: 1Gi}}}"
    pod = "{containers: [{name: c, image: i}], volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}"
    (tmp_path / "dump.yaml").write_text(
        f"{DUMP}- {{apiVersion: v1, kind: PersistentVolume, metadata: {{name: v}}, spec: {volume}}}\n"
        f"- {{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: data}}, spec: {claim}}}\n"
        f"- {{apiVersion: v1, kind: Pod, metadata: {{name: db}}, spec: {pod}}}\n"
    )
    assert run_scenario(find(str(tmp_path / "dump.yaml"))).placed == 3


def test_a_controller_that_fails_again_and_again_does_not_keep_a_simulation_from_its_end() -> None:
    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}  # no claim can be made of it
    spec = {"volumes": [volume], "containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    result = mooring.simulate({"steps": [{"nodes": {"count": 1}}, {"apply": pod}, {"advance": "end"}]})
    assert len(result.pending) == 1 and result.ended_at_s > 3600
