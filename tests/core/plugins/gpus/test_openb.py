"""Files of the study, and the order in which its pods come."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.api.errors import InputError
from mooring.core.plugins.gpus.fragmentation import PodKind
from mooring.core.plugins.gpus.openb import TraceNode, TracePod, arrange, node_prefixes, read_nodes, read_pods
from mooring.core.plugins.gpus.requests import GpuRequest
from mooring.core.plugins.gpus.scoring import GoRandom


def pod(name: str, milli: int = 1000, count: int = 1) -> TracePod:
    return TracePod(name, 1024, PodKind(1000, GpuRequest(milli, count)))


NODES = [TraceNode(f"n{i}", 64_000, 1 << 18, 8, "T4") for i in range(10)]  # 80 GPUs: arrivals ask for 104


def asked(pods: list[TracePod]) -> int:
    return sum(pod.kind.gpu.total for pod in pods)


def test_the_whole_trace_comes_first_and_then_pods_are_drawn_again() -> None:
    trace = [pod(f"p{i:03}") for i in range(60)]
    run = arrange(trace, NODES, seed=42)
    assert sorted(each.name for each in run.pods[:60]) == [each.name for each in trace]
    assert [each.name for each in run.pods[:60]] != [each.name for each in trace]
    assert asked(run.pods) == 104_000


def test_drawing_stops_by_the_milli_of_one_gpu_as_in_the_study() -> None:
    trace = [pod("a", count=8), pod("b", count=8)]
    assert 104_000 <= asked(arrange(trace, NODES, seed=42).pods) <= 111_000


def test_a_trace_that_asks_for_too_much_loses_pods() -> None:
    trace = [pod(f"p{i:03}") for i in range(200)]
    run = arrange(trace, NODES, seed=42)
    assert len(run.pods) == 104 == len({each.name for each in run.pods})


def test_nodes_are_sorted_by_a_number_drawn_for_each() -> None:
    run = arrange([pod("a")], NODES, seed=42)
    assert [node.name[:5] for node in run.nodes] == [f"{i:04d}-" for i in range(10)]
    assert sorted(node.name[5:] for node in run.nodes) == [node.name for node in NODES]


def test_ten_numbers_are_drawn_between_pods_and_nodes_as_in_the_study() -> None:
    trace = [pod(f"p{i:03}") for i in range(104)]  # as many as wanted: none is drawn again
    go = GoRandom(42)
    go.int63()
    go.shuffle(list(range(104)))
    for _ in range(10):
        go.int63()
    prefixes, rng = node_prefixes(trace, 42, gpus=80, nodes=10)
    assert prefixes == go.perm(10)
    assert rng.int63() == go.int63()


def test_a_trace_without_gpus_ends() -> None:
    assert len(arrange([TracePod("a", 1, PodKind(1, GpuRequest()))], NODES, seed=1).pods) == 1


def test_files_may_lack_the_column_of_models_and_have_others(tmp_path: Path) -> None:
    file = tmp_path / "pods.csv"
    file.write_text("num_gpu,name,cpu_milli,memory_mib,gpu_milli,qos\n1,a,500,1024,460,LS\n0,b,500,1024,300,BE\n")
    assert [each.kind for each in read_pods(file)] == [PodKind(500, GpuRequest(460, 1)), PodKind(500, GpuRequest())]


def test_models_stay_as_they_are_listed_so_that_kinds_of_pods_are_those_of_the_study(tmp_path: Path) -> None:
    file = tmp_path / "pods.csv"
    file.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,500,1024,1,1000,V100M32||V100M16|V100M32\n"
    )
    assert read_pods(file)[0].kind.gpu.models == ("V100M32", "V100M16", "V100M32")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("sn,cpu_milli\nn,1\n", "no column memory_mib, gpu; found sn, cpu_milli", id="a column is missing"),
        pytest.param("sn,cpu_milli,memory_mib,gpu\nn,x,1,1\n", "line 2: cpu_milli: 'x'", id="not a number"),
        pytest.param("sn,cpu_milli,memory_mib,gpu\nn,-1,1,1\n", "line 2: cpu_milli: '-1'", id="a negative number"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_line(tmp_path: Path, text: str, want: str) -> None:
    file = tmp_path / "nodes.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=r"nodes\.csv") as error:
        read_nodes(file)
    assert want in str(error.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_nodes(tmp_path / "none.csv")
