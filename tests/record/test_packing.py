"""Packing objects: what is kept from one keyframe to the next never changes what is written."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core import Pod
from mooring.api.errors import InputError
from mooring.api.meta import Object, ObjectMeta, OwnerReference
from mooring.record.entries import Entry
from mooring.record.packing import PackedPod, PackedPut, PackedSpec, Packer, Unpacker
from mooring.testing import bound, make_node, make_pod

NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.one_of(
    st.tuples(st.just("change"), NAMES, st.sampled_from(["1", "2"])),  # a new object, perhaps of equal content
    st.tuples(st.just("bind"), NAMES, st.sampled_from(["x", "y"])),  # the same with a node
    st.tuples(st.just("again"), NAMES, st.just("")),  # the very object that came before
    st.tuples(st.just("gone"), NAMES, st.just("")),
    st.tuples(st.just("keyframe"), st.just(""), st.just("")),
)


def packed(packer: Packer, *objects: Object) -> list[Entry]:
    found: list[Entry] = []
    for obj in objects:
        entries = packer.pack(obj)
        found += entries if isinstance(entries, list) else [entries]
    return found


def unpacked(unpacker: Unpacker, found: list[Entry]) -> list[Object | None]:
    put = []
    for entry in msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=list[PackedSpec | PackedPod | PackedPut]):
        if isinstance(entry, PackedSpec):
            unpacker.learn(entry)
        else:
            put.append(unpacker.unpack(entry))
    return put


@settings(max_examples=100, deadline=None)
@given(steps=st.lists(STEPS, max_size=30), is_pod=st.booleans())
def test_readers_from_the_beginning_and_from_each_keyframe_know_what_is_there(
    steps: list[tuple[str, str, str]], is_pod: bool
) -> None:
    packer, there = Packer(), dict[str, Object]()
    readers = [Unpacker()]

    def tell(*objects: Object) -> None:
        found = packed(packer, *objects)
        for reader in readers:
            unpacked(reader, found)

    for what, name, value in steps:
        if what == "keyframe":
            packer.begin_keyframe()
            found = packed(packer, *there.values())
            packer.end_keyframe()
            for reader in readers:  # they know the objects
                reader.begin_keyframe()
                unpacked(reader, [entry for entry in found if isinstance(entry, PackedSpec)])
            readers.append(Unpacker())
            assert unpacked(readers[-1], found) == list(there.values())
        elif what == "gone":
            there.pop(name, None)
            for end in (packer, *readers):
                end.forget("Pod" if is_pod else "Node", f"default/{name}" if is_pod else name)
        else:
            if not is_pod:
                there[name] = (
                    make_node(name, cpu=value) if value in "12" and value else there.get(name, make_node(name))
                )
            elif what == "bind":
                there[name] = bound(make_pod(name, cpu="1"), value)
            elif what == "change" or name not in there:
                there[name] = make_pod(name, cpu=value or "1")
            tell(there[name])
        for reader in readers:
            assert {obj.name: obj for obj in reader.known.values()} == there


def test_pods_of_one_template_are_written_with_one_spec() -> None:
    packer, spec = Packer(), make_pod("a", cpu="1").spec
    pods = [make_pod(name, cpu="1") for name in "abc"]
    pods[2].spec = spec
    found = packed(packer, *pods, *(bound(pod, "n1") for pod in pods))
    assert [type(entry) for entry in found] == [PackedSpec] + 6 * [PackedPod]
    assert len({entry.spec for entry in found if isinstance(entry, PackedPod)}) == 1


def test_a_keyframe_uses_what_was_packed_before() -> None:
    packer, pod = Packer(), make_pod("a", cpu="1")
    spec, first = packed(packer, pod)
    assert packed(packer, pod) == [], "a reader knows it"
    packer.begin_keyframe()
    again, second = packed(packer, pod)
    packer.end_keyframe()
    assert again == spec and second is first


def test_specs_that_no_pod_has_are_forgotten_at_a_keyframe() -> None:
    packer = Packer()
    packed(packer, make_pod("a", cpu="1"))
    packer.forget("Pod", "default/a")
    packer.begin_keyframe()
    packer.end_keyframe()
    numbers = [entry.number for entry in packed(packer, make_pod("b", cpu="1")) if isinstance(entry, PackedSpec)]
    assert numbers == [1], "a number is not given twice"


def test_everything_that_metadata_has_comes_back() -> None:
    values = {dict: {"a": "b"}, list: [], int: 1, str: "x"}
    pod = make_pod("a")
    for field in msgspec.structs.fields(ObjectMeta):
        if field.name not in ("resource_version", "generation"):  # they change with every heartbeat
            kind = next(each for each in values if each.__name__ in str(field.type))
            setattr(pod.metadata, field.name, values[kind])
    pod.metadata.owner_references, pod.metadata.finalizers = [OwnerReference(name="o", uid="u")], ["f"]
    pod.kind = pod.api_version = ""
    assert unpacked(Unpacker(), packed(Packer(), pod)) == [pod]
    assert Pod.__struct_fields__ == ("api_version", "kind", "metadata", "spec", "status"), "nothing else is written"


def test_damage_of_pods_is_named() -> None:
    unpacker = Unpacker()
    with pytest.raises(InputError, match="damaged: Pod: no spec has the number 7"):
        unpacker.unpack(PackedPod("default", "a", "u", 7))
    with pytest.raises(InputError, match="damaged: PodSpec: Expected `object`"):
        unpacker.learn(PackedSpec(7, msgspec.Raw(b"\x01")))
    unpacker.learn(PackedSpec(7, msgspec.Raw(b"\x80")))
    with pytest.raises(InputError, match="damaged: PodStatus: Expected `object`"):
        unpacker.unpack(PackedPod("default", "a", "u", 7, "", msgspec.Raw(b"\x01")))
