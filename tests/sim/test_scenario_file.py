"""Scenarios as YAML: every step, and one clear line for every mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import yaml
from mooring.api.errors import InputError
from mooring.sim.expectations import value_at
from mooring.sim.player import PlayResult, run_in_virtual_time
from mooring.sim.scenario_file import parse_scenario
from mooring.sim.worlds import PlaySettings

SPEC = "{terminationGracePeriodSeconds: 1, containers: [{name: c, image: i}]}"
POD = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: " + SPEC + "}"


def _play(text: str, folder: Path = Path()) -> tuple[PlayResult, str]:
    lines: list[str] = []
    scenario = parse_scenario(text, source="story.yaml", folder=folder, name="story")
    return run_in_virtual_time(scenario, PlaySettings(write=lines.append)), "\n".join(lines)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            f"[{{nodes: {{count: 1}}}}, {{apply: {POD}}}, {{expect: {{pod: p, node: node1}}}}]", id="nodes, apply"
        ),
        pytest.param(
            f"[{{nodes: {{name: worker}}}}, {{create: [{POD}]}}, {{wait: {{for: pod/p, condition: Ready}}}}]",
            id="create, wait",
        ),
        pytest.param(f"[{{create: {POD}}}, {{expect: {{pod: p, pending: no nodes available}}}}]", id="pending"),
        pytest.param(
            f"[{{create: {POD}}}, {{delete: pod/p}}, {{expect: {{object: pod/p, exists: false}}}}]", id="delete"
        ),
        pytest.param(
            f"[{{nodes: {{}}}}, {{create: {POD}}}, {{expect: {{pod: p, phase: Running}}}}, "
            "{delete: {target: pod/p, gracePeriodSeconds: 0, wait: true}}]",
            id="delete and wait",
        ),
        pytest.param(
            "[{nodes: {count: 2}}, {patch: {target: node/node2, patch: {metadata: {labels: {a: b}}}}}, "
            "{expect: {object: node/node2, fields: {metadata.labels.a: b}}}]",
            id="patch, fields",
        ),
        pytest.param(
            "[{nodes: {count: 3, from: 0, zones: [a, b]}}, {expect: {count: nodes, is: 2, "
            "labels: topology.kubernetes.io/zone=a}}]",
            id="zones, count",
        ),
        pytest.param(
            "[{nodes: {}}, {fail: node1}, {wait: {for: node/node1, condition: Ready}}, {advance: 70s}, "
            "{expect: {object: node/node1, fields: {spec.taints.0.key: node.kubernetes.io/unreachable}}}, "
            "{recover: node1}, {wait: {for: node/node1}}]",
            id="fail, advance, recover",
        ),
        pytest.param(
            f"[{{nodes: {{}}}}, {{create: {POD}}}, {{expect: {{pod: p, event: Scheduled, message: to node1}}}}]",
            id="event",
        ),
        pytest.param("[{say: hello}, {advance: 1m}]", id="say"),
        pytest.param(
            "[{nodes: {count: '2', name: 'n{i}', from: 7, cpu: 2, memory: 1Gi, pods: 5, labels: {rack: 1}, "
            "taints: ['a=b:NoSchedule', 'c:NoExecute'], capacity: {example.com/gpu: 2}, unschedulable: true}}, "
            "{expect: {object: node/n8, fields: {metadata.labels.rack: '1', spec.unschedulable: true, "
            "spec.taints.0.value: b, spec.taints.1.effect: NoExecute, status.capacity.example.com/gpu: '2'}}}]",
            id="every field of nodes",
        ),
        pytest.param(
            f"[{{create: {POD}}}, {{patch: {{target: pod/p, type: json, patch: "
            "[{op: add, path: /metadata/labels, value: {a: b}}]}}, {expect: {count: pods, labels: a=b, is: 1}}]",
            id="a JSON patch",
        ),
        pytest.param(
            f"[{{nodes: {{}}}}, {{create: {POD}}}, {{expect: {{count: pods, placed: true, phase: Running, is: 1}}}},"
            " {expect: {count: pods, placed: false, is: 0}}]",
            id="counts of placed pods",
        ),
        pytest.param(
            "[{create: {apiVersion: v1, kind: Namespace, metadata: {name: team-a}}}, "
            f"{{create: {POD.replace('name: p', 'name: p, namespace: team-a')}}}, "
            "{expect: {count: pods, is: 0}}, {expect: {count: pods, namespace: team-a, is: 1}}, "
            "{expect: {pod: pod/team-a/p, pending: true}}]",
            id="another namespace",
        ),
        pytest.param(
            "[{apply: {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: rs}, spec: {replicas: 1, "
            f"selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, spec: {SPEC}}}}}}}}}, "
            "{scale: {target: rs/rs, replicas: 3}}, {expect: {count: pods, is: 3}}, "
            "{delete: {target: rs/rs, propagation: Orphan}}, {expect: {count: po, is: 3}}]",
            id="scale, orphan",
        ),
        pytest.param(
            f"[{{nodes: {{}}}}, {{create: {POD}}}, {{wait: {{for: pod/p}}}}, {{delete: [pod/p]}}, "
            "{wait: {for: pod/p, deleted: true, within: 40s}}]",
            id="wait for the end",
        ),
        pytest.param(
            f"[{{create: {POD}}}, {{expect: [{{pod: p, pending: true, for: 5s}}, {{pod: p, nominated: ''}}, "
            "{object: pod/p, event: FailedScheduling, message: no nodes}]}]",
            id="several expectations",
        ),
        pytest.param(
            '[{apply: "apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: c}\\n"}, {expect: {object: cm/c}}]',
            id="a manifest as text",
        ),
    ],
)
def test_steps(steps: str) -> None:
    result, text = _play(f"steps: {steps}")
    assert result.held, text


@pytest.mark.parametrize(
    ("text", "title"),
    [
        pytest.param("title: First line", "First line", id="a title"),
        pytest.param("title: ' '\ndescription: |\n  Two\n  lines", "Two", id="a description"),
        pytest.param("name: other", "story", id="none: the file's name"),
    ],
)
def test_the_title(text: str, title: str) -> None:
    assert parse_scenario(f"{text}\nsteps: []", source="story.yaml", folder=Path(), name="story").title == title


def test_a_configuration_from_a_file_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("profiles: [{schedulerName: mine}]")
    scenario = parse_scenario("config: config.yaml\nsteps: []", source="s", folder=tmp_path, name="s")
    assert scenario.config == {"profiles": [{"schedulerName": "mine"}]}


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
VERBS = ["say", "nodes", "apply", "create", "patch", "scale", "delete", "fail", "recover", "advance", "wait", "expect"]
FIELDS = [
    "target",
    "patch",
    "type",
    "replicas",
    "for",
    "within",
    "condition",
    "pod",
    "node",
    "nodes",
    "pending",
    "object",
    "fields",
    "count",
    "is",
    "labels",
    "name",
    "from",
    "zones",
    "taints",
    "cpu",
    "apiVersion",
    "kind",
    "metadata",
    "gracePeriodSeconds",
    "event",
    "message",
]


@given(st.sampled_from(VERBS), PLAIN | st.dictionaries(st.sampled_from(FIELDS), PLAIN, max_size=4))
def test_whatever_a_step_says_it_is_a_step_or_a_clear_mistake(verb: str, value: Any) -> None:
    text = yaml.dump({"steps": [{verb: value}]})
    try:
        parse_scenario(text, source="story.yaml", folder=Path("/nowhere"), name="story")
    except InputError as error:
        assert str(error).startswith("story.yaml: ") and "\n" not in str(error)


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param("a", 1, id="a key"),
        pytest.param("b.c", 2, id="a path"),
        pytest.param("b.d.1", "y", id="an item of a list"),
        pytest.param("b.d.7", None, id="an item that is not there"),
        pytest.param("b.e.0.f", 3, id="a key of an item"),
        pytest.param("b.x.y/z", 4, id="a key with a dot"),
        pytest.param("b.x.y/z.g", None, id="below a number"),
        pytest.param("nope.deeper", None, id="nothing"),
    ],
)
def test_the_value_at_a_path(path: str, want: Any) -> None:
    obj = {"a": 1, "b": {"c": 2, "d": ["x", "y"], "e": [{"f": 3}], "x.y/z": 4}}
    assert value_at(obj, path) == want


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
    config = (
        "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, "
        "profiles: [{plugins: {filter: {enabled: [{name: Never}]}}}]}"
    )
    steps = f"[{{nodes: {{}}}}, {{create: {POD}}}, {{expect: {{pod: p, pending: 1 not here}}}}]"
    result, text = _play(f"plugins: [mine.py]\nconfig: {config}\nsteps: {steps}", tmp_path)
    assert result.held, text


def test_an_expectation_that_does_not_hold_says_what_was_found() -> None:
    result, text = _play(
        f"steps: [{{nodes: {{}}}}, {{create: {POD}}}, {{expect: {{pod: p, node: node7, within: 5s}}}}]"
    )
    assert result.failure == "story.yaml: steps[2]: pod/p is on node7: not within 5s; it is on node1"
    assert "FAILED" in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("- 1", "not a scenario; expected a mapping with a list of steps", id="a list"),
        pytest.param("steps: 3", "not a scenario", id="no list of steps"),
        pytest.param("steps: []\nextra: 1", "unknown field 'extra'", id="an unknown field"),
        pytest.param(
            "steps: [{jump: 1}]", r"steps\[0\]: no step 'jump'; there are advance, apply", id="an unknown step"
        ),
        pytest.param("steps: [{say: a, advance: 1s}]", "found a mapping with say, advance", id="two steps in one"),
        pytest.param("steps: [text]", "expected one of advance, .*found 'text'", id="a step that is no mapping"),
        pytest.param(
            "steps: [{advance: soon}]", "expected a duration such as 30s or 5m, found 'soon'", id="not a duration"
        ),
        pytest.param("steps: [{advance: 100000d}]", "expected at most 3650d, found '100000d'", id="too long"),
        pytest.param("steps: [{apply: {kind: Foo, apiVersion: v1}}]", "no such kind is served", id="an unknown kind"),
        pytest.param("steps: [{apply: []}]", "no manifest", id="nothing to apply"),
        pytest.param("steps: [{apply: missing.yaml}]", "missing.yaml: No such file", id="a missing file"),
        pytest.param("steps: [{delete: web}]", "expected kind/name .*found 'web'", id="no kind"),
        pytest.param("steps: [{delete: node/a/b}]", "a Node has no namespace", id="a namespace too many"),
        pytest.param("steps: [{patch: {target: pod/p}}]", "patch is missing", id="no patch"),
        pytest.param(
            "steps: [{patch: {target: pod/p, patch: {}, type: x}}]",
            "expected the type merge, strategic, json, found 'x'",
            id="patch type",
        ),
        pytest.param(
            "steps: [{expect: {podd: p}}]",
            "expected pod, object, count or measure, found a mapping with podd",
            id="nothing expected",
        ),
        pytest.param("steps: [{expect: {pod: p, nodde: n}}]", "unknown field 'nodde'", id="an unknown expectation"),
        pytest.param("steps: [{nodes: {count: 2, name: n}}]", "a name with {i} in it", id="two nodes, one name"),
        pytest.param("steps: [", "story.yaml", id="not YAML"),
        pytest.param(
            "steps: [{nodes: {count: many}}]",
            "count: expected a whole number from 0 to 10000, found 'many'",
            id="a count that is no number",
        ),
        pytest.param("steps: [{nodes: {count: 100000}}]", "found 100000", id="too many nodes"),
        pytest.param("steps: [{nodes: {count: true}}]", "count: expected a whole number", id="a truth for a number"),
        pytest.param("steps: [{nodes: {zones: 3}}]", "zones: expected a list of strings, found 3", id="zones"),
        pytest.param("steps: [{nodes: {labels: [a]}}]", "labels: expected a mapping, found a list", id="labels"),
        pytest.param("steps: [{nodes: {taints: [a]}}]", "taint 'a'", id="a taint without an effect"),
        pytest.param(
            "steps: [{nodes: [a]}]", "expected a mapping with capacity, count, .* found a list", id="a list of nodes"
        ),
        pytest.param("steps: [{nodes: null}]", "found nothing", id="a step without a value"),
        pytest.param("steps: [{advance: .inf}]", "expected a duration", id="endless"),
        pytest.param("steps: [{advance: -1}]", "found -1", id="back in time"),
        pytest.param(
            "steps: [{scale: {target: rs/a, replicas: few}}]", "replicas: expected a whole number", id="replicas"
        ),
        pytest.param(
            "steps: [{scale: {target: 3, replicas: 1}}]", "expected kind/name .*found '3'", id="a number for an object"
        ),
        pytest.param("steps: [{delete: 3}]", "expected a mapping with gracePeriodSeconds, .* found 3", id="delete 3"),
        pytest.param("steps: [{delete: {target: {}}}]", "target: expected a list of strings", id="delete a mapping"),
        pytest.param(
            "steps: [{delete: {target: pod/p, gracePeriodSeconds: x}}]", "gracePeriodSeconds: expected", id="grace"
        ),
        pytest.param(
            "steps: [{delete: {target: pod/p, propagation: x}}]", "propagation: expected Background", id="how"
        ),
        pytest.param("steps: [{apply: {apiVersion: v1, kind: Pod}}]", "Pod: metadata.name is missing", id="no name"),
        pytest.param(
            "steps: [{apply: {apiVersion: v1, kind: Pod, metadata: x}}]", "metadata: expected a mapping", id="meta"
        ),
        pytest.param("steps: [{apply: 3}]", "a manifest is a mapping or YAML text, not int", id="a number to apply"),
        pytest.param("steps: [{expect: 3}]", "with pod, object, count or measure, found 3", id="expect 3"),
        pytest.param("steps: [{expect: {count: pods}}]", "is is missing", id="a count of what"),
        pytest.param("steps: [{expect: {count: pods, is: x}}]", "is: expected a whole number", id="a count of x"),
        pytest.param("steps: [{expect: {count: pods, is: 1, perNode: 1}}]", "unknown field 'perNode'", id="perNode"),
        pytest.param("steps: [{expect: {count: gadgets, is: 1}}]", "no kind 'gadgets'", id="a kind that is not there"),
        pytest.param("steps: [{expect: {pod: p, node: a, nodes: [b]}}]", "exclude each other", id="node and nodes"),
        pytest.param("steps: [{expect: {pod: p, for: later}}]", "expected a duration", id="for later"),
        pytest.param("steps: [{expect: {pod: p, message: x}}]", "name the event as well", id="a message of no event"),
        pytest.param(
            "steps: [{expect: {object: pod/p, exists: false, fields: {a: b}}}]", "has no fields", id="fields of none"
        ),
        pytest.param(
            "steps: [{expect: {object: pod/p, fields: [a]}}]", "fields: expected a mapping", id="a list of fields"
        ),
        pytest.param("steps: [{wait: {for: p}}]", "expected kind/name .*found 'p'", id="wait for what"),
        pytest.param("steps: [{wait: {for: pod/p, within: x}}]", "expected a duration", id="wait how long"),
        pytest.param("steps: []\nconfig: 3", "config: expected a mapping, found 3", id="a configuration of 3"),
        pytest.param("steps: []\nconfig: gone.yaml", "gone.yaml: No such file", id="a configuration that is not there"),
        pytest.param("steps: []\nplugins: {a: b}", "plugins: expected a list of strings", id="plugins"),
    ],
)
def test_mistakes(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_scenario(text, source="story.yaml", folder=Path(), name="story")
