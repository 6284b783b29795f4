"""Replaying recorded cases: what is applied after a step, and what is never looked at."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mooring.api.codec import to_plain
from mooring.api.errors import InputError, MooringError
from mooring.cli.decide import decide
from mooring.sim.replay import replay_case
from mooring.testing import make_node, make_pod


def wire(obj: Any) -> dict[str, Any]:
    return {"apiVersion": obj.api_version, "kind": obj.kind, **to_plain(obj)}


def case(*steps: dict[str, Any], objects: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    nodes = [make_node("a", cpu="2", zone="z"), make_node("b", cpu="4")]
    return {
        "id": "t-1",
        "family": "t",
        "config": None,
        "objects": [wire(o) for o in nodes + (objects or [])],
        "steps": list(steps),
        **more,
    }


def step(pod: Any, afterwards: str = "deleted", **more: Any) -> dict[str, Any]:
    return {"pod": wire(pod), "afterwards": afterwards, **more}


def decided(*steps: dict[str, Any], **more: Any) -> list[Any]:
    found: list[Any] = replay_case(case(*steps, **more))["steps"]
    return found


def test_the_shape_of_a_placement() -> None:
    (found,) = decided(step(make_pod("p", cpu="1")))
    assert (found["outcome"], found["node"]) == ("scheduled", "b")
    assert set(found["totals"]) == {"a", "b"} and set(found["scores"]) == {"a", "b"}
    assert found["volumes"] == {} and found["devices"] == {}


def test_the_shape_of_a_refusal() -> None:
    (found,) = decided(step(make_pod("p", cpu="9")))
    assert found["outcome"] == "unschedulable" and found["reason"] == "Unschedulable"
    assert found["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert (found["nominatedNode"], found["victims"], found["totals"]) == (None, [], {})


def test_expectations_are_never_looked_at() -> None:
    plain = step(make_pod("p", cpu="1"), "bound:a")
    lying = {**plain, "expect": {"outcome": "gated", "node": "nowhere", "totals": {"x": 1}}}
    assert decided(plain, plain) == decided(lying, lying)


@pytest.mark.parametrize(
    ("afterwards", "fits"),
    [
        pytest.param("bound:b", False, id="it stays where the recording says, not where we put it"),
        pytest.param("deleted", True, id="it is gone"),
        pytest.param("kept", True, id="it waits on"),
    ],
)
def test_afterwards(afterwards: str, fits: bool) -> None:
    big = make_pod("big", cpu="4")
    second = decided(step(big, afterwards), step(make_pod("next", cpu="4")))[1]
    assert (second["outcome"] == "scheduled") is fits


def test_a_bound_pod_gets_its_nodes_topology_labels() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"topology.kubernetes.io/zone": "z"}},
    }
    labels = {"topology.kubernetes.io/zone": "z"}
    pod = make_pod("p", labels=labels, spec={"topologySpreadConstraints": [constraint]})
    found = decided(step(make_pod("first"), "bound:a"), step(pod))[1]
    assert found["node"] == "b", "the first pod carries zone z now and is counted on a"


def test_effects_replace_objects() -> None:
    bigger = wire(make_node("a", cpu="16"))
    found = decided(step(make_pod("p"), effects=[bigger]), step(make_pod("q", cpu="10")))[1]
    assert found["node"] == "a"


def test_pods_of_other_schedulers_are_ignored() -> None:
    other = step(make_pod("p", spec={"schedulerName": "other"}))
    preset = step(make_pod("q", node="a"))
    assert [found["outcome"] for found in decided(other, preset)] == ["ignored", "ignored"]


def test_gated_pods_are_not_tried() -> None:
    (found,) = decided(step(make_pod("p", spec={"schedulingGates": [{"name": "g"}]})))
    assert found["outcome"] == "gated" and found["reason"] == "SchedulingGated"
    assert found["message"] == "Scheduling is blocked due to non-empty scheduling gates"


def test_a_preemptor_is_retried_when_its_victims_are_gone() -> None:
    low = [make_pod("low-a", node="a", cpu="2", priority=0), make_pod("low-b", node="b", cpu="4", priority=0)]
    high = make_pod("high", cpu="2", priority=10)
    (found,) = decided(step(high, "bound:a", then={}), objects=low)
    assert found["outcome"] == "unschedulable" and len(found["victims"]) == 1
    assert found["then"]["outcome"] == "scheduled" and found["then"]["node"] == found["nominatedNode"]


@pytest.mark.parametrize(
    ("priority", "fits"),
    [
        pytest.param(20, True, id="a preemptor of higher priority takes over the nomination"),
        pytest.param(10, False, id="an equally important one does not"),
    ],
)
def test_who_preempts_takes_a_promised_node(priority: int, fits: bool) -> None:
    low, wall = make_pod("low", node="a", cpu="4"), make_pod("wall", node="b", cpu="4", priority=1000)
    gone = wire(make_pod("low", node="a", cpu="4", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    steps = [
        step(make_pod("high", cpu="3", priority=10), "kept", effects=[gone]),
        step(make_pod("higher", cpu="1", priority=priority), "deleted"),
        step(make_pod("other", cpu="1", priority=9)),
    ]
    first, second, third = decided(*steps, objects=[make_node("a", cpu="4", pods=2), low, wall])
    assert (first["nominatedNode"], second["nominatedNode"]) == ("a", "a")
    assert ("Too many pods" not in third["message"]) is fits


@pytest.mark.parametrize(
    ("policy", "promised"),
    [
        pytest.param("Never", "a", id="a pod that may not preempt keeps what it was promised"),
        pytest.param("PreemptLowerPriority", None, id="without victims the nomination is lost"),
    ],
)
def test_a_promise_after_a_refusal(policy: str, promised: str | None) -> None:
    pod = make_pod("p", cpu="9", spec={"preemptionPolicy": policy}, status={"nominatedNodeName": "a"})
    assert decided(step(pod))[0]["nominatedNode"] == promised


def test_a_kept_preemptor_holds_its_nomination() -> None:
    conditions = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    low = [make_pod("low-a", node="a", cpu="2"), make_pod("low-b", node="b", cpu="4")]
    lingering = [
        wire(make_pod(p.name, node=p.spec.node_name, cpu="4" if p.name == "low-b" else "2", **conditions)) for p in low
    ]
    high = make_pod("high", cpu="2", priority=10)
    first, second = decided(
        step(high, "kept", effects=lingering), step(make_pod("next", cpu="1", priority=5)), objects=low
    )
    assert first["nominatedNode"] and second["outcome"] == "unschedulable"


@pytest.mark.parametrize(
    ("broken", "needle"),
    [
        pytest.param({"steps": [1]}, "steps[0]: expected an object, found int", id="a step that is a number"),
        pytest.param({"steps": [{"podd": {}}]}, "found one with podd", id="a step without a pod"),
        pytest.param({"steps": [{"pod": {"spec": 5}}]}, "spec", id="a malformed pod"),
        pytest.param({"steps": {}}, "steps: expected a list, found dict", id="steps that are no list"),
        pytest.param({"objects": 5}, "objects: expected a list, found int", id="objects that are no list"),
        pytest.param(
            {"objects": [None]}, "objects[0]: expected an object, found NoneType", id="an object that is null"
        ),
        pytest.param({"objects": [{"kind": "Node", "metadata": 7}]}, "found int", id="bad metadata"),
        pytest.param({"objects": [{"kind": "Node", "spec": 7}]}, "spec", id="a malformed object"),
        pytest.param({"config": {"profiles": 3}}, "profiles", id="a malformed configuration"),
    ],
)
def test_malformed_cases_are_one_clear_line(broken: dict[str, Any], needle: str) -> None:
    with pytest.raises(MooringError) as caught:
        replay_case({**case(step(make_pod("p"))), **broken})
    assert needle in str(caught.value) and "\n" not in str(caught.value)


class TestCommand:
    def run(self, *arguments: str, data: bytes = b"") -> Any:
        return CliRunner().invoke(decide, list(arguments), input=data)

    def test_reads_plain_and_compressed_files_and_standard_input(self, tmp_path: Path) -> None:
        line = json.dumps(case(step(make_pod("p", cpu="1")))).encode() + b"\n"
        plain, packed = tmp_path / "plain.jsonl", tmp_path / "packed.jsonl.gz"
        plain.write_bytes(line + b"\n" + line)
        packed.write_bytes(gzip.compress(line))
        outputs = [self.run(str(plain)), self.run(str(packed)), self.run("-", data=line)]
        assert [result.exit_code for result in outputs] == [0, 0, 0]
        lines = [json.loads(text) for result in outputs for text in result.output.splitlines()]
        assert len(lines) == 4 and all(found == lines[0] for found in lines)
        assert lines[0]["id"] == "t-1" and lines[0]["steps"][0]["node"] == "b"

    @pytest.mark.parametrize(
        ("data", "needle"),
        [
            (b"{", "standard input, line 1"),
            (b"[]", "not a case; expected an object with id, objects and steps"),
            (b'{"id": "x"}', "not a case"),
            (b"\x1f\x8bnot gzip", "standard input"),
            (b"\xff\xfe", "standard input"),
            (b'{"id": "x", "steps": [5]}', "case x: steps[0]"),
        ],
    )
    def test_bad_input_is_one_clear_line(self, data: bytes, needle: str) -> None:
        result = self.run("-", data=data)
        assert isinstance(result.exception, InputError), result.exception
        assert needle in str(result.exception) and "\n" not in str(result.exception)

    def test_a_missing_file(self) -> None:
        result = self.run("/nowhere/at.all")
        assert isinstance(result.exception, InputError) and "/nowhere/at.all" in str(result.exception)

    def test_a_configuration_instead_of_the_cases_own(self, tmp_path: Path) -> None:
        config = tmp_path / "config.yaml"
        config.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
            "- schedulerName: default-scheduler\n  plugins:\n    score:\n      disabled: [{name: NodeResourcesFit}]\n"
        )
        line = json.dumps(case(step(make_pod("p", cpu="1")))).encode()
        found = json.loads(self.run("-", "--config", str(config), data=line).output)
        assert all("NodeResourcesFit" not in scores for scores in found["steps"][0]["scores"].values())
