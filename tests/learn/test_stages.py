"""Each stage does what its lesson promises, and the stage before it does not."""

from __future__ import annotations

import ast
import difflib
import io
import itertools
import tokenize
import types
from collections.abc import Awaitable, Callable

import pytest

from mooring.learn.classroom import Classroom, listening, open_classroom
from mooring.learn.course import LESSONS, Lesson, lesson, patched, play
from mooring.sim.virtual_time import run_virtual

STAGES = [pytest.param(one, id=f"lesson {one.number}") for one in LESSONS]


def attend(module: types.ModuleType, story: Callable[[Classroom], Awaitable[None]]) -> None:
    async def main() -> None:
        async with open_classroom(module) as room:
            await story(room)

    run_virtual(main(), has_sockets=True)


# ---- what each lesson promises ---------------------------------------------------------------------------------


async def stays_off_cordoned_nodes_and_says_why(room: Classroom) -> None:
    for i in range(9):
        room.node(f"node{i}", unschedulable=True)
    await room.start()
    room.pod("pod1")
    assert not await room.wait_bound("pod1", within_s=3)
    assert room.events("pod1", "FailedScheduling")[0] == ("0/9 nodes are available: 9 node(s) were unschedulable.")


async def prefers_the_node_with_the_same_number(room: Classroom) -> None:
    for i in range(10):
        room.node(f"node{i}")
    await room.start()
    for i in range(10):
        room.pod(f"pod{i}")
        assert await room.wait_bound(f"pod{i}") == f"node{i}"


async def reads_the_pod_once_however_many_nodes_there_are(room: Classroom) -> None:
    for i in range(10):
        room.node(f"node{i}")
    said: list[str] = []
    with listening(lambda who, text: said.append(text)):
        await room.start()
        room.pod("pod8")
        assert await room.wait_bound("pod8") == "node8"
    assert said.count("NodeNumber reads the digit of pod8") == 1


async def waits_in_the_background(room: Classroom) -> None:
    for i in range(10):
        room.node(f"node{i}")
    await room.start()
    for name in ("pod7", "pod2", "pod0"):
        room.pod(name)
    await room.wait_bound("pod7")
    assert [(name, round(at)) for name, at in room.bound_at.items()] == [("pod0", 0), ("pod2", 2), ("pod7", 7)]


async def tries_again_after_failures(room: Classroom) -> None:
    room.node("node0", unschedulable=True)
    await room.start()
    room.pod("pod0")
    await room.wait_event("pod0", "FailedScheduling")
    room.uncordon("node0")
    assert await room.wait_bound("pod0", within_s=330) == "node0"
    room.fail_next_binding()
    room.pod("another0")
    assert await room.wait_bound("another0", within_s=30) == "node0"


async def wakes_pods_when_a_node_can_help(room: Classroom) -> None:
    room.node("node0", unschedulable=True)
    await room.start()
    room.pod("pod0")
    await room.wait_event("pod0", "FailedScheduling")
    room.uncordon("node0")
    assert await room.wait_bound("pod0", within_s=15) == "node0"


PROMISES = {
    2: stays_off_cordoned_nodes_and_says_why,
    3: prefers_the_node_with_the_same_number,
    4: reads_the_pod_once_however_many_nodes_there_are,
    5: waits_in_the_background,
    6: tries_again_after_failures,
    7: wakes_pods_when_a_node_can_help,
}


@pytest.mark.parametrize("number", PROMISES, ids=lambda n: f"lesson {n} keeps its promise")
def test_a_stage_does_what_is_new(number: int) -> None:
    attend(lesson(number).module("scheduler"), PROMISES[number])


@pytest.mark.parametrize("number", PROMISES, ids=lambda n: f"lesson {n - 1} cannot do that yet")
def test_the_stage_before_does_not(number: int) -> None:
    with pytest.raises(AssertionError):
        attend(lesson(number - 1).module("scheduler"), PROMISES[number])


