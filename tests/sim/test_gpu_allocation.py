"""The example of the fragmentation study on small files, and how allocation is noted by arrived demand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.api import yaml
from mooring.cli.main import run
from mooring.core.plugins.gpus.requests import COUNT, MILLI
from mooring.sim.library import find
from mooring.sim.simulate import Arrival, run_scenario, simulate
from mooring.testing import make_node, make_pod

EXAMPLE = Path(__file__).parents[2] / "examples" / "gpu-fragmentation"
POLICIES = yaml.load((EXAMPLE / "openb.yaml").read_text(), "openb.yaml")["parameters"]["policy"]["choices"]
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,T4\nn1,64000,262144,4,V100\nn2,8000,16384,0,\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"
    "p0,1000,1024,1,1000,,LS\np1,2000,1024,1,460,T4|A10,BE\np2,1000,1024,0,300,T4,BE\np3,4000,4096,2,1000,,LS\n"
)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(PODS)
    return {"nodes": str(tmp_path / "nodes.csv"), "pods": str(tmp_path / "pods.csv")}


def played(files: dict[str, str], policy: str, seed: int = 42) -> Any:
    scenario = find(str(EXAMPLE / "openb.yaml"), {**files, "policy": policy})
    return run_scenario(scenario, seed=seed, keeps_placements=True)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_fills_the_cluster_until_nothing_fits(files: dict[str, str], policy: str) -> None:
    result = played(files, policy)
    demand = [int(percent) for percent in result.gpu_allocation]
    assert result.failure == "" and demand == sorted(demand) and demand[-1] >= 120
    assert 70 < result.gpu_allocation[str(demand[-1])] <= 100
    assert result.gpu_fragmentation
    assert {placed.node[5:] for key, placed in (result.placements or {}).items() if "/p1-" in key} <= {"n0"}


def test_the_same_seed_is_the_same_run(files: dict[str, str]) -> None:
    assert played(files, "Random").to_dict() == played(files, "Random").to_dict()
    assert played(files, "Random").to_dict() != played(files, "Random", seed=43).to_dict()


def test_the_command_line_gives_allocation_by_percent(files: dict[str, str], capsys: Any) -> None:
    settings = [part for name, value in files.items() for part in ("--set", f"{name}={value}")]
    arguments = ["simulate", str(EXAMPLE / "openb.yaml"), *settings, "--set", "policy=FGD", "--seed", "42"]
    assert run([*arguments, "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed["gpuAllocationPercent"].values())[-1] > 70 and printed["gpuFragmentationPercent"]["100"] >= 0
    assert run(arguments) == 0
    assert "% allocated when pods had asked for" in capsys.readouterr().out


def test_a_trace_without_the_column_of_models_is_played(files: dict[str, str]) -> None:
    Path(files["pods"]).write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,1024,1,1000\n")
    assert played(files, "FGD").gpu_allocation["100"] == 100


def test_fractions_and_line_ends_of_other_programs_are_read(files: dict[str, str]) -> None:
    plain = played(files, "FGD").gpu_allocation
    odd = "\ufeff" + PODS.replace(",1000,1024,1,1000,", ",1000.0,1024,1.0,1000.0,").replace("\n", "\r\n")
    Path(files["pods"]).write_bytes(odd.encode())
    assert played(files, "FGD").gpu_allocation == plain


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param("name,cpu_milli\np0,1000\n", "no column", id="a column is missing"),
        pytest.param(PODS.replace("460", "x"), "gpu_milli", id="not a number"),
    ],
)
def test_a_wrong_file_is_one_line(files: dict[str, str], capsys: Any, pods: str, want: str) -> None:
    Path(files["pods"]).write_text(pods)
    settings = [part for name, value in files.items() for part in ("--set", f"{name}={value}")]
    assert run(["simulate", str(EXAMPLE / "openb.yaml"), *settings]) == 2
    said = capsys.readouterr().err
    assert want in said and "pods.csv" in said and said.count("\n") == 1, said


# ---- how it is noted -----------------------------------------------------------------------------------------------


def gpu_pod(name: str, milli: int) -> Any:
    return make_pod(name, cpu="100m", metadata={"annotations": {MILLI: str(milli)}})


ENABLED = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "GpuShare"}]}}}]}


def test_allocation_is_the_mean_over_the_arrivals_of_one_percent() -> None:
    node = make_node("a", cpu="64", allocatable={COUNT: "4"})  # one percent is 40 milli
    sizes = (1000, 4, 4, 1000)
    arrivals = [Arrival(i, gpu_pod(f"p{i}", milli)) for i, milli in enumerate(sizes)]
    found = simulate([node], arrivals, config=ENABLED).gpu_allocation
    assert found["25"] == round((25 + 25.1 + 25.2) / 3, 2)
    assert found["50"] == 50.2
    assert "24" in found and "30" not in found  # a percent without arrivals has the value of its neighbours


def test_pods_that_fit_nowhere_count_as_demand_and_those_that_end_are_not_allocated() -> None:
    node = make_node("a", cpu="64", allocatable={COUNT: "1"})
    arrivals = [
        Arrival(0, gpu_pod("p0", 600), run_s=2),
        Arrival(1, gpu_pod("p1", 500)),
        Arrival(10, gpu_pod("p2", 100)),
    ]
    result = simulate([node], arrivals, config=ENABLED)
    assert result.gpu_allocation["60"] == 60 and result.gpu_allocation["110"] == 60
    assert result.gpu_allocation["120"] == 60  # p1 and p2, and p0 no more


def test_a_run_without_gpus_says_nothing_of_them() -> None:
    assert "gpuAllocationPercent" not in simulate([make_node("a")], [Arrival(0, make_pod("p"))]).to_dict()


def test_pods_without_gpus_that_come_first_count_at_no_demand() -> None:
    node = make_node("a", cpu="64", allocatable={COUNT: "4"})
    arrivals = [*(Arrival(i, make_pod(f"c{i}", cpu="1")) for i in range(3)), Arrival(5, gpu_pod("p", 16))]
    assert simulate([node], arrivals, config=ENABLED).gpu_allocation == {"0": 0.1}  # 0.4 % once, of four arrivals


def test_demand_that_has_gone_again_is_not_compared_with_allocation(tmp_path: Path, capsys: Any) -> None:
    pods = "{count: 4, every: 1m, run: 30s, requests: {nvidia.com/gpu: '1'}}"
    nodes = "{count: 1, capacity: {nvidia.com/gpu: '1'}}"
    (tmp_path / "story.yaml").write_text(f"steps:\n- nodes: {nodes}\n- workload: {pods}\n- advance: end\n")
    assert run(["simulate", str(tmp_path / "story.yaml")]) == 0
    printed = capsys.readouterr().out
    assert "4 ended" in printed and "had asked for" not in printed
