"""What all tests share: how hard Hypothesis works, and that it works alike everywhere."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

# jsonschema sets 38 grammars up for this as soon as it is imported, two seconds in every process. No test asks for the
# formats of addresses.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# Derandomised: the same examples on every machine, so that a red test is red on all of them. To
# search further, run with HYPOTHESIS_PROFILE=search, which draws new examples, makes a failing one as small as it
# can (that may take minutes) and prints how to repeat it.
_UNHURRIED = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=40,
    print_blob=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=_UNHURRIED,
)
settings.register_profile("search", deadline=None, max_examples=1000, print_blob=True, suppress_health_check=_UNHURRIED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """With ``-n auto``, half as many again as there are cores: tests wait for browsers and servers now and then."""
    return 3 * (os.cpu_count() or 1) // 2


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="Write the transcripts in tests/scenarios anew. Commit the difference only if you can explain it.",
    )


class OutOfCollections:
    """What pytest has collected stays to the end: a full collection that goes through it takes half a second."""

    def __init__(self) -> None:
        self._unfreeze, gc.unfreeze = gc.unfreeze, self.unfreeze
        self.freeze()

    def freeze(self) -> None:
        gc.collect()
        gc.freeze()
        self.is_frozen = True

    def unfreeze(self) -> None:
        self._unfreeze()
        self.is_frozen = False


_KEPT: list[OutOfCollections] = []


def pytest_collection_finish() -> None:
    _KEPT.append(OutOfCollections())


@pytest.fixture(autouse=True, scope="module")
def frozen_as_it_was() -> Iterator[None]:
    """Measurements of memory let go of everything that is frozen; the tests of the next file must not pay for that."""
    yield
    if not _KEPT[0].is_frozen:
        _KEPT[0].freeze()


@pytest.fixture(autouse=True)
def loggers_as_they_were() -> Iterator[None]:
    """A command that runs in the test's own process sets up logging; the next test must not notice."""
    logging.getLogger("mooring")  # it exists from now on, and is among them
    loggers = [
        logger
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and name.partition(".")[0] == "mooring"
    ]
    before = [(each, each.level, each.propagate, list(each.handlers), each.disabled) for each in loggers]
    yield
    for logger, level, propagate, handlers, disabled in before:
        logger.setLevel(level)
        logger.propagate, logger.handlers, logger.disabled = propagate, handlers, disabled