@pytest.mark.parametrize("number", range(2, 8), ids=lambda n: f"lesson {n} still stays off cordoned nodes")
def test_later_stages_keep_what_was_learned(number: int) -> None:
    attend(lesson(number).module("scheduler"), stays_off_cordoned_nodes_and_says_why)


WITH_QUEUE = [pytest.param(lesson(n), id=f"lesson {n}") for n in (6, 7)]


@pytest.mark.parametrize("one", WITH_QUEUE)
def test_the_pause_doubles_up_to_ten_seconds(one: Lesson) -> None:
    attempts: list[float] = []

    async def story(room: Classroom) -> None:
        room.node("node0")
        await room.start()
        for _ in range(6):
            room.fail_next_binding()

        def heard(who: str, text: str) -> None:
            if "found a pod to schedule" in text:
                attempts.append(room.elapsed_s)

        with listening(heard):
            room.pod("unlucky")
            assert await room.wait_bound("unlucky", within_s=120) == "node0"

    attend(one.module("scheduler"), story)
    pauses = [later - earlier for earlier, later in itertools.pairwise(attempts)]
    # The queue looks once a second: a pause is over at the next look.
    assert all(wanted <= pause <= wanted + 1.01 for wanted, pause in zip((1, 2, 4, 8, 10, 10), pauses, strict=True))


@pytest.mark.parametrize("one", WITH_QUEUE)
def test_a_deleted_pod_is_forgotten(one: Lesson) -> None:
    async def story(room: Classroom) -> None:
        room.node("node0", unschedulable=True)
        await room.start()
        room.pod("gone")
        await room.wait_event("gone", "FailedScheduling")
        room.delete_pod("gone")
        room.uncordon("node0")
        await room.pass_time(400)
        assert room.binding_order == []
        assert not room.scheduler.queue.unschedulable

    attend(one.module("scheduler"), story)


@pytest.mark.parametrize("number", [5, 6, 7], ids=lambda n: f"lesson {n}")
def test_a_pod_deleted_while_waiting_for_permission_has_no_effect(number: int) -> None:
    async def story(room: Classroom) -> None:
        room.node("node9")
        room.node("node0")
        await room.start()
        room.pod("pod9")
        await room.pass_time(2)
        room.delete_pod("pod9")
        room.pod("pod0")
        assert await room.wait_bound("pod0") == "node0"
        await room.pass_time(30)
        assert not room.scheduler.waiting_pods

    attend(lesson(number).module("scheduler"), story)


def test_a_changed_pod_is_tried_again() -> None:
    async def story(room: Classroom) -> None:
        room.node("node0", unschedulable=True)
        await room.start()
        room.pod("pod0")
        await room.wait_event("pod0", "FailedScheduling")
        await room.pass_time(5)
        room.tolerate("pod0", "anything")
        await room.pass_time(5)
        assert len(room.events("pod0", "FailedScheduling")) == 2

    attend(lesson(7).module("scheduler"), story)


# ---- what all stages have in common ----------------------------------------------------------------------------


@pytest.mark.parametrize("one", STAGES)
def test_it_binds_its_own_pods_only_and_tells_of_it(one: Lesson) -> None:
    async def story(room: Classroom) -> None:
        room.node("node0")
        await room.start()
        room.pod("theirs", scheduler="somebody-else")
        room.pod("ours")
        assert await room.wait_bound("ours") == "node0"
        assert room.events("ours", "Scheduled") == ["Successfully assigned default/ours to node0"]
        assert room.where("theirs") == ""

    attend(one.module("scheduler"), story)


@pytest.mark.parametrize("one", STAGES)
def test_pods_that_were_there_before_are_found(one: Lesson) -> None:
    async def story(room: Classroom) -> None:
        room.node("node0")
        room.pod("early")
        await room.start()
        assert await room.wait_bound("early") == "node0"

    attend(one.module("scheduler"), story)


@pytest.mark.parametrize("one", STAGES)
def test_a_refused_binding_does_not_stop_the_scheduler(one: Lesson) -> None:
    async def story(room: Classroom) -> None:
        room.node("node0")
        await room.start()
        room.fail_next_binding()
        room.pod("unlucky")
        await room.pass_time(5)
        room.pod("next")
        assert await room.wait_bound("next") == "node0"

    attend(one.module("scheduler"), story)


