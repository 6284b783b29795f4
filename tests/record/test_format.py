"""The file: whole or cut off, of this version or another, damaged, and what it never holds."""

from __future__ import annotations

import hashlib
import io
import random
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from mooring.api.codec import KINDS, from_plain
from mooring.api.errors import InputError, MooringError, UsageError
from mooring.core.framework.registry import Traits
from mooring.net.kinds import EXTRA_KINDS, SCHEDULER_KINDS
from mooring.record import entries, packing
from mooring.record.entries import keeping
from mooring.record.files import _BLOCK, _CHECK, _HEAD, _MARK, ENTRIES, head, pack_block, payload_of, scan
from mooring.record.packing import PackedPut, Packer, Unpacker
from mooring.record.reader import Record
from mooring.record.writer import RecordWriter
from mooring.testing import bound, make_node, make_object, make_pod

from .conftest import read, story

HEADER = entries.Header(format=1, mooring="0", kubernetes="1.36", started=1.0)


def written(*items: Any, header: entries.Header = HEADER, at_once: int = 1, closes: bool = True) -> bytes:
    sink = io.BytesIO()
    writer = RecordWriter(sink, header)
    writer.write_state(1.0, [])
    for i, item in enumerate(items):
        writer.write([2.0 + i], [item])
        if (i + 1) % at_once == 0:
            writer.flush()
    if closes:
        writer.close()
    return sink.getvalue()


def put_objects(data: bytes) -> list[Any]:
    return [entry.object for _, entry in read(data).entries() if isinstance(entry, entries.Put)]


# ---- objects ---------------------------------------------------------------------------------------------------------


def moved_on(pod: Any) -> list[Any]:
    """A pod's life as an API server tells it, each version an object of its own."""
    placed = bound(deepcopy(pod), "a")
    placed.status.phase = "Running"
    labelled = deepcopy(placed)
    labelled.metadata.labels = {"app": "b"}
    labelled.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    return [pod, placed, labelled]


def test_objects_come_back_as_they_were() -> None:
    wanted: list[Any] = [
        make_node("a", labels={"zone": "x"}),
        make_node("b", cpu="9", taints=["k=v:NoSchedule"]),
        make_object("StorageClass", "fast", provisioner="x/y", volumeBindingMode="WaitForFirstConsumer"),
        make_object("PersistentVolumeClaim", "data", "default", spec={"storageClassName": "fast"}),
        *moved_on(make_pod("p", cpu="1", labels={"app": "a"})),
        *moved_on(make_pod("q", cpu="2", priority=5)),
    ]
    for at_once in (1, 100):
        assert put_objects(written(*wanted, at_once=at_once)) == wanted


@pytest.mark.parametrize("kind", sorted(packing.RECORDED))
def test_every_kind_can_be_recorded(kind: str) -> None:
    obj = packing.RECORDED[kind]()
    obj.metadata.name, obj.metadata.uid = "one", "u"
    other = deepcopy(obj)
    other.metadata.labels = {"a": "b"}
    assert put_objects(written(obj, other)) == [obj, other]


def test_every_kind_that_a_scheduler_watches_can_be_recorded() -> None:
    watched = {kind.decode(b"{}").__class__.__name__ for kind in (*SCHEDULER_KINDS, *EXTRA_KINDS.values())}
    assert watched <= packing.RECORDED.keys()


def test_ignored_changes_make_no_entry() -> None:
    node = make_node("a")
    beat = deepcopy(node)
    beat.metadata.resource_version = "77"
    assert len(put_objects(written(node, beat))) == 1


def test_a_pod_of_the_same_name_is_another_one() -> None:
    first, second = make_pod("p", cpu="1"), make_pod("p", cpu="2")
    second.metadata.uid = "another"
    assert put_objects(written(first, second)) == [first, second]


def test_pods_of_one_template_share_what_was_read() -> None:
    first, second = put_objects(written(make_pod("p", cpu="1"), make_pod("q", cpu="1")))
    assert first.spec is second.spec and first.metadata != second.metadata


# ---- what is left out ------------------------------------------------------------------------------------------------

SECRET = "hunter2"


def pod_with_secrets() -> Any:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "d", "annotations": {"token": SECRET}},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "command": [SECRET],
                    "args": [SECRET],
                    "env": [{"name": "PASSWORD", "value": SECRET}],
                }
            ],
            "volumes": [{"name": "v", "secret": {"secretName": SECRET}, "downwardAPI": {"items": [SECRET]}}],
        },
    }
    return from_plain(KINDS["Pod"], manifest)


@pytest.mark.parametrize(("is_redacted", "holds"), [(True, False), (False, True)], ids=["as a rule", "if asked"])
def test_annotations_are_left_out_unless_asked_for(is_redacted: bool, holds: bool) -> None:
    header = entries.Header(format=1, mooring="0", kubernetes="1.36", is_redacted=is_redacted)
    (pod,) = put_objects(written(pod_with_secrets(), header=header))
    assert (pod.metadata.annotations == {"token": SECRET}) is holds


