"""Groups in questions: found by name, and decided with the version that supports them."""

from __future__ import annotations

import pytest

from mooring.api.errors import InputError
from mooring.ask.asked_pod import asked_group, with_groups
from mooring.ask.scheduler import Scheduler
from mooring.core.cluster import Cluster
from mooring.core.config.features import Features
from mooring.core.config.versions import V1_36, V1_37
from mooring.testing import make_node, make_pod, make_pod_group


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("podgroup/ml/train", "ml/train", id="with a namespace"),
        pytest.param("pg/train", "here/train", id="in the namespace at hand"),
        pytest.param("ml/train", "", id="a pod"),
    ],
)
def test_how_a_group_is_named(text, want):
    assert asked_group(text, "here") == want


@pytest.mark.parametrize(
    ("version", "groups", "want"),
    [
        pytest.param(V1_37, [], {}, id="without groups the gates stay as they are"),
        pytest.param(
            V1_37, [make_pod_group("g")], {"GenericWorkload": True}, id="a cluster with groups has the gate on"
        ),
        pytest.param(
            V1_37,
            [make_pod_group("g", topology="rack")],
            {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True},
            id="and that for topologies if a group has one",
        ),
        pytest.param(V1_36, [make_pod_group("g")], {}, id="a version that cannot schedule them"),
    ],
)
def test_the_gates_that_groups_need(version, groups, want):
    assert with_groups(Features(version), groups).changed() == want


def cluster():
    found = Cluster()
    pods = [make_pod(f"p{i}", group="g", cpu="2") for i in "12"]
    found.add(make_node("a", cpu="2"), make_pod_group("g", gang=2), *pods)
    return found


def test_a_group_is_explained_from_python():
    found = Scheduler(cluster(), kubernetes_version="1.37").explain_group("g")
    assert found.headline == "1 of 2 pods of group g fit; 1 more needs 2 CPU"
    assert repr(found).startswith(found.headline)


def test_a_group_that_is_not_there():
    with pytest.raises(InputError, match="there is no PodGroup default/h; there are default/g"):
        Scheduler(cluster(), kubernetes_version="1.37").explain_group("h")


def test_a_version_without_groups():
    with pytest.raises(InputError, match=r"Kubernetes 1\.36 does not schedule PodGroups; 1\.37 does"):
        Scheduler(cluster(), kubernetes_version="1.36").explain_group("g")
