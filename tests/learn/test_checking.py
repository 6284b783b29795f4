"""The checkers: the solution passes, the untouched file does not, and whatever is handed in gets a fair answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.api.errors import InputError
from mooring.learn.check_process import check_here
from mooring.learn.checking import CheckReport, check_file
from mooring.learn.course import LESSONS, Lesson, lesson

STAGES = [pytest.param(one, id=f"lesson {one.number}") for one in LESSONS]


@pytest.mark.parametrize("one", STAGES)
def test_the_reference_solution_passes(one: Lesson, tmp_path: Path) -> None:
    file = tmp_path / "my_scheduler.py"
    file.write_text(one.solution, encoding="utf-8")
    report = check_here(one, file)
    assert (report.problem, [result.missing for result in report.results if result.missing]) == ("", [])
    assert report.is_solved


@pytest.mark.parametrize("one", STAGES)
def test_the_untouched_file_fails_with_a_hint(one: Lesson) -> None:
    report = check_here(one, one.source)
    assert not report.problem
    assert not report.is_solved
    assert all(result.hints for result in report.results if result.missing)


def hand_in(tmp_path: Path, change: tuple[str, str] | str, *, number: int = 2) -> Path:
    """Write lesson ``number``'s file after a change, or another file altogether."""
    file = tmp_path / "my_scheduler.py"
    if isinstance(change, str):
        file.write_text(change)
    else:
        source = lesson(number).source.read_text(encoding="utf-8")
        assert source.count(change[0]) == 1
        file.write_text(source.replace(*change))
    return file


def judge(tmp_path: Path, change: tuple[str, str] | str, *, limit_s: float = 60.0) -> CheckReport:
    """Check such a file as ``mooring learn 2 --check`` does, in another process."""
    return check_file(lesson(2), hand_in(tmp_path, change), time_limit_s=limit_s)


def test_the_other_process_reports_the_same(tmp_path: Path) -> None:
    file = hand_in(tmp_path, ('"node(s) were unschedulable")', '"node(s) were closed")'))
    here, there = check_here(lesson(2), file), check_file(lesson(2), file)
    assert (here.problem, here.results) == (there.problem, there.results)
    assert [bool(result.missing) for result in there.results] == [True, False, False, False, False, False]


FILTER = (
    '        if node.spec.unschedulable:\n            return Status("Unschedulable", "node(s) were unschedulable")\n'
)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param("", "there is no class Scheduler", id="an empty file"),
        pytest.param("class Scheduler:\n    def run(self:\n", "line 2: ", id="a syntax error, with its line"),
        pytest.param("def f():\n\treturn 1\n        return 2\n", "line 3: ", id="tabs and spaces mixed"),
        pytest.param("x = 'a\x00b'\n", "null byte", id="a file that is not text"),
        pytest.param(
            "import nothing_like_this\n", "line 1, in <module>: `import nothing_like_this`", id="a bad import"
        ),
        pytest.param("print(1 / 0)\n", "ZeroDivisionError", id="an exception at import"),
        pytest.param("import sys\nsys.exit(0)\n", "it ends the program when it is imported", id="sys.exit at import"),
        pytest.param("raise KeyboardInterrupt\n", "KeyboardInterrupt", id="Ctrl-C raised by the file itself"),
        pytest.param("Scheduler = 5\n", "Scheduler should be a class, it is a int", id="Scheduler is no class"),
        pytest.param("class Scheduler:\n    pass\n", "Scheduler(client) cannot be made", id="no __init__"),
        pytest.param(
            "class Scheduler:\n    def __init__(self, client, more): ...\n    async def run(self): ...\n",
            "missing a required argument: 'more'",
            id="__init__ wants more than the client",
        ),
        pytest.param(
            "class Scheduler:\n    def __init__(self, client): ...\n", "has no method run", id="Scheduler cannot run"
        ),
        pytest.param(
            "class Scheduler:\n    def __init__(self, client): ...\n    def run(self): ...\n",
            "async def run(self)",
            id="run is not async",
        ),
        pytest.param(
            "class Scheduler:\n    def __init__(self, client): ...\n    async def run(self, forever): ...\n",
            "Scheduler.run() cannot be called",
            id="run wants an argument",
        ),
        pytest.param(
            (FILTER, "        return node.spec.nodeName\n"),
            "Objects have the API's names in Python's spelling",
            id="an attribute spelt as in YAML",
        ),
        pytest.param(
            (
                "    def filter(self, pod: Pod, node: Node) -> Status:\n        if",
                "    def filter(self, node):\n        if",
            ),
            "Compare the arguments of the method with those in class Plugin",
            id="a plugin with a wrong signature",
        ),
        pytest.param(
            (FILTER, "        pod.spec.node_selector.items()\n"),
            "A field that is not set is None",
            id="a field that is not set",
        ),
        pytest.param((FILTER, "        return Statsu()\n"), "Is it misspelt", id="a misspelt name"),
        pytest.param(
            ("        if not pod.spec.node_name and", "        if not pod.spec.nodename and"),
            "in pod_added",
            id="an exception in a handler",
        ),
        pytest.param(
            (FILTER, '        raise ValueError("multi\\nline")\n'), "in filter: ", id="an exception in a plugin"
        ),
    ],
)
def test_a_file_that_cannot_be_checked_gets_a_pointed_answer(
    tmp_path: Path, change: tuple[str, str] | str, want: str
) -> None:
    report = check_here(lesson(2), hand_in(tmp_path, change))
    assert want in report.problem
    assert "Traceback" not in report.problem
    assert not report.is_solved


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param("while True:\n    pass\n", ", in <module>: `", id="an endless loop at import"),
        pytest.param((FILTER, "        while True:\n            pass\n"), ", in filter: `", id="an endless loop"),
        pytest.param(
            (
                "            while True:\n                await self.schedule_one()\n",
                "            while True:\n                await asyncio.sleep(0)\n",
            ),
            "a loop that never",
            id="a loop that never waits",
        ),
    ],
)
def test_an_endless_file_is_stopped_with_its_line(tmp_path: Path, change: tuple[str, str] | str, want: str) -> None:
    report = judge(tmp_path, change, limit_s=1.5)
    assert "after 1.5 seconds" in report.problem
    assert want in report.problem


def test_a_scheduler_that_ends_is_reported(tmp_path: Path) -> None:
    source = "class Scheduler:\n    def __init__(self, client): ...\n    async def run(self): ...\n"
    report = check_here(lesson(2), hand_in(tmp_path, source))
    assert "has ended" in report.results[0].missing


def test_what_a_file_prints_is_kept_for_its_author(tmp_path: Path) -> None:
    report = judge(tmp_path, ("class Scheduler:\n", 'print("my", "note")\n\n\nclass Scheduler:\n'))
    assert report.output == "my note"


def test_a_file_that_prints_without_end_fills_no_disk(tmp_path: Path) -> None:
    report = judge(tmp_path, "while True:\n    print('x' * 10_000)\n")
    assert report.problem
    assert len(report.output) <= 20_000


@pytest.mark.parametrize("name", ["nowhere.py", "."], ids=["no such file", "a folder"])
def test_a_missing_file_is_bad_usage(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        InputError, match=r"is a folder; give the file|there is no such file; give the name of your copy"
    ):
        check_file(lesson(1), tmp_path / name)


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "big.py"
    file.write_text("#" * 1_000_001)
    with pytest.raises(InputError, match="larger than a megabyte"):
        check_file(lesson(1), file)