def test_no_secret_environment_or_command_is_in_a_record() -> None:
    (pod,) = put_objects(written(pod_with_secrets()))
    assert SECRET not in repr(pod)


def test_annotations_that_scheduling_reads_are_kept() -> None:
    claim = make_object("PersistentVolumeClaim", "data", "default")
    claim.metadata.annotations = {"volume.kubernetes.io/selected-node": "a", "other": SECRET}
    (found,) = put_objects(written(claim))
    assert found.metadata.annotations == {"volume.kubernetes.io/selected-node": "a"}


def test_annotations_that_a_plugin_reads_are_kept(recorded: Any) -> None:
    class Teams:
        name = "Teams"
        traits = Traits(annotations=("example.com/team",))

        def __init__(self, args: Any, handle: Any) -> None:
            pass

        def filter(self, state: Any, pod: Any, nodes: Any) -> None:
            return None

    arrival = story(1, 1)[0]
    arrival.pod.metadata.annotations = {"example.com/team": "a", "example.com/token": SECRET}
    profile = {"schedulerName": "default-scheduler", "plugins": {"filter": {"enabled": [{"name": "Teams"}]}}}
    record = recorded([arrival], config={"profiles": [profile]}, plugins=(Teams,))
    (pod,) = {entry.object.uid: entry.object for _, entry in record.entries() if _is_pod(entry)}.values()
    assert pod.metadata.annotations == {"example.com/team": "a"}


def _is_pod(entry: Any) -> bool:
    return isinstance(entry, entries.Put) and entry.object.kind == "Pod"


def test_a_change_of_an_annotation_that_is_left_out_makes_no_entry() -> None:
    packer = Packer(keeping(["mine"]))
    node = make_node("a")
    packer.pack(node)
    other, mine = deepcopy(node), deepcopy(node)
    other.metadata.annotations = {"other": "1"}
    mine.metadata.annotations = {"other": "2", "mine": "3"}
    assert packer.pack(other) == []
    packed = packer.pack(mine)
    assert isinstance(packed, PackedPut)
    assert Unpacker().unpack(packed).metadata.annotations == {"mine": "3"}


def test_a_state_has_the_annotations_that_the_plugins_of_then_read() -> None:
    """After a gap the configuration is known from the state alone."""
    sink, node, pod = io.BytesIO(), make_node("a"), bound(make_pod("p"), "a")
    for obj in (node, pod):
        obj.metadata.annotations = {"mine": "1", "other": "2"}
    header = entries.Header(format=2, mooring="0", kubernetes="1.36")
    writer = RecordWriter(sink, header)
    writer.write_state(1.0, [node, pod])
    writer.write_state(2.0, [entries.Configured({}, (), ("mine",)), node, pod])
    writer.close()
    found = [
        [obj.metadata.annotations for obj in (*moment.cluster.nodes, *moment.cluster.pods)]
        for moment in map(read(sink.getvalue()).moment, (1.0, 2.0))
    ]
    assert found == [[{}, {}], [{"mine": "1"}, {"mine": "1"}]]


# ---- files that are not whole ----------------------------------------------------------------------------------------

NODES = [make_node(f"n{i}") for i in range(10)]


def test_a_record_that_was_cut_off_is_read_to_its_last_whole_block() -> None:
    whole = written(*NODES)
    starts = {block.offset + block.stored: i for i, block in enumerate(read(whole)._blocks)}
    seen = set()
    for end in range(_HEAD.size + 1, len(whole)):
        try:
            record = read(whole[:end])
        except InputError as error:
            assert "cut off before its first entry" in str(error)
            continue
        assert not record.is_complete
        number = len(list(record.entries()))
        seen.add(number)
        assert number == max(i for offset, i in starts.items() if offset <= end) - 1 or number == 0
    assert seen == set(range(11))


def test_an_empty_file_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.touch()
    with pytest.raises(InputError, match="r: not a mooring record"):
        Record.open(path)
    with pytest.raises(UsageError, match="absent: No such file"):
        Record.open(tmp_path / "absent")
    for given in (path, str(path)):
        with pytest.raises(UsageError, match=r"expected an open file; a path is opened by Record.open\(path\)"):
            Record(given)


def test_a_newer_format_is_refused_in_one_line() -> None:
    data = bytearray(written(*NODES))
    data[8] = 3
    with pytest.raises(InputError) as caught:
        read(bytes(data))
    assert str(caught.value) == (
        "test: a record of format 3, from a newer mooring; this one reads format 2: update mooring"
    )


