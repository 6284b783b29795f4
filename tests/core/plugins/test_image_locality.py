"""ImageLocality (spec 2.17, appendix A.7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mooring.core.config.features import Features
from mooring.core.config.versions import V1_35, V1_36
from mooring.core.plugins.image_locality import ImageLocality
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import normalized_image
from mooring.testing import make_cluster, make_handle, make_node, make_pod, scores

MIB = 2**20


def scored(cluster: ClusterState, pod: Any) -> dict[str, int]:
    found = scores(ImageLocality(None, make_handle(cluster)), cluster, pod)
    assert found is not None
    return found


def world(total: int, **images: tuple[int, int]) -> ClusterState:
    """``total`` nodes n0, n1, …; each image (size in MiB, on how many nodes) is on the first so many of them."""
    return make_cluster(
        *(
            make_node(f"n{i}", images={f"{name}:1": size * MIB for name, (size, on) in images.items() if i < on})
            for i in range(total)
        )
    )


def pod(*images: str, init: tuple[str, ...] = (), volumes: tuple[str, ...] = ()) -> Any:
    return make_pod(
        spec={
            "containers": [{"name": f"c{i}", "image": image} for i, image in enumerate(images)],
            "initContainers": [{"name": f"i{i}", "image": image} for i, image in enumerate(init)],
            "volumes": [{"name": f"v{i}", "image": {"reference": image}} for i, image in enumerate(volumes)],
        }
    )


@pytest.mark.parametrize(
    ("cluster", "of", "wanted"),
    [
        pytest.param(world(2, x=(300, 1)), pod("x:1"), 12, id="300 MiB on 1 of 2 nodes"),
        pytest.param(world(4, x=(1000, 4)), pod("x:1"), 100, id="1000 MiB on 4 of 4"),
        pytest.param(world(2, x=(40, 2)), pod("x:1"), 1, id="40 MiB on 2 of 2"),
        pytest.param(world(4, x=(500, 3), y=(200, 1)), pod("x:1", "y:1"), 20, id="two containers"),
    ],
)
def test_appendix_a7(cluster: ClusterState, of: Any, wanted: int) -> None:
    assert scored(cluster, of)["n0"] == wanted


def test_a_node_without_the_image_scores_nothing() -> None:
    assert scored(world(2, x=(300, 1)), pod("x:1")) == {"n0": 12, "n1": 0}


def test_small_images_do_not_count() -> None:
    assert scored(world(1, x=(23, 1)), pod("x:1")) == {"n0": 0}


def test_init_containers_count_twice_in_the_sum_and_in_the_ceiling() -> None:
    cluster = world(1, x=(1000, 1))
    assert scored(cluster, pod("x:1", init=("x:1",))) == {"n0": 100}
    assert scored(cluster, pod("x:1", init=("none:1",))) == {"n0": 100 * (1000 - 23) // (2000 - 23)}


def test_trap_15_image_volumes_count_in_the_sum_but_not_in_the_ceiling() -> None:
    cluster = world(1, x=(500, 1), v=(400, 1))
    assert scored(cluster, pod("x:1", volumes=("v:1",))) == {"n0": 100 * (900 - 23) // (1000 - 23)}


def test_a_pod_without_containers_scores_nothing() -> None:
    assert scored(world(1, x=(500, 1)), pod(volumes=("x:1",))) == {"n0": 0}


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1", "nginx:1"),
        ("localhost:5000/nginx", "localhost:5000/nginx:latest"),
        ("localhost:5000/nginx:2", "localhost:5000/nginx:2"),
        ("a/b@sha256:0123", "a/b@sha256:0123"),
    ],
)
def test_names_without_a_tag_mean_latest(name: str, normal: str) -> None:
    assert normalized_image(name) == normal


def test_the_number_of_nodes_is_frozen_until_the_node_itself_changes() -> None:
    cluster = world(2, x=(400, 1))
    plugin = ImageLocality(None, make_handle(cluster))
    before = scores(plugin, cluster, pod("x:1"))
    cluster.set_node(make_node("n1", images={"x:1": 400 * MIB}))
    after = scores(plugin, cluster, pod("x:1"))
    assert before is not None and after is not None
    assert after["n0"] == before["n0"], "n0 has not changed: it still counts itself alone"
    assert after["n1"] == 100 * (400 - 23) // (1000 - 23)
    cluster.set_pod(make_pod("p", node="n0"))
    later = scores(plugin, cluster, pod("x:1"))
    assert later is not None and later["n0"] == later["n1"]


def test_image_volumes_count_since_1_36() -> None:
    cluster = world(2, big=(900, 1))
    asked = pod("none:1", volumes=("big:1",))
    handles = [replace(make_handle(cluster), features=Features(version)) for version in (V1_35, V1_36)]
    before, after = (scores(ImageLocality(None, handle), cluster, asked) for handle in handles)
    assert before == {"n0": 0, "n1": 0}
    assert after == {"n0": 43, "n1": 0}
