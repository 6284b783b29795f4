"""Shapes of pods: found by the spec that pods share, or by what it says; both ways find the same."""

from __future__ import annotations

import gc
from copy import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core import Pod
from mooring.core.state.pod_info import PodInterner, PodShape
from mooring.testing import make_pod

CPU = st.sampled_from(["1", "2", "3"])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("own spec"), CPU),
            st.tuples(st.just("shared spec"), CPU),
            st.tuples(st.just("forget"), CPU),  # its spec goes, and another one may come to lie at its address
        ),
        max_size=25,
    )
)
def test_pods_that_ask_for_the_same_have_one_shape_whether_or_not_they_share_a_spec(
    steps: list[tuple[str, str]],
) -> None:
    interner = PodInterner()
    templates: dict[str, Pod] = {}
    held: dict[str, list[PodShape]] = {}
    for what, cpu in steps:
        if what == "forget":
            templates.pop(cpu, None)
            held.pop(cpu, None)
            gc.collect(1)  # what an example has made is young
            continue
        pod = make_pod("own", cpu=cpu)
        if what == "shared spec":
            template = templates.setdefault(cpu, pod)
            pod = copy(template)
        shape = interner.shape(pod)
        assert shape.requests == {"cpu": int(cpu) * 1000}
        shapes = held.setdefault(cpu, [])
        assert all(shape is other for other in shapes)
        shapes.append(shape)
    assert len({id(shapes[0]) for shapes in held.values()}) == len(held)


def test_a_pod_that_is_being_resized_has_a_shape_of_its_own_though_it_shares_its_spec() -> None:
    interner = PodInterner()
    pod = make_pod("a", cpu="1")
    resized = copy(pod)
    resized.status = make_pod(
        "a", status={"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}
    ).status
    resized.status.container_statuses[0].name = pod.spec.containers[0].name
    before = interner.shape(pod)
    assert interner.shape(resized).requests["cpu"] == 3000
    assert interner.shape(pod) is before and before.requests["cpu"] == 1000
