"""Reading objects from files, and what bad files get: one line that names file, document and path."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.api.core import Node, Pod, Service
from mooring.api.errors import InputError
from mooring.api.manifests import load_manifests, parse_manifests
from mooring.api.meta import Object

NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: %s}\n"


def test_files_directories_documents_and_lists_mix(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NODE % "n1" + "---\n" + NODE % "n2")
    nested = tmp_path / "dir" / "deeper"
    nested.mkdir(parents=True)
    (nested / "list.json").write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "List",
                "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}],
            }
        )
    )
    (nested / "typed.yml").write_text("apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: q, namespace: shop}\n")
    (nested / "notes.txt").write_text("not a manifest")
    found = load_manifests([tmp_path / "a.yaml", tmp_path / "dir"])
    assert [node.name for node in found.of(Node)] == ["n1", "n2"]
    assert [pod.key for pod in found.of(Pod)] == ["default/p", "shop/q"]


def test_ignored_kinds_are_counted() -> None:
    text = "kind: ConfigMap\napiVersion: v1\n---\nkind: Secret\napiVersion: v1\n---\nkind: ConfigMap\napiVersion: v1\n"
    found = parse_manifests(text, "x.yaml")
    assert found.objects == []
    assert found.ignored_note == "ignored 3 objects that scheduling does not read: 2 ConfigMap, 1 Secret"


def test_another_groups_service_is_not_a_service() -> None:
    found = parse_manifests("apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: s}", "x.yaml")
    assert list(found.of(Service)) == []
    assert found.ignored["Service"] == 1


STORED = "apiVersion: v1\nkind: %s\nmetadata: {name: %s, uid: u, resourceVersion: '%s'}\n"


def test_overlapping_dumps_may_show_the_same_stored_object_twice() -> None:
    stored = STORED % ("Node", "n1", 3)
    assert len(parse_manifests(stored + "---\n" + stored, "x.yaml").objects) == 1


@pytest.mark.parametrize("kind", [Node, Pod])
def test_a_copy_under_another_name_is_an_object_of_its_own(kind: type[Object]) -> None:
    """Copying an object of a dump to ask "what if there were more" is a natural move."""
    text = "---\n".join(STORED % (kind.__name__, f"n{i}", 3) for i in range(1000))
    found = list(parse_manifests(text, "x.yaml").of(kind))
    assert [obj.name for obj in found] == [f"n{i}" for i in range(1000)]
    assert len({obj.uid for obj in found}) == 1000
    assert found[0].uid == "u"


def test_a_copy_of_an_object_that_was_read_before_is_one_of_its_own() -> None:
    dump = parse_manifests(STORED % ("Pod", "p1", 3), "dump.yaml")
    (copied,) = parse_manifests(STORED % ("Pod", "p2", 3), "x.yaml", dump).objects
    (same,) = parse_manifests(STORED % ("Pod", "p1", 3), "x.yaml", dump).objects
    assert (copied.uid, same.uid) == ("pod:default/p2", "u")


def test_objects_of_several_kinds_may_have_one_name_and_one_uid() -> None:
    text = STORED % ("Node", "x", 3) + "---\n" + STORED % ("Pod", "x", 3)
    assert [obj.uid for obj in parse_manifests(text, "x.yaml").objects] == ["u", "u"]


def test_unknown_fields_are_noted() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {tolerationz: [], containers: [{image: i}]}"
    found = parse_manifests(text, "x.yaml")
    assert found.unknown_notes == ['x.yaml: Pod p: unknown field "spec.tolerationz"; did you mean tolerations?']
    stored = text.replace("{name: p}", "{name: p, resourceVersion: '1'}")
    assert parse_manifests(stored, "x.yaml").unknown_notes == [], "a server lets none through"


def test_many_unknown_fields_are_a_few_lines() -> None:
    fields = ", ".join(f"a{i}: 1" for i in range(30))
    found = parse_manifests(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{{fields}}}", "x.yaml")
    assert len(found.unknown_notes) == 11
    assert found.unknown_notes[-1] == "20 more fields that Kubernetes does not know"


def test_unknown_fields_and_nulls_are_ignored() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: null}\nspec: {fancy: {new: thing}, containers: null}"
    pod = next(parse_manifests(text, "x.yaml").of(Pod))
    assert (pod.labels, pod.spec.containers) == ({}, [])


def pod_with(spec: str) -> str:
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {spec}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            NODE % "n1" + "---\n" + NODE % "n1",
            "x.yaml, document 2 (line 5): Node n1 is already in x.yaml, document 1 (line 1); "
            "there can be only one of that name",
            id="two nodes of one name",
        ),
        pytest.param(
            STORED % ("Node", "n1", 3) + "---\n" + STORED % ("Node", "n1", 4),
            "x.yaml, document 2 (line 5): Node n1 is already in x.yaml, document 1 (line 1); "
            "there can be only one of that name",
            id="two states of one stored node",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n---\n"
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: default}\n",
            "x.yaml, document 2 (line 5): Pod default/p is already in x.yaml, document 1 (line 1); "
            "there can be only one of that name",
            id="two pods of one name, one without a namespace",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 4x}}",
            "x.yaml: Node n1: status.allocatable[cpu]: '4x' has the unknown suffix 'x'; "
            "use n u m k M G T P E or Ki Mi Gi Ti Pi Ei",
            id="a node's bad quantity",
        ),
        pytest.param(
            pod_with("{containers: [{name: a, resources: {requests: {memory: lots}}}]}"),
            "x.yaml: Pod p: spec.containers[0].resources.requests[memory]: 'lots' is not a quantity; "
            "write a number with a suffix such as 500m, 2 or 1.5Gi",
            id="a pod's bad quantity",
        ),
        pytest.param(
            pod_with("{containers: [{name: a, resources: {limits: {cpu: -1}}}]}"),
            "x.yaml: Pod p: spec.containers[0].resources.limits[cpu]: -1 is negative; it must be 0 or more",
            id="a negative quantity",
        ),
        pytest.param(
            pod_with("{tolerations: [{key: a, operator: Is}]}"),
            "x.yaml: Pod p: spec.tolerations[0].operator: 'Is' is not known; use one of Equal, Exists, Lt, Gt",
            id="a bad operator of a toleration",
        ),
        pytest.param(
            pod_with(
                "{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
                "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Near, values: [b]}]}]}}}}"
            ),
            "x.yaml: Pod p: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            '.nodeSelectorTerms[0].matchExpressions[0]: "Near" is not a valid label selector operator; '
            "use one of In, NotIn, Exists, DoesNotExist, Gt, Lt",
            id="a bad operator of a node selector",
        ),
        pytest.param(
            pod_with(
                "{topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, "
                "labelSelector: {matchExpressions: [{key: a, operator: In}]}}]}"
            ),
            "x.yaml: Pod p: spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0]: a: values: "
            'Invalid value: []: for "in", "notin" operators, values set can\'t be empty',
            id="a bad selector",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nspec: {taints: [{key: a, effect: NoWay}]}",
            "x.yaml: Node n1: spec.taints[0].effect: 'NoWay' is not known; "
            "use one of NoSchedule, PreferNoSchedule, NoExecute",
            id="a bad effect",
        ),
        pytest.param(
            pod_with("{containers: {name: a}}"),
            "x.yaml: Pod p: spec.containers: expected a list, found an object",
            id="an object where a list belongs",
        ),
        pytest.param(
            "kind: List\napiVersion: v1\nitems:\n- 3",
            "x.yaml, items[0]: the value 3, expected a Kubernetes object (apiVersion, kind, metadata)",
            id="a number in a list",
        ),
        pytest.param("a: 1", "x.yaml: an object without kind; expected apiVersion, kind and metadata", id="no kind"),
        pytest.param(
            "kind: Pod\napiVersion: v1\n", "x.yaml: Pod without a name: metadata.name: is missing", id="no name"
        ),
        pytest.param(
            "kind: Pod\nkind: Pod\n", 'x.yaml: line 2: key "kind" already set in map', id="a key that is written twice"
        ),
    ],
)
def test_a_bad_file_gets_one_line(text: str, line: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_manifests(text, "x.yaml")
    assert str(caught.value) == line


def test_a_missing_file_and_an_empty_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.yaml: no such file or directory"):
        load_manifests([tmp_path / "gone.yaml"])
    with pytest.raises(InputError, match="no manifests in this directory"):
        load_manifests([tmp_path])
