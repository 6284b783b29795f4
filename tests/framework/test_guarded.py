"""Whatever a plugin raises is this pod's error; what ends the process ends it."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.framework.cycle_state import OutOfTime
from mooring.framework.guarded import CycleError, guarded
from mooring.framework.status import Code, Status

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
    assert caught.value.status == Status(Code.ERROR, (message,), "Mine")
    assert str(caught.value) == message and caught.value.__cause__ is raised


def test_an_error_of_the_cycle_stays_as_it_is() -> None:
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