def test_a_record_of_format_1_is_read_as_before() -> None:
    with Record.open(Path(__file__).parent / "data" / "format-1.mrec") as record:
        kinds = Counter(type(entry).__name__ for _, entry in record.entries())
        assert (kinds["Put"], kinds["Deleted"], kinds["Attempt"], kinds["Moved"]) == (97, 8, 81, 137)
        for number in (1, 25, 60, 81):
            moment = record.attempt(number)
            assert moment.difference(moment.decide()) == ""
        assert len(record.moment(record.last_time).pods) == 22


def test_a_flipped_bit_is_found() -> None:
    whole = written(*NODES)
    rng = random.Random(1)
    for _ in range(200):
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            found = put_objects(bytes(data))
        except MooringError:
            continue
        assert found == NODES[: len(found)]


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        pytest.param(PackedPut("Pod", msgspec.Raw(b"\x01")), "damaged: Pod: Expected `object`", id="no object"),
        pytest.param(PackedPut("Node", msgspec.Raw(b"\xa0")), "damaged: Node: Expected `object`", id="a text"),
    ],
)
def test_objects_that_make_no_sense_are_damage(packed: PackedPut, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Unpacker().unpack(packed)


def test_kinds_of_a_newer_mooring_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    data = written(NODES[0], make_object("DeviceClass", "gpu"), entries.Deleted("DeviceClass", "gpu"), NODES[1])
    monkeypatch.setattr(packing, "RECORDED", {"Node": KINDS["Node"]})
    monkeypatch.setattr("mooring.record.reader.RECORDED", {"Node": KINDS["Node"]})
    assert [type(entry) for _, entry in read(data).entries()] == [entries.Put, entries.Put]


def test_fields_of_a_newer_mooring_are_passed_over() -> None:
    """An entry may get fields at its end; an older mooring reads what it knows."""
    longer = msgspec.msgpack.encode([[0, [11, "default/p", "u", "a", 1, 0.5, "new", 3]]])
    (found,) = msgspec.msgpack.decode(longer, type=list[tuple[int, entries.Bound | entries.Failed]])
    assert found[1] == entries.Bound("default/p", "u", "a", 1, 0.5)


def test_a_record_is_small(recorded: Any) -> None:
    record = recorded(story(9, 200), every=20_000, nodes=40)
    assert record.size / record.num_attempts < 200


def test_the_bytes_are_the_same_everywhere() -> None:
    """Level 1 of zstd 1.5.5, 1.5.6 and 1.5.7 gives these bytes; if a later one does not, one version of mooring must
    allow only one of them: see decisions."""
    rng = random.Random(1)
    payload = b"".join(b"default/web-%d node-%d " % (rng.randrange(500), rng.randrange(50)) for _ in range(20_000))
    digest = hashlib.sha256(pack_block(ENTRIES, payload, 1, 2, 3, 4)).hexdigest()
    assert digest[:16] == "19554c3e3927a959"


# ---- records that would unpack to far more than they are ------------------------------------------------------------


def bomb(payload: bytes, number: int, more: bytes = b"") -> bytes:
    """A record with one more block, of this content, that claims so many entries and has more bytes behind them."""
    whole = written(make_node("a"), closes=False)
    stored = zstandard.ZstdCompressor(level=19).compress(payload) + more
    about = _BLOCK.pack(_MARK, ENTRIES, number, len(payload), len(stored), 0, 0, 0, zlib.crc32(stored))
    return whole + about + _CHECK.pack(zlib.crc32(about)) + stored


def lists(number: int) -> bytes:
    """So many times, and as many entries of one byte, which no entry is."""
    head = b"\xdd" + number.to_bytes(4)
    return b"\x92" + head + bytes(number) + head + bytes(number)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(
            lambda: bomb(bytes(64 << 20), 1), "bytes say that they unpack to 67,108,864, 1 entries", id="size"
        ),
        pytest.param(lambda: bomb(b"", 1 << 31), "2,147,483,648 entries; no record has such a block", id="number"),
        pytest.param(lambda: bomb(lists(3_000_000), 5, bytes(20_000)), "more entries than it says", id="lists"),
    ],
)
def test_a_block_that_would_cost_far_more_than_it_is_large_is_refused_before_it_does(
    data: Callable[[], bytes], says: str
) -> None:
    record = data()
    assert len(record) < 70_000
    tracemalloc.start()
    with pytest.raises(InputError, match=says):
        list(read(record).entries())
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 40 << 20


def test_what_compresses_better_than_a_block_may_is_padded() -> None:
    payload = msgspec.msgpack.encode(([0], ["x" * (64 << 20)]))
    block = pack_block(ENTRIES, payload, 1, 0, 0, 0)
    file = io.BytesIO(head() + block)
    (found,) = scan(file, len(head() + block))
    assert payload_of(file, found, "record") == payload
