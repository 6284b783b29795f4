"""What kubectl prints, in files and directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.api.errors import InputError
from mooring.sim.imports.read import import_files


def obj(kind: str, name: str, version: str = "v1", owner: tuple[str, str] | None = None, **more: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": "shop"}
    if owner is not None:
        meta["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
    return {"apiVersion": version, "kind": kind, "metadata": meta, **more}


TEMPLATE = {"template": {"spec": {"containers": [{"name": "c"}]}}}
CONTAINERS = {"containers": [{"name": "c"}]}


def test_lists_documents_and_directories_are_one_cluster(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "nodes.json").write_text(
        json.dumps({"kind": "List", "items": [obj("Node", "a"), obj("Node", "b")]})
    )
    (tmp_path / "pods.yaml").write_text(
        "".join(f"---\n{json.dumps(obj('Pod', name, spec=CONTAINERS))}\n" for name in ("x", "y"))
    )
    found = import_files([tmp_path])
    assert found.summary() == "2 nodes, 2 pods"
    assert found.format == "Kubernetes manifests"


def test_a_workload_whose_pods_are_there_is_not_expanded_again(tmp_path: Path) -> None:
    items = [
        obj("Deployment", "web", "apps/v1", spec=TEMPLATE),
        obj("ReplicaSet", "web-1", "apps/v1", ("Deployment", "web"), spec=TEMPLATE),
        obj("Pod", "web-1-x", owner=("ReplicaSet", "web-1"), spec=CONTAINERS),
        obj("Deployment", "new", "apps/v1", spec=TEMPLATE),
        obj("ConfigMap", "c"),
        obj("Pod", "done", spec=CONTAINERS, status={"phase": "Succeeded"}),
    ]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    found = import_files([path])
    assert [each["metadata"]["name"] for each in found.workloads] == ["new"]
    assert sorted(each.name for each in found.objects) == ["web-1", "web-1-x"]
    assert "1 × ConfigMap: scheduling does not read it" in found.not_simulated
    assert "1 × Pod that has ended: scheduling does not see it" in found.not_simulated
    assert any(line.startswith("1 × Deployment whose pods are in the file") for line in found.not_simulated)


@pytest.mark.parametrize(
    ("name", "data", "want"),
    [
        pytest.param("a.yaml", b"kind: [", "expected", id="no YAML"),
        pytest.param("a.yaml", b"hello", "expected a Kubernetes object", id="a text"),
        pytest.param("a.bin", b"\xff\xfe\x00", "not UTF-8 text (byte 0); expected one of: openb CSV", id="other bytes"),
        pytest.param("a.json", b'{"a": 1}', "an object without kind", id="some JSON"),
        pytest.param("a.json", b'{"a": 1', "expected JSON", id="JSON that was cut"),
    ],
)
def test_an_unknown_format_is_reported(tmp_path: Path, name: str, data: bytes, want: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        import_files([path])
    assert str(path) in str(caught.value) and want in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent: no such file or directory"):
        import_files([tmp_path / "absent"])


def test_at_least_one_file_is_needed() -> None:
    with pytest.raises(InputError, match="no file to import"):
        import_files([])


@pytest.mark.parametrize("text", ["", "apiVersion: v1\nkind: List\nitems: []\n"], ids=["no text", "an empty list"])
def test_a_file_without_an_object_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"pods\.yaml: no object; expected nodes, pods or workloads"):
        import_files([path])
