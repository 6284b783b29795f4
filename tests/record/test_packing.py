"""Packing objects: what is kept from one keyframe to the next never changes what is written."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.api.core import Pod
from mooring.record import packing
from mooring.record.packing import PackedPut, Packer, Unpacker
from mooring.testing import make_pod

NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.one_of(
    st.tuples(st.just("change"), NAMES, st.sampled_from(["1", "2"])),  # a new object, perhaps of equal content
    st.tuples(st.just("again"), NAMES, st.just("")),  # the very object that came before
    st.tuples(st.just("gone"), NAMES, st.just("")),
    st.tuples(st.just("keyframe"), st.just(""), st.just("")),
)


def written(steps: list[tuple[str, str, str]]) -> list[PackedPut | None]:
    packer, objects, found = Packer(), dict[str, Pod](), list[PackedPut | None]()
    for what, name, cpu in steps:
        if what == "keyframe":
            packer.forget_all()
            found += [packer.pack(each) for each in objects.values()]
        elif what == "gone":
            objects.pop(name, None)
            packer.forget("Pod", f"default/{name}")
        else:
            if what == "change" or name not in objects:
                objects[name] = make_pod(name, cpu=cpu or "1")
            found.append(packer.pack(objects[name]))
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=30))
def test_objects_that_are_packed_again_are_written_as_if_they_were_new(
    monkeypatch: pytest.MonkeyPatch, steps: list[tuple[str, str, str]]
) -> None:
    kept = written(steps)
    with monkeypatch.context() as patch:
        patch.setattr(packing, "MAX_PACKED", 0)
        assert written(steps) == kept


def test_a_keyframe_uses_what_was_packed_before_and_a_reader_gets_the_object_back() -> None:
    packer, pod = Packer(), make_pod("a", cpu="1")
    first = packer.pack(pod)
    assert first is not None and packer.pack(pod) is None, "a reader knows it"
    packer.forget_all()
    assert packer.pack(pod) is first
    assert Unpacker().unpack(first) == pod
