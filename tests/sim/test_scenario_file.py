"""Scenarios as YAML: every step, and one clear line for every mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.errors import InputError
from mooring.sim.runner import Result, Settings, run_in_virtual_time
from mooring.sim.scenario_file import parse_scenario

SPEC = "{terminationGracePeriodSeconds: 1, containers: [{name: c, image: i}]}"
POD = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: " + SPEC + "}"


def _play(text: str, folder: Path = Path()) -> tuple[Result, str]:
    lines: list[str] = []
    scenario = parse_scenario(text, source="story.yaml", folder=folder, name="story")
    return run_in_virtual_time(scenario, Settings(write=lines.append)), "\n".join(lines)


@pytest.mark.parametrize("steps", [
    pytest.param(f"[{{nodes: {{count: 1}}}}, {{apply: {POD}}}, {{expect: {{pod: p, node: node1}}}}]",
                 id="nodes, apply"),
    pytest.param(f"[{{nodes: {{name: worker}}}}, {{create: [{POD}]}}, {{wait: {{for: pod/p, condition: Ready}}}}]",
                 id="create, wait"),
    pytest.param(f"[{{create: {POD}}}, {{expect: {{pod: p, pending: no nodes available}}}}]", id="pending"),
    pytest.param(f"[{{create: {POD}}}, {{delete: pod/p}}, {{expect: {{object: pod/p, exists: false}}}}]", id="delete"),
    pytest.param(f"[{{nodes: {{}}}}, {{create: {POD}}}, {{expect: {{pod: p, phase: Running}}}}, "
                 "{delete: {target: pod/p, gracePeriodSeconds: 0, wait: true}}]", id="delete and wait"),
    pytest.param("[{nodes: {count: 2}}, {patch: {target: node/node2, patch: {metadata: {labels: {a: b}}}}}, "
                 "{expect: {object: node/node2, fields: {metadata.labels.a: b}}}]", id="patch, fields"),
    pytest.param("[{nodes: {count: 3, from: 0, zones: [a, b]}}, {expect: {count: nodes, is: 2, "
                 "labels: topology.kubernetes.io/zone=a}}]", id="zones, count"),
    pytest.param("[{nodes: {}}, {fail: node1}, {wait: {for: node/node1, condition: Ready}}, {advance: 70s}, "
                 "{expect: {object: node/node1, fields: {spec.taints.0.key: node.kubernetes.io/unreachable}}}, "
                 "{recover: node1}, {wait: {for: node/node1}}]", id="fail, advance, recover"),
    pytest.param(f"[{{nodes: {{}}}}, {{create: {POD}}}, {{expect: {{pod: p, event: Scheduled, message: to node1}}}}]",
                 id="event"),
    pytest.param("[{say: hello}, {advance: 1m}]", id="say"),
])  # fmt: skip
def test_steps(steps: str) -> None:
    result, text = _play(f"steps: {steps}")
    assert result.held, text


def test_manifests_from_a_file_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    result, text = _play("steps: [{nodes: {}}, {apply: pod.yaml}, {expect: {pod: p, node: node1}}]", tmp_path)
    assert result.held, text


def test_a_plugin_from_a_file_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from mooring import sdk\n"
        "class Never(sdk.NodeFilter):\n"
        "    name = 'Never'\n"
        "    def filter(self, state, pod, node):\n"
        "        return sdk.unschedulable('not here')\n"
    )
    config = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, " \
        "profiles: [{plugins: {filter: {enabled: [{name: Never}]}}}]}"  # fmt: skip
    steps = f"[{{nodes: {{}}}}, {{create: {POD}}}, {{expect: {{pod: p, pending: 1 not here}}}}]"
    result, text = _play(f"plugins: [mine.py]\nconfig: {config}\nsteps: {steps}", tmp_path)
    assert result.held, text


def test_an_expectation_that_does_not_hold_says_what_was_found() -> None:
    result, text = _play(
        f"steps: [{{nodes: {{}}}}, {{create: {POD}}}, {{expect: {{pod: p, node: node7, within: 5s}}}}]"
    )
    assert result.failure == "story.yaml: steps[2]: pod/p is on node7: not within 5s; it is on node1"
    assert "FAILED" in text


@pytest.mark.parametrize(("text", "says"), [
    pytest.param("- 1", "not a scenario; a mapping with a list of steps", id="a list"),
    pytest.param("steps: 3", "not a scenario", id="no list of steps"),
    pytest.param("steps: []\nextra: 1", "unknown field 'extra'", id="an unknown field"),
    pytest.param("steps: [{jump: 1}]", r"steps\[0\]: no step 'jump'; there are advance, apply", id="an unknown step"),
    pytest.param("steps: [{say: a, advance: 1s}]", "say, advance where one of", id="two steps in one"),
    pytest.param("steps: [text]", "str where one of", id="a step that is no mapping"),
    pytest.param("steps: [{advance: soon}]", "'soon' where a duration such as 30s", id="not a duration"),
    pytest.param("steps: [{apply: {kind: Foo, apiVersion: v1}}]", "no such kind is served", id="an unknown kind"),
    pytest.param("steps: [{apply: []}]", "no manifest", id="nothing to apply"),
    pytest.param("steps: [{apply: missing.yaml}]", "missing.yaml: No such file", id="a missing file"),
    pytest.param("steps: [{delete: web}]", "'web' where kind/name", id="no kind"),
    pytest.param("steps: [{delete: node/a/b}]", "a Node is in no namespace", id="a namespace too many"),
    pytest.param("steps: [{patch: {target: pod/p}}]", "patch is missing", id="no patch"),
    pytest.param("steps: [{patch: {target: pod/p, patch: {}, type: x}}]", "merge, strategic or json", id="patch type"),
    pytest.param("steps: [{expect: {podd: p}}]", "podd where pod, object or count", id="nothing expected"),
    pytest.param("steps: [{expect: {pod: p, nodde: n}}]", "unknown field 'nodde'", id="an unknown expectation"),
    pytest.param("steps: [{nodes: {count: 2, name: n}}]", "a name with {i} in it", id="two nodes, one name"),
    pytest.param("steps: [", "story.yaml", id="not YAML"),
])  # fmt: skip
def test_mistakes(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_scenario(text, source="story.yaml", folder=Path(), name="story")
