"""Whatever is put in, what is written can be read: notes, names of events, lines of logs."""

from __future__ import annotations

import json
import logging
import re

from hypothesis import given
from hypothesis import strategies as st

from mooring.live.events import NOTE_LIMIT_BYTES, event_name, truncate_note
from mooring.live.logs import JsonFormatter, KlogFormatter

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.from_regex(r"[a-z][A-Za-z]{0,8}", fullmatch=True).filter(
    lambda key: key not in ("ts", "caller", "msg", "v", "stacktrace")
)


@given(st.text(max_size=1500))
def test_a_note_is_as_long_as_allowed_and_says_how_it_began(note):
    cut = truncate_note(note)
    assert len(cut.encode("utf-8", "replace")) <= NOTE_LIMIT_BYTES
    if cut != note:
        assert cut.endswith(" ...") and note.startswith(cut[:-4])
        assert len(cut.encode()) > NOTE_LIMIT_BYTES - 4, "no more is cut than has to be"


@given(st.text(max_size=300), st.integers(0, 1 << 63))
def test_the_name_of_an_event_is_always_one_that_the_server_takes(name, nanoseconds):
    made = event_name(name, nanoseconds)
    assert len(made) <= 253
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", made)


def record(message: str, values: dict) -> logging.LogRecord:
    made = logging.LogRecord("mooring.x", logging.INFO, "x.py", 7, message, (), None)
    made.values = values
    return made


@given(st.text(), st.dictionaries(KEYS, VALUES, max_size=4))
def test_a_line_of_json_is_one_line_and_says_the_same(message, values):
    line = JsonFormatter().format(record(message, values))
    assert "\n" not in line
    found = json.loads(line)
    assert found["msg"] == message
    for key, value in values.items():
        is_object = key in ("pod", "victim", "preemptor") and isinstance(value, str)
        assert is_object or found[key] == value


@given(st.text(), st.dictionaries(KEYS, VALUES, max_size=4))
def test_a_line_of_text_begins_with_the_message_in_quotes(message, values):
    line = KlogFormatter().format(record(message, values))
    head, _, rest = line.partition("x.py:7] ")
    assert head[0] == "I" and rest.startswith(json.dumps(message, ensure_ascii=False))
    for key in values:
        assert f" {key}=" in rest
