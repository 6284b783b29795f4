"""``mooring learn``: seven small schedulers to run, read, change and check."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from mooring.cli.help import Group, examples
from mooring.cli.output import console, print_table
from mooring.cli.streams import OutputLost
from mooring.errors import InputError, MooringError, UsageError

if TYPE_CHECKING:
    from types import ModuleType

    from mooring.lessons.checking import Report
    from mooring.lessons.course import Lesson, Tell

CHAPTERS = (
    ("8-first-plugin.md", "write your first plugin"),
    ("9-first-extender.md", "write your first extender"),
    ("10-read-the-real-one.md", "read the real one: from main to the leader election"),
    ("11-preemption.md", "preemption: room for the more important"),
    ("12-why-is-my-pod-pending.md", "why is my pod pending?"),
)
COPY = "my_scheduler.py"


class LessonGroup(Group):
    """A group whose commands are the lessons' numbers."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*(str(number) for number in range(1, 8)), *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name.isdecimal():
            from mooring.lessons.course import lesson

            return _lesson_command(lesson(int(name)))
        return super().get_command(ctx, name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise UsageError(f'lesson "{args[0]}": expected a number from 1 to 7, or diff')
        return super().resolve_command(ctx, args)


@click.group(cls=LessonGroup, invoke_without_command=True, epilog=examples("mooring learn 1"))
@click.pass_context
def learn(ctx: click.Context) -> None:
    """Walk through seven small schedulers.

    Without a number the lessons are listed. `mooring learn 3` plays lesson 3 on a control plane inside this process
    and says what is to be seen; `mooring learn 3 --help` shows what else can be done with it.
    """
    if ctx.invoked_subcommand is None:
        _list(console())


def _list(to: Console) -> None:
    from mooring.lessons.course import LESSONS

    rows = [(str(one.number), one.title, one.new) for one in LESSONS]
    print_table(to, ("LESSON", "TITLE", "WHAT IS NEW"), rows)
    to.print("\nPlay one: mooring learn 1. Change it: mooring learn 1 --edit. Compare two: mooring learn diff 1 2.\n")
    print_table(to, ("CHAPTER", "TO READ, IN THE REPOSITORY"), [(t, f"docs/learn/{name}") for name, t in CHAPTERS])


@learn.command(epilog=examples("mooring learn diff 2 3"))
@click.argument("before", type=int)
@click.argument("after", type=int)
def diff(before: int, after: int) -> None:
    """Show what changes from one lesson to another."""
    from mooring.lessons.course import lesson

    old, new = lesson(before), lesson(after)
    _print_diff(console(), old.source, new.source, f"lesson {before}: {old.title}", f"lesson {after}: {new.title}")


def _print_diff(to: Console, old: Path, new: Path, old_name: str, new_name: str) -> None:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    before, after = (path.read_text(encoding="utf-8").splitlines() for path in (old, new))
    for line in difflib.unified_diff(before, after, old_name, new_name, lineterm="", n=3):
        style = "bold" if line.startswith(("+++", "---")) else styles.get(line[:1], "")
        to.print(Text(line, style=style))


def _lesson_command(which: Lesson) -> click.Command:
    """Make the command of one lesson; all have the same options."""
    options = [
        click.Option(
            ["--edit"],
            is_flag=False,
            flag_value=f"lesson{which.number}",
            metavar="[DIR]",
            help=f"Copy the lesson into a folder of yours.  [default: lesson{which.number}]",
        ),
        click.Option(["--check"], metavar="FILE", help="Check your solution of the exercise."),
        click.Option(["--time-limit"], type=click.FloatRange(1, 3600), default=60.0, help="For --check, in seconds."),
        click.Option(["--file"], metavar="FILE", help="Play the scenario with your scheduler."),
        click.Option(["--solution"], is_flag=True, help="Show one solution of the exercise, as a difference."),
        click.Option(["--text"], is_flag=True, help="Print the lesson's text."),
        click.Option(["--sandbox"], is_flag=True, help="No scenario: ten nodes and the scheduler, for your kubectl."),
        click.Option(
            ["--write-kubeconfig"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="For --sandbox: where your kubectl finds it.  [default: a new directory]",
        ),
        click.Option(
            ["--kubeconfig"], metavar="FILE", help="Schedule for this cluster instead; creates nothing in it."
        ),
        click.Option(["--real-time"], is_flag=True, help="Let seconds be seconds."),
    ]
    return click.Command(
        str(which.number),
        callback=lambda **chosen: _do(which, chosen),
        params=list(options),
        help=f"Lesson {which.number}, {which.title}: {which.new}.",
        short_help=f"{which.title}: {which.new}",
        epilog=examples(f"mooring learn {which.number} --check {COPY}"),
    )


def _do(which: Lesson, chosen: dict[str, Any]) -> int:
    doings = [name for name in ("edit", "check", "solution", "text", "sandbox", "kubeconfig") if chosen[name]]
    if len(doings) > 1:
        raise UsageError(f"--{doings[0]} and --{doings[1]} exclude each other; give one of them")
    to = console()
    if chosen["text"]:
        to.print(Text(which.text.read_text(encoding="utf-8").rstrip()))
    elif chosen["solution"]:
        solution = which.folder / "solution.py"
        _print_diff(to, which.source, solution, f"lesson {which.number}", "one solution of its exercise")
    elif chosen["edit"]:
        _edit(to, which, Path(chosen["edit"]))
    elif chosen["check"]:
        from mooring.lessons.checking import check_file

        report = check_file(which, Path(chosen["check"]), time_limit_s=chosen["time_limit"])
        _print_report(to, which, report, chosen["check"])
        return 0 if report.is_solved else 1
    else:
        file = chosen["file"]
        module = _load(Path(file)) if file else which.module("scheduler")
        with _blaming(Path(file) if file else which.source):
            if chosen["kubeconfig"] or chosen["sandbox"]:
                _live(to, which, module, chosen["kubeconfig"], chosen["write_kubeconfig"])
            else:
                _play(to, which, module, real_time=chosen["real_time"])
    return 0


# ---- playing ----------------------------------------------------------------------------------------------------


def _teller(to: Console) -> Tell:
    styles = {"scenario": "bold", "note": "cyan", "scheduler": ""}

    def tell(at_s: float, who: str, text: str) -> None:
        line = Text(f"{at_s:6.1f} s  ", style="dim")
        if who == "note":
            line = Text("          ")
        line.append(f"→ {text}" if who == "note" else f"{who:<9}  {text}", style=styles[who])
        to.print(line)

    return tell


def _play(to: Console, which: Lesson, module: ModuleType, *, real_time: bool) -> None:
    from mooring.lessons.course import play

    to.print(Text(f"Lesson {which.number}: {which.title}", style="bold"))
    to.print(Text(f"New: {which.new}. Time is {'real' if real_time else 'virtual: seconds pass at once'}.\n"))
    play(which, _teller(to), module=module, real_time=real_time)
    to.print(f"\nRead: mooring learn {which.number} --text. Do the exercise: mooring learn {which.number} --edit.")
    if which.number < 7:
        to.print(f"Then see what comes next: mooring learn diff {which.number} {which.number + 1}")


def _live(
    to: Console, which: Lesson, module: ModuleType, kubeconfig: str | None, write_kubeconfig: Path | None
) -> None:
    import asyncio

    from mooring.cli.learn_live import schedule_for, serve_sandbox

    tell = _teller(to)
    if kubeconfig:
        asyncio.run(schedule_for(to, tell, module, kubeconfig))
    else:
        asyncio.run(serve_sandbox(to, tell, which.number, module, write_kubeconfig))


def _load(path: Path) -> ModuleType:
    from mooring.lessons.check_process import load
    from mooring.lessons.classroom import look_over

    if not path.is_file():
        raise InputError(f"{path}: there is no such file; expected your copy of scheduler.py")
    with _blaming(path):
        module = load(path.resolve())
    problem = look_over(module)
    if problem:
        raise InputError(f"{path}: {problem}")
    return module


@contextlib.contextmanager
def _blaming(path: Path) -> Iterator[None]:
    """Turn an exception of a scheduler's file into one line that names the place."""
    from mooring.lessons.checking import describe

    try:
        yield
    except (MooringError, OutputLost):
        raise
    except SystemExit:
        raise InputError(f'{path}: it ends the program; put that under: if __name__ == "__main__"') from None
    except Exception as error:
        raise MooringError(f"{path}: {describe(error, path.resolve())}") from error


# ---- the exercise -----------------------------------------------------------------------------------------------


def _edit(to: Console, which: Lesson, folder: Path) -> None:
    target = folder / COPY
    if target.exists():
        raise UsageError(f"{target}: it is there already and is not overwritten; give another folder")
    source, text = which.source.read_text(encoding="utf-8"), which.text.read_text(encoding="utf-8")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "README.md").write_text(text, encoding="utf-8")
        target.write_text(source, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {(error.strerror or str(error)).lower()}") from None
    to.print(f"{target} is yours to change; the exercise is at the end of {folder / 'README.md'}.")
    to.print(f"Play it: mooring learn {which.number} --file {target}")
    to.print(f"Check it: mooring learn {which.number} --check {target}")


def _print_report(to: Console, which: Lesson, report: Report, file: str) -> None:
    for result in report.results:
        if result.missing:
            to.print(Text(f"✗ {result.says}", style="bold"))
            to.print(Text(f"  seen: {result.missing}"))
            to.print(Text(f"  hint: {result.hint}", style="cyan"))
        else:
            to.print(Text(f"✓ {result.says}", style="green"))
    if report.output:
        to.print(Text("\nIt printed:\n" + report.output, style="dim"))
    done = sum(not result.missing for result in report.results)
    if report.problem:
        to.print(Text(f"{file}: {report.problem}."))
        to.print("Nothing is lost: mend that and check again.")
    elif report.is_solved:
        to.print(f"\nAll {done} of {done}: the exercise of lesson {which.number} is solved. Well done!")
        if which.number < 7:
            to.print(f"What comes next: mooring learn diff {which.number} {which.number + 1}")
    else:
        to.print(f"\n{done} of {len(report.results)} so far. If you are stuck: mooring learn {which.number} --solution")
