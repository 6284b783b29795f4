"""Objects by name: which kinds there are, and what was probably meant."""

from __future__ import annotations

import pytest

from mooring.api.core import Node, Pod
from mooring.api.errors import InputError
from mooring.api.manifests import READ_KINDS
from mooring.api.storage import PersistentVolumeClaim, StorageClass
from mooring.core.cluster import nearest_key, parse_reference


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("pod/shop/web", (Pod, "shop/web"), id="a namespace and a name"),
        pytest.param("pod/web", (Pod, "default/web"), id="the default namespace"),
        pytest.param("Pod/web", (Pod, "default/web"), id="as the kind is written"),
        pytest.param("pods/web", (Pod, "default/web"), id="plural"),
        pytest.param("no/a", (Node, "a"), id="a short name"),
        pytest.param("storageclasses/fast", (StorageClass, "fast"), id="a plural that ends in es"),
        pytest.param("pvc/shop/data", (PersistentVolumeClaim, "shop/data"), id="kubectl's abbreviation"),
    ],
)
def test_reference(text: str, want: tuple[type, str]) -> None:
    assert parse_reference(text) == want


@pytest.mark.parametrize("kind", READ_KINDS)
def test_every_kind_that_is_read_can_be_named(kind: str) -> None:
    assert parse_reference(f"{kind.lower()}/x")[0] is READ_KINDS[kind]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "pot/x", "pot/x: 'pot' is not a kind that scheduling reads; did you mean pod?", id="a misspelt kind"
        ),
        pytest.param(
            "web",
            "web: 'web' is not a kind that scheduling reads; expected one such as pod, node or pvc",
            id="a bare name",
        ),
        pytest.param("pod/", "pod/: expected pod/namespace/name", id="no name"),
        pytest.param("pod/a/b/c", "pod/a/b/c: expected pod/namespace/name", id="too many parts"),
        pytest.param("node/default/a", "node/default/a: expected node/name", id="a node has no namespace"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_reference(text)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("key", "known", "want"),
    [
        pytest.param("default/app-8", ["default/app-9", "shop/db"], "default/app-9", id="a similar name"),
        pytest.param("default/web", ["shop/web", "shop/db"], "shop/web", id="the same name elsewhere"),
        pytest.param("b/web", ["a/web-1", "b/web-1"], "b/web-1", id="rather in the same namespace"),
        pytest.param("nod-3", ["node-3", "other"], "node-3", id="without a namespace"),
        pytest.param("default/web", ["shop/database"], "", id="nothing like it"),
        pytest.param("default/web", [], "", id="nothing at all"),
    ],
)
def test_nearest_key(key: str, known: list[str], want: str) -> None:
    assert nearest_key(key, known) == want