@pytest.mark.parametrize("one", STAGES)
def test_without_nodes_nothing_breaks(one: Lesson) -> None:
    async def story(room: Classroom) -> None:
        await room.start()
        room.pod("pod0")
        await room.pass_time(5)
        room.node("node0")
        room.pod("pod1")
        assert await room.wait_bound("pod1") == "node0"

    attend(one.module("scheduler"), story)


@pytest.mark.parametrize("one", STAGES)
def test_its_scenario_runs_and_prints_the_same_twice(one: Lesson) -> None:
    def once() -> list[str]:
        lines: list[str] = []
        play(one, lambda at, who, text: lines.append(f"{at:.1f} {who} {text}"))
        return lines

    first = once()
    assert any(" note " in line for line in first)
    assert any(" scheduler Scheduled: " in line for line in first)
    assert once() == first


# ---- how stages are written ------------------------------------------------------------------------------------


def code_lines(source: str) -> int:
    """Lines that hold code: blank lines, comments and docstrings do not count."""
    ignored = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_docstring = token.type == tokenize.STRING and token.line.strip().startswith('"""')
        if token.type not in ignored and not is_docstring:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


@pytest.mark.parametrize("one", STAGES)
def test_a_stage_is_at_most_300_lines_of_code(one: Lesson) -> None:
    assert code_lines(one.source.read_text(encoding="utf-8")) <= 300


@pytest.mark.parametrize("one", STAGES)
@pytest.mark.parametrize("source", [lambda one: one.source.read_text(encoding="utf-8"), lambda one: one.solution])
def test_a_stage_is_self_contained(one: Lesson, source: Callable[[Lesson], str]) -> None:
    allowed = ("mooring.api.core", "mooring.net.", "mooring.api.errors")
    for statement in ast.walk(ast.parse(source(one))):
        names = []
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            assert statement.level == 0, "a relative import"
            names = [statement.module or ""]
        for imported in names:
            assert not imported.startswith("mooring") or imported.startswith(allowed), imported


def changed_lines(old: str, new: str) -> int:
    return sum(line[:1] in "+-" for line in difflib.unified_diff(old.splitlines(), new.splitlines(), n=0))


@pytest.mark.parametrize("number", range(2, 8), ids=lambda n: f"from {n - 1} to {n}")
def test_the_difference_of_neighbours_is_small_enough_to_be_read(number: int) -> None:
    old, new = (lesson(n).source.read_text(encoding="utf-8") for n in (number - 1, number))
    assert changed_lines(old, new) <= 130


@pytest.mark.parametrize("one", STAGES)
def test_a_solution_changes_little(one: Lesson) -> None:
    assert 0 < changed_lines(one.source.read_text(encoding="utf-8"), one.solution) <= 60


@pytest.mark.parametrize(
    ("patch", "made"),
    [
        pytest.param("", "a\nb\nc\n", id="nothing changes"),
        pytest.param("@@ -1,3 +1,4 @@\n a\n-b\n+B\n+B\n c\n", "a\nB\nB\nc\n", id="in the middle"),
        pytest.param("@@ -1,1 +1,2 @@\n+first\n a\n@@ -3,1 +4,0 @@\n-c\n", "first\na\nb\n", id="at both ends"),
    ],
)
def test_a_patch_is_applied(patch: str, made: str) -> None:
    assert patched("a\nb\nc\n", patch) == made


def test_a_patch_for_another_source_is_refused() -> None:
    with pytest.raises(ValueError, match="line 2: the patch expects 'x"):
        patched("a\nb\n", "@@ -1,2 +1,1 @@\n a\n-x\n")


@pytest.mark.parametrize("one", STAGES)
@pytest.mark.parametrize("name", ["scenario.py", "check.py"])
def test_no_lesson_borrows_from_another(one: Lesson, name: str) -> None:
    assert ".stage" not in (one.folder / name).read_text(encoding="utf-8")
