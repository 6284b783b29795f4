"""Whatever a plugin raises is this pod's error; what ends the process ends it."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from mooring.core.framework.cycle_state import CycleError, OutOfTime, guarded
from mooring.core.framework.status import Code, Status

PLACE = re.compile(r" \(test_guarded\.py:\d+\)$")
TEXT = 'running Mine plugin "{}": {}'


def test_an_answer_is_passed_on() -> None:
    assert guarded("Mine", TEXT, lambda a, b: a + b, 1, 2) == 3


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        pytest.param(ValueError("odd"), 'running Mine plugin "Mine": ValueError: odd', id="an exception"),
        pytest.param(KeyError("a"), "running Mine plugin \"Mine\": KeyError: 'a'", id="a key that is not there"),
        pytest.param(ZeroDivisionError(), 'running Mine plugin "Mine": ZeroDivisionError: ', id="one without words"),
        pytest.param(ValueError("{}"), 'running Mine plugin "Mine": ValueError: {}', id="braces in the words"),
    ],
)
def test_an_exception_becomes_the_pods_error(raised: Exception, message: str) -> None:
    def fail() -> None:
        raise raised

    with pytest.raises(CycleError) as caught:
        guarded("Mine", TEXT, fail)
    status = caught.value.status
    assert (status.code, status.plugin) == (Code.ERROR, "Mine")
    assert PLACE.sub("", status.message) == message and PLACE.search(status.message)
    assert str(caught.value) == status.message and caught.value.__cause__ is raised


def test_the_traceback_is_logged_at_verbosity_two(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO - 2)
    with pytest.raises(CycleError):
        guarded("Mine", TEXT, lambda: 1 // 0)
    (record,) = caplog.records
    assert record.levelno == logging.INFO - 2 and record.exc_info is not None


def test_a_cycle_error_is_passed_through() -> None:
    """Preemption runs filters inside a plugin: what breaks there has its own words."""
    inner = CycleError(Status.error("inner"))

    def fail() -> None:
        raise inner

    with pytest.raises(CycleError) as caught:
        guarded("Mine", TEXT, fail)
    assert caught.value is inner


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, OutOfTime])
def test_what_is_no_plugins_business_passes_through(ending: Any) -> None:
    def fail() -> None:
        raise ending

    with pytest.raises(ending):
        guarded("Mine", TEXT, fail)
