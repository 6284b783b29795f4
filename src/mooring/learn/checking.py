"""Checking a learner's file: each check of the exercise in its own classroom, all of it in another process.

The other process is there because a learner's file may do anything: loop for ever, call sys.exit, use up the memory. It
writes its results check by check, so that what is known is known even when it has to be stopped.
"""

from __future__ import annotations

import contextlib
import json
import linecache
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mooring.api.errors import InputError
from mooring.learn.classroom import Classroom
from mooring.learn.course import Lesson

TIME_LIMIT_S = 60.0
MAX_SOURCE_BYTES = 1_000_000
OUTPUT_LINES = 10
COPY = "my_scheduler.py"
"""The name of a learner's copy of a lesson's scheduler."""


@dataclass(frozen=True, slots=True)
class LessonCheck:
    """One requirement of the exercise: what it is, how it is checked, and hints that say more and more.

    The first check of an exercise fails for the untouched file. Until it passes, the others are not run: some of
    them say that what worked before still works, which is no merit of a file that changes nothing.
    """

    says: str
    run: Callable[[Classroom], Awaitable[None]]
    hints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What came of one check; ``missing`` is empty if all is well, or if it was not run yet."""

    says: str
    missing: str = ""
    hints: tuple[str, ...] = ()
    was_run: bool = True


@dataclass(slots=True)
class CheckReport:
    """What came of a file: a problem that kept it from being checked to the end, or one result per check."""

    problem: str = ""
    results: list[CheckResult] = field(default_factory=list)
    output: str = ""
    """The last lines the file printed."""

    @property
    def is_solved(self) -> bool:
        return not self.problem and bool(self.results) and self.passed == len(self.results)

    @property
    def passed(self) -> int:
        return sum(result.was_run and not result.missing for result in self.results)


def require_file(path: Path, number: int, copy: str = COPY) -> None:
    """Refuse what cannot be a learner's file of this lesson; ``copy`` is how it is called when a copy is made."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the file, for example {path / copy}")
    if not path.is_file():
        raise InputError(
            f"{path}: there is no such file; give the name of your copy, for example lesson{number}/{copy}"
        )
    if path.stat().st_size > MAX_SOURCE_BYTES:
        raise InputError(f"{path} is larger than a megabyte; a scheduler has a few hundred lines")


def check_file(which: Lesson, path: Path, *, time_limit_s: float = TIME_LIMIT_S, language: str = "en") -> CheckReport:
    """Run the checks of a lesson's exercise on a file, within a time limit."""
    require_file(path, which.number)
    with tempfile.TemporaryDirectory(prefix="mooring-check-") as folder:
        report_path, stack_path, output_path = (Path(folder) / name for name in ("report", "stack", "output"))
        command = [sys.executable, "-m", "mooring.learn.check_process"]
        command += [str(which.number), str(path.resolve()), folder, str(time_limit_s), language]
        with output_path.open("wb") as output:
            # A separate session: processes that the file starts end with it, and Ctrl-C here ends both.
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                child.wait(time_limit_s + 60)
            except subprocess.TimeoutExpired:
                pass
            finally:
                _end(child)
        report = _read(report_path)
        stack = stack_path.read_text(errors="replace") if stack_path.exists() else ""
        if stack:
            report.problem = _endless(stack, path, time_limit_s)
        elif child.returncode != 0 and not report.problem:
            report.problem = f"the process that ran your file ended with code {child.returncode} before all was checked"
        report.output = _tail(output_path)
        return report


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a process and its children; Windows has no process groups, there only the process itself."""
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(child.pid, 9)
        else:
            child.kill()
    child.wait()


def _read(path: Path) -> CheckReport:
    if not path.exists():
        return CheckReport()
    found = json.loads(path.read_text())
    return CheckReport(
        found["problem"], [CheckResult(**{**result, "hints": tuple(result["hints"])}) for result in found["results"]]
    )


def write(report: CheckReport, path: Path) -> None:
    """Write a report where ``check_file`` finds it; the last complete one counts."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(asdict(report)))
    part.replace(path)


def _tail(path: Path) -> str:
    data = path.read_bytes()[-20_000:].decode(errors="replace")
    # asyncio tells of tasks that were torn down with the classroom; that says nothing about the learner's file.
    return "\n".join(data.splitlines()[-OUTPUT_LINES:])


def _endless(stack: str, path: Path, time_limit_s: float) -> str:
    """Say where a file was busy when its time was over, from the innermost of its lines."""
    frames = re.findall(r'File "(.+)", line (\d+) in (.+)', stack)
    for file, line, function in frames:
        if os.path.realpath(file) == os.path.realpath(path):
            source = linecache.getline(file, int(line)).strip()
            return (
                f"after {time_limit_s:g} seconds it was still busy in line {line}, in {function}: `{source}`. "
                f"Is there a loop that never ends? While it runs, nothing else gets a turn"
            )
    return (
        f"it was not done after {time_limit_s:g} seconds. Is there a loop that never waits for anything? "
        f"`await self.queue...` waits, `await asyncio.sleep(0)` does not"
    )


def describe(error: BaseException, path: Path) -> str:
    """Say what went wrong in a learner's file, and in which line of it."""
    while isinstance(error, BaseExceptionGroup):  # a TaskGroup wraps what its tasks raise
        error = error.exceptions[0]
    if isinstance(error, SyntaxError) and error.filename and os.path.realpath(error.filename) == str(path):
        shown = (error.text or "").strip()
        return f"line {error.lineno}: {error.msg}" + (f": `{shown}`" if shown else "")
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    own = [
        frame for frame in traceback.extract_tb(error.__traceback__) if os.path.realpath(frame.filename) == str(path)
    ]
    where = f"line {own[-1].lineno}, in {own[-1].name}: `{own[-1].line}`: " if own else ""
    return f"{where}{what}{_advice(error, what)}"


def _advice(error: BaseException, what: str) -> str:
    """Say what usually helps, or nothing."""
    return next(
        (f". {advice}" for kind, pattern, advice in _ADVICE if isinstance(error, kind) and re.search(pattern, what)), ""
    )


_ADVICE: tuple[tuple[type[BaseException], str, str], ...] = (
    (
        AttributeError,
        r"object has no attribute '(pods|nodes|queue|waiting_pods)'",
        "A plugin does not know the scheduler's informers and queue: hand them to the plugin's __init__",
    ),
    (
        TypeError,
        r"positional argument|unexpected keyword",
        "Compare the arguments of the method with those in class Plugin, and with the call",
    ),
    (TypeError, r"object is not subscriptable", "API objects have attributes, not keys: write taint.effect"),
    (
        TypeError,
        r"'<' not supported between",
        "heapq compares what it holds: give it (number, counter, info), where no two counters are equal",
    ),
    (
        Exception,
        r"'NoneType' object",
        "A field that is not set is None, and so is the result of a method without return",
    ),
    (
        AttributeError,
        r"",
        "Objects have the API's names in Python's spelling: spec.nodeName is pod.spec.node_name",
    ),
    (NameError, r"", "Is it misspelt, or is an import missing"),
)
