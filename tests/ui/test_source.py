"""Where records come from: a file that still grows is read on from where it was."""

from __future__ import annotations

from pathlib import Path

from mooring.config.load import config_from_dict
from mooring.config.wire import to_wire
from mooring.record import entries
from mooring.record.blocks import FORMAT
from mooring.record.reader import Record
from mooring.record.recorder import Recorder
from mooring.record.writer import Writer
from mooring.sim.library import find
from mooring.sim.runner import EmbeddedWorld, Settings
from mooring.sim.virtual_time import run_virtual
from mooring.testing import make_node
from mooring.ui.shown import Shown
from mooring.ui.source import LiveSource, RecordFile
from mooring.ui.timeline import Kind

HEADER = entries.Header(
    format=FORMAT, mooring="0", kubernetes="1.36", started=100.0, configuration=to_wire(config_from_dict(None))
)


def test_a_file_that_grows_is_followed_to_its_end(tmp_path: Path):
    path = tmp_path / "grows.mooring"
    with path.open("wb") as file:
        writer = Writer(file, HEADER)
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
        assert shown.timeline.events.columns["kind"].tolist() == [Kind.NODE] * 3 + [Kind.NODE_GONE]
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
        settings = Settings(level=0, write=lambda line: None, observers=(source.recorder, recorder))
        async with EmbeddedWorld(settings, scenario) as world:
            await world.play(scenario)

    run_virtual(main())
    recorder.close()
    with source.opener()() as one, Record.open(path) as other:
        picks = [[attempt.picks for _, attempt in record.attempts()] for record in (one, other)]
    assert picks[0] == picks[1]
    assert any(picks[0])
