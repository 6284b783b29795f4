"""openb's tables become nodes and pods that arrive; every mistake in a table is reported with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.api.core import Node
from mooring.api.errors import InputError
from mooring.core.plugins.gpus.requests import COUNT as GPU_COUNT
from mooring.core.plugins.gpus.requests import MILLI as GPU_MILLI
from mooring.core.plugins.gpus.requests import MODEL as GPU_MODEL
from mooring.sim.imports.read import import_files

NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
SHORT = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"


def written(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_node_has_its_gpus_as_resources_and_their_model_as_a_label(tmp_path: Path) -> None:
    found = import_files([written(tmp_path, NODES + "a,64000,262144,2,P100\nb,32000,1024,0,\n")])
    a, b = found.objects
    assert isinstance(a, Node) and isinstance(b, Node)
    assert a.status.allocatable | {GPU_COUNT: "2", GPU_MILLI: "2000", "cpu": "64000m"} == a.status.allocatable
    assert a.labels[GPU_MODEL] == "P100"
    assert GPU_COUNT not in b.status.allocatable and GPU_MODEL not in b.labels
    assert found.summary() == "2 nodes"


def test_pods_arrive_in_order_of_their_creation_and_run_from_their_scheduling_to_their_end(tmp_path: Path) -> None:
    rows = "late,1000,10,0,0,,LS,Running,107,120,110\nearly,1000,10,0,0,,LS,Running,100,130,100\n"
    found = import_files([written(tmp_path, PODS + rows)])
    assert [(each.at_s, each.pod.name, each.run_s) for each in found.arrivals] == [(0, "early", 30), (7, "late", 10)]
    assert "2 × qos of a pod: nothing that scheduling reads" in found.not_simulated


def test_a_share_of_a_gpu_and_the_models_that_will_do_are_kept(tmp_path: Path) -> None:
    (arrival,) = import_files([written(tmp_path, PODS + "p,1000,10,2,500,T4|P100,,,0,,\n")]).arrivals
    pod = arrival.pod
    assert pod.spec.containers[0].resources.requests[GPU_MILLI] == "1000"
    assert pod.metadata.annotations == {GPU_COUNT: "2", GPU_MILLI: "500", GPU_MODEL: "T4|P100"}
    assert pod.spec.affinity is not None and pod.spec.affinity.node_affinity is not None
    required = pod.spec.affinity.node_affinity.required
    assert required is not None
    assert required.node_selector_terms[0].match_expressions[0].values == ["T4", "P100"]
    assert arrival.run_s is None
    assert any("which GPU" in line for line in import_files([tmp_path / "table.csv"]).not_simulated)


def test_a_pod_without_scheduling_time_counts_from_its_creation_and_that_is_named(tmp_path: Path) -> None:
    found = import_files([written(tmp_path, PODS + "p,1,1,0,0,,,,5,9,\n")])
    assert found.arrivals[0].run_s == 4
    assert any("without scheduled_time" in line for line in found.not_simulated)


def test_pods_without_times_arrive_together_in_the_order_of_the_table(tmp_path: Path) -> None:
    found = import_files([written(tmp_path, SHORT + "b,1,1,0,0\na,1,1,0,0\n")])
    assert [(each.at_s, each.pod.name) for each in found.arrivals] == [(0, "b"), (0, "a")]


def test_pods_of_one_shape_share_a_spec_and_no_name(tmp_path: Path) -> None:
    one, two = import_files([written(tmp_path, SHORT + "b,1,1,1,9\na,1,1,1,9\n")]).arrivals
    assert one.pod.spec is two.pod.spec
    assert one.pod.uid != two.pod.uid and one.pod.metadata.annotations is not two.pod.metadata.annotations


def test_two_tables_make_one_import(tmp_path: Path) -> None:
    nodes = written(tmp_path, NODES + "a,1000,10,0,\n", "nodes.csv")
    pods = written(tmp_path, SHORT + "p,1,1,0,0\n", "pods.csv")
    assert import_files([pods, nodes]).summary() == "1 node, 1 pod that arrives"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", "line 1: columns nothing; expected openb's nodes", id="an empty file"),
        pytest.param(NODES + "\n", "nothing below the header; expected a row for each node or pod", id="only a header"),
        pytest.param("name,cpu_milli\np,1\n", "line 1: no column 'memory_mib'; found name, cpu_milli; expected name",
                     id="a missing column"),
        pytest.param(NODES + "a,1,1,0,\n\na,1,1,0,\n", "line 4: a is already in line 2", id="a node twice"),
        pytest.param(SHORT + "a,1,1,0,0\na,1,1,0,0\n", "line 3: a is already in line 2", id="a pod twice"),
        pytest.param(NODES + "Node One,1,1,0,\n", "line 2: sn: 'Node One' is not a name; expected", id="a node's name"),
        pytest.param(SHORT + "a_b,1,1,0,0\n", "line 2: name: 'a_b' is not a name; expected", id="a pod's name"),
        pytest.param(NODES + "a,1,1,2,T 4\n", "line 2: model: 'T 4' is not a model; expected", id="a node's model"),
        pytest.param(SHORT.strip() + ",gpu_spec\na,1,1,1,500,T4||G2\n", "line 2: gpu_spec: '' is not a model; expected",
                     id="a pod's models"),
        pytest.param(SHORT + "a" * 64 + ",1,1,0,0\n", "is not a name; expected at most 63", id="a long name"),
        pytest.param(NODES + "a,1.5,1,0,\n", "line 2: cpu_milli: '1.5', expected a whole number", id="half a milli"),
        pytest.param(NODES + "a,-5,1,0,\n", "line 2: cpu_milli: a negative number, expected", id="a negative amount"),
        pytest.param(NODES + "a,1_0,1,0,\n", "line 2: cpu_milli: '1_0', expected", id="a number in Python syntax"),
        pytest.param(NODES + f"a,{10**30},1,0,\n", "line 2: cpu_milli: 1000", id="a number beyond all machines"),
        pytest.param(NODES + ",1,1,0,\n", "line 2: sn: empty, expected text", id="no name"),
        pytest.param(NODES + "a,1,1\n", "line 2: 3 values where the header has 5 columns", id="values are missing"),
        pytest.param(NODES + 'a,"1,1,0,\n', "line 2: unexpected end of data", id="a quotation without end"),
        pytest.param(PODS + "p,1,1,0,0,,,,10,5,10\n", "line 2: deletion_time 5 is before creation_time 10",
                     id="a pod that ends before it comes"),
        pytest.param(PODS + "p,1,1,0,0,,,,1,5,6\n", "line 2: deletion_time 5 is before scheduled_time 6",
                     id="a negative run time"),
        pytest.param(PODS + "p,1,1,0,0,,,,5,999999999,5\n", "line 2: deletion_time 999999999; expected at most ten",
                     id="a run time without end"),
        pytest.param(PODS + "p,1,1,0,0,,,,7,9,6\n", "line 2: scheduled_time 6 is before creation_time 7",
                     id="scheduled before it comes"),
        pytest.param(SHORT + "p,1,1,1,2000\n", "line 2: gpu_milli: 2000, expected 1 to 1000", id="more than one GPU"),
        pytest.param(SHORT + "p,1,1,1,0\n", "line 2: gpu_milli: 0, expected 1 to 1000", id="nothing of a GPU"),
        pytest.param("sn,sn,cpu_milli,memory_mib,gpu,model\n", "line 1: the column 'sn' occurs twice",
                     id="a column twice"),
        pytest.param("colour,taste\nred,sweet\n", "line 1: columns colour, taste; expected openb's nodes",
                     id="another table"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_in_one_line(tmp_path: Path, text: str, want: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        import_files([path])
    message = str(caught.value)
    assert message.startswith(str(path)) and "\n" not in message
    assert want.format(path=path) in message


def test_a_node_in_two_files_is_a_mistake(tmp_path: Path) -> None:
    one, two = (written(tmp_path, NODES + "a,1,1,0,\n", name) for name in ("one.csv", "two.csv"))
    with pytest.raises(InputError, match=r"Node a is in two of them"):
        import_files([one, two])
