"""What a user names, as something to show: the file of a record, or a story, which is played first."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mooring.sim.library import built_in, find
from mooring.surface.scheduler import PluginReference
from mooring.ui.shown import Shown
from mooring.ui.source import RecordFile
from mooring.ui.story import played

STORIES = (".yaml", ".yml", ".py")


def is_story(name: str | Path) -> bool:
    """Whether this is a story rather than the file of a record."""
    path = Path(name)
    return path.suffix in STORIES or (not path.exists() and str(name) in {each.name for each in built_in()})


def opened(name: str | Path, plugins: Iterable[PluginReference] = ()) -> Shown:
    """The record or story of this name, read to its end so far."""
    if is_story(name):
        return played(find(str(name)))
    path = Path(name)
    found = Shown(path.name, RecordFile(path, plugins))
    found.refresh()
    return found
