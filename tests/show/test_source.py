"""Where records come from: a file that still grows is read on from where it was."""

from __future__ import annotations

from pathlib import Path

from mooring.api.clock import VirtualClock
from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict
from mooring.core.config.wire import to_wire
from mooring.record import entries
from mooring.record.background import InBackground
from mooring.record.files import FORMAT, RotatedFiles
from mooring.record.reader import Record
from mooring.record.recorder import Recorder
from mooring.record.watching import WatchRecorder
from mooring.record.writer import RecordWriter
from mooring.show.shown import Shown
from mooring.show.source import LiveSource, RecordFile, Tape, TapeSource
from mooring.show.timeline import EventKind
from mooring.sim.library import find
from mooring.sim.player import play
from mooring.sim.virtual_time import run_virtual
from mooring.sim.worlds import EmbeddedWorld, PlaySettings
from mooring.testing import bound, make_node, make_pod

HEADER = entries.Header(
    format=FORMAT, mooring="0", kubernetes="1.36", started=100.0, configuration=to_wire(config_from_dict(None))
)


def test_a_file_that_grows_is_followed_to_its_end(tmp_path: Path):
    path = tmp_path / "grows.mooring"
    with path.open("wb") as file:
        writer = RecordWriter(file, HEADER)
        writer.write_state(100.0, [])
        writer.write([101.0, 102.0], [make_node("a"), make_node("b")])
        writer.flush()
        file.flush()
        shown = Shown("grows", RecordFile(path))
        shown.refresh()
        assert shown.timeline.nodes.values == ["a", "b"]
        shown.refresh()  # nothing has happened since
        assert len(shown.timeline.events) == 2
        writer.write([102.0, 103.0], [make_node("c"), entries.Deleted("Node", "a")])  # one of the same moment
        writer.flush()
        file.flush()
        shown.refresh()
        assert shown.source.is_live
        assert shown.timeline.events.columns["kind"].tolist() == [EventKind.NODE] * 3 + [EventKind.NODE_GONE]
        writer.close(104.0)
    shown.refresh()
    assert not shown.source.is_live
    assert shown.timeline.events.columns["time"].tolist() == [1.0, 2.0, 2.0, 3.0]


def test_a_record_in_a_file_beside_the_page_misses_nothing(tmp_path: Path):
    """Two recorders of one scheduler: each gets the random numbers with which ties were broken."""
    source, path = LiveSource("scenario"), tmp_path / "beside.mooring"
    recorder = Recorder.to_file(path, source="scenario")
    scenario = find("zone-spread")

    async def main() -> None:
        settings = PlaySettings(level=0, write=lambda line: None, observers=(source.recorder, recorder))
        async with EmbeddedWorld(settings, scenario) as world:
            await play(world, scenario)

    run_virtual(main())
    recorder.close()
    with source.opener()() as one, Record.open(path) as other:
        picks = [[attempt.picks for _, attempt in record.attempts()] for record in (one, other)]
    assert picks[0] == picks[1]
    assert any(picks[0])


def test_what_is_kept_in_memory_is_bounded():
    """A record that runs for long has parts; all but the last two are forgotten, and questions about these work."""
    tape = Tape(max_entries=20)
    source = TapeSource(tape=tape)
    clock = VirtualClock(100.0)
    recorder = WatchRecorder(tape, config_from_dict(None), Features(), clock.now, keyframe_every=10)
    recorder.put(make_node("a", cpu="64"))
    recorder.is_synced = True
    shown = Shown("long", source)
    sizes, generations = set(), set()
    for i in range(60):
        clock.advance(1.0)
        recorder.put(make_pod(f"web-{i}", cpu="1"))
        recorder.put(bound(make_pod(f"web-{i}", cpu="1"), "a"))
        recorder.delete(bound(make_pod(f"web-{i}", cpu="1"), "a"))
        shown.refresh()
        sizes.add(len(shown.timeline.events))
        generations.add(shown.generation)
    assert len(generations) > 5
    assert max(sizes) < 100
    assert len(tape.heard) == 0
    assert shown.timeline.nodes.values == ["a"]
    events = shown.timeline.attempt_events
    assert len(events) >= 2
    for event in (events[0], events[-1], events[0]):
        told = shown.why(shown.moment(event)())
        assert (told["outcome"], told["node"]) == ("scheduled", 0)
    times = shown.timeline.events.columns["time"]
    assert list(times) == sorted(times) and times[-1] == 60.0


class AtOnce(InBackground):
    """Does the thread's work immediately, so that a test does not depend on its speed."""

    def _send(self, number, work):
        work()


def test_a_file_that_is_replaced_by_a_new_one_is_followed(tmp_path: Path):
    """As ``mooring run --record`` does when a file is full: the old one gets another name."""
    path = tmp_path / "run.mooring"
    output = AtOnce(RotatedFiles(str(path), max_bytes=4 << 20, max_age_s=3600))
    shown: Shown | None = None
    for part in range(4):
        if part:
            output._end_file(100.0 + part)
            output._begin_file(100.0 + part)
        else:
            output._header = HEADER
            output._begin_file(100.0)
        assert output._writer is not None
        output._writer.write_state(100.0 + part, [make_node("a", cpu="64")])
        pod = make_pod(f"web-{part}")
        attempt = entries.Attempt(part + 1, pod.key, pod.uid, "default-scheduler", "scheduled", "a")
        output._write([100.5 + part] * 3, [pod, attempt, bound(pod, "a")])
        output._writer.flush()
        if shown is None:
            shown = Shown("run", source := RecordFile(path, is_endless=True))
        shown.refresh()
        assert shown.source.is_live
    assert shown is not None
    assert shown.generation == 2
    assert shown.timeline.pod_names.values == ["default/web-2", "default/web-3"]
    for event in shown.timeline.attempt_events:
        assert shown.why(shown.moment(event)())["outcome"] == "scheduled"
    shown.close()
    source.close()
    output._end_file(104.0)
