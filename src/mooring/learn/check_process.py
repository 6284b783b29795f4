"""The process in which a learner's file is checked; started by ``checking.check_file``, of no use by itself."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib.util
import logging
import sys
import types
from collections.abc import Callable
from pathlib import Path

from mooring.learn.checking import CheckReport, CheckResult, LessonCheck, describe, write
from mooring.learn.classroom import Missing, Words, open_classroom, problem_with
from mooring.learn.course import Lesson, lesson
from mooring.sim.virtual_time import run_virtual

MAX_OUTPUT_BYTES = 16 << 20
MAX_MEMORY_BYTES = 4 << 30


class _HandlerFailures(logging.Handler):
    """Keeps the first exception of an informer's handler: the informer only logs it."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.first is None and record.exc_info and record.exc_info[1] is not None:
            self.first = record.exc_info[1]


def load(path: Path, name: str = "my_scheduler") -> types.ModuleType:
    """Import a file under its own module name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def check_here(
    which: Lesson, path: Path, known: Callable[[CheckReport], None] = lambda report: None, *, words: Words | None = None
) -> CheckReport:
    """Load a file and run check after check in this process; the first exception of the file's own ends it.

    ``known`` is called with what is known so far, after each step.
    """
    report = CheckReport()
    try:
        module = load(path)
        report.problem = problem_with(module)
    except SystemExit:
        report.problem = 'it ends the program when it is imported; put that under: if __name__ == "__main__"'
    except BaseException as error:
        report.problem = describe(error, path)
    known(report)
    if report.problem:
        return report
    failures = _HandlerFailures()
    informer_log = logging.getLogger("mooring.net.informer")
    informer_log.addHandler(failures)
    try:
        _check_module(which, module, path, report, failures, known, words or Words())
    finally:
        informer_log.removeHandler(failures)
    return report


def _check_module(
    which: Lesson,
    module: types.ModuleType,
    path: Path,
    report: CheckReport,
    failures: _HandlerFailures,
    known: Callable[[CheckReport], None],
    words: Words,
) -> None:
    checks: tuple[LessonCheck, ...] = which.module("check").CHECKS
    for check in checks:

        async def attend(check: LessonCheck = check) -> None:
            async with open_classroom(module) as room:
                await check.run(room)

        missing = ""
        try:
            run_virtual(attend(), has_sockets=True)
        except Missing as error:
            missing = words(error.text, **error.values)
        except Exception as error:
            report.problem = describe(error, path)
        if failures.first is not None:
            report.problem = describe(failures.first, path)
        if report.problem:
            report.problem += words(" (while checking: {says})", says=words(check.says))
            known(report)
            return
        hints = tuple(words(hint) for hint in check.hints) if missing else ()
        report.results.append(CheckResult(words(check.says), missing, hints))
        if missing and check is checks[0]:
            report.results += [CheckResult(words(later.says), was_run=False) for later in checks[1:]]
            known(report)
            return
        known(report)


def _limit_resources() -> None:
    """Limit what a file may write and use, where the system can; Windows has no such limits."""
    try:
        import resource
    except ImportError:
        return
    with contextlib.suppress(ValueError, OSError):  # macOS has no limit of the address space
        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_OUTPUT_BYTES, MAX_OUTPUT_BYTES))
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))


def main(number: str, file: str, folder: str, time_limit_s: str, language: str) -> None:
    """Check one file and write the report into a folder."""
    _limit_resources()
    with (Path(folder) / "stack").open("w") as stack:
        faulthandler.dump_traceback_later(float(time_limit_s), exit=True, file=stack)
        words = Words(language)
        check_here(lesson(int(number)), Path(file), lambda report: write(report, Path(folder) / "report"), words=words)
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(*sys.argv[1:])
