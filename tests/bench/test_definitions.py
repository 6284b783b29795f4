"""Definitions: both our own and Kubernetes' are read, parameters find their places, mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.api.errors import InputError, UsageError
from mooring.bench.perf.definitions import Definitions, load
from mooring.bench.perf.templates import Template
from mooring.bench.workloads import DIRECTORY

UPSTREAM = Path(__file__).parents[3] / "shared" / "scheduler_perf"
needs_upstream = pytest.mark.skipif(not UPSTREAM.is_dir(), reason="Kubernetes' own definitions are not beside us")


def every_template(definitions: Definitions) -> set[Path]:
    found = {w.default_pod_template for w in definitions.workloads if w.default_pod_template}
    for workload in definitions.workloads:
        for step in workload.steps:
            for value in step.values.values():
                found.update(
                    item for item in (value if isinstance(value, tuple) else [value]) if isinstance(item, Path)
                )
    return found


@needs_upstream
def test_all_of_kubernetes_definitions_are_read() -> None:
    definitions = load(UPSTREAM)
    assert {"affinity", "dra", "event_handling", "misc", "topology_spreading", "volumes"} <= {
        workload.topic for workload in definitions.workloads
    }
    assert len(definitions.workloads) > 200
    basic = definitions.select(["SchedulingBasic/5000Nodes_10000Pods"])[0]
    assert (basic.threshold, basic.params["measurePods"]) == (270, 10000)
    claims = definitions.select(["SchedulingWithResourceClaimTemplate/5000pods_500nodes"])[0]
    assert claims.threshold == 40, "a threshold that is a map counts for its topic"


@needs_upstream
def test_all_templates_of_kubernetes_are_rendered() -> None:
    for path in every_template(load(UPSTREAM)):
        assert Template.read(path).render(3, 10)["kind"]


@needs_upstream
def test_our_own_definitions_have_the_same_cases_and_numbers() -> None:
    """Ours leave out what v1.36 cannot do any more: queueing hints off."""
    topics = ("affinity", "event_handling", "misc", "topology_spreading", "volumes")
    theirs = {w.full_name: dict(w.params) for w in load(UPSTREAM).workloads if w.topic in topics}
    ours = {w.full_name: dict(w.params) for w in load(DIRECTORY).workloads if w.topic in topics}
    assert {name.partition("/")[0] for name in theirs} == {name.partition("/")[0] for name in ours}
    assert {name: params for name, params in ours.items() if name in theirs and theirs[name] != params} == {}


def test_our_own_definitions_are_read_and_rendered() -> None:
    definitions = load(DIRECTORY)
    for path in every_template(definitions):
        template = Template.read(path)
        assert template.kind().kind == template.render(3, 10)["kind"]
    cases = {workload.case for workload in definitions.workloads}
    assert {w.case for w in definitions.select(labels=["integration-test"])} == cases, "each case has a tiny workload"
    assert 8 <= len(definitions.select(labels=["quick"])) <= 16


def write(folder: Path, text: str) -> Path:
    (folder / "performance-config.yaml").write_text(text)
    return folder


CASE = """
- name: One
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes}
  - opcode: createPodSets
    countParam: $sets
    namespacePrefix: team
    createPodsOp: {opcode: createPods, count: 2}
  - {opcode: createPods, count: 5, durationParam: $long, steadyState: true}
  - {opcode: barrier, labelSelector: {matchLabels: {a: b}}, stageRequirement: Attempted}
  workloads:
  - {name: small/one, params: {nodes: 3, sets: 2, long: 500ms}, labels: [short, nightly], threshold: 10}
  - {name: large, params: {nodes: 30, sets: 0, long: 1m}, labels: [nightly]}
"""


def test_parameters_are_taken_from_the_workload_and_sets_are_unrolled(tmp_path: Path) -> None:
    small, large = load(write(tmp_path, CASE)).workloads
    assert [step.opcode for step in small.steps] == ["createNodes", "createPods", "createPods", "createPods", "barrier"]
    assert [step.namespace for step in small.steps[1:4]] == ["team-0", "team-1", "namespace-3"]
    assert small.steps[0].get("count") == 3
    assert small.steps[3].get("duration") == 0.5
    assert small.steps[4].get("labelSelector") == {"a": "b"}
    assert large.steps[1].namespace == "namespace-1", "positions count after unrolling"


@pytest.mark.parametrize(
    ("names", "labels", "want"),
    [
        pytest.param([], [], ["small/one", "large"], id="everything"),
        pytest.param(["One"], [], ["small/one", "large"], id="a case"),
        pytest.param(["One/small/one"], [], ["small/one"], id="a workload with a slash in its name"),
        pytest.param(["*/l*"], [], ["large"], id="a pattern"),
        pytest.param([], ["nightly,-short"], ["large"], id="labels, one of them not"),
        pytest.param([], ["short", "nightly,-short"], ["small/one", "large"], id="one list of labels or another"),
    ],
)
def test_workloads_are_selected(tmp_path: Path, names: list[str], labels: list[str], want: list[str]) -> None:
    assert [workload.name for workload in load(write(tmp_path, CASE)).select(names, labels)] == want


def test_an_unknown_name_selects_nothing(tmp_path: Path) -> None:
    definitions = load(write(tmp_path, CASE))
    with pytest.raises(UsageError, match="no workload 'Two'"):
        definitions.select(["Two"])
    with pytest.raises(UsageError, match="labels weekly"):
        definitions.select(labels=["weekly"])


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        pytest.param("opcode: createNodes", "opcode: buyNodes", "found 'buyNodes'", id="unknown opcode"),
        pytest.param("countParam: $nodes", "countParam: nodes", "$ and the name of a param", id="a param without $"),
        pytest.param("countParam: $nodes", "countParam: $moons", "no param 'moons'", id="a param that is not there"),
        pytest.param("countParam: $nodes", "colour: red", "createNodes has no such field", id="an unknown field"),
        pytest.param("opcode: createNodes, countParam: $nodes", "opcode: createNodes", "needs count", id="no count"),
        pytest.param("count: 5,", "count: -5,", "expected a number, found -5", id="a negative count"),
        pytest.param("count: 5,", "count: true,", "expected a number, found True", id="a count that is none"),
        pytest.param("Attempted", "Considered", "expected Scheduled or Attempted", id="an unknown stage"),
        pytest.param("long: 500ms", "long: forever", "expected a duration such as 10s", id="a duration that is none"),
        pytest.param(
            "threshold: 10",
            "threshold: many",
            "expected a number of pods per second, found 'many'",
            id="a threshold that is none",
        ),
        pytest.param("- name: One", "- title: One", "without a name", id="a case without a name"),
        pytest.param("count: 5,", "count: 5, podTemplatePath: no.yaml,", "no.yaml: no such file", id="a missing file"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in CASE
    with pytest.raises(InputError) as caught:
        load(write(tmp_path, CASE.replace(old, new, 1)))
    assert complaint in str(caught.value)
    assert "performance-config.yaml" in str(caught.value)


def test_a_directory_without_definitions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no performance-config\.yaml"):
        load(tmp_path)
    with pytest.raises(UsageError, match="no such directory"):
        load(tmp_path / "nowhere")
