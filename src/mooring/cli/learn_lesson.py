"""The commands of single lessons and chapters: ``mooring learn 3``, ``mooring learn 8``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from mooring.api.errors import InputError, MooringError, UsageError
from mooring.cli.learn import LANG, next_step, print_diff, words_for
from mooring.cli.options import Integers, Numbers, examples
from mooring.cli.output import console
from mooring.cli.streams import OutputLost
from mooring.learn.checking import COPY, check_file, describe, require_file
from mooring.learn.classroom import Words
from mooring.learn.course import Chapter, Lesson, Scenario, Tell, lesson

if TYPE_CHECKING:
    from types import ModuleType

    from mooring.learn.checking import CheckReport

SCENARIO_COPY = "my_scenario.py"
_ONE_OF = ("edit", "check", "solution", "text", "sandbox", "kubeconfig", "step")


def lesson_command(which: Lesson) -> click.Command:
    """Make the command of one lesson; all have the same options."""
    number = which.number
    options = [
        click.Option(
            ["--edit"],
            is_flag=False,
            flag_value=f"lesson{number}",
            metavar="[DIR]",
            help=f"Copy the lesson into a folder.  [default: lesson{number}]",
        ),
        click.Option(["--check"], metavar="FILE", help="Check your solution of the exercise."),
        click.Option(["--hint"], type=Integers(1, 9), default=1, metavar="N", help="Show N hints with --check."),
        click.Option(["--time-limit"], type=Numbers(1, 3600), default=60.0, help="Limit --check to N seconds."),
        click.Option(["--file"], metavar="FILE", help="Play the scenario with your scheduler."),
        click.Option(["--scenario"], metavar="FILE", help="Play your scenario."),
        click.Option(
            ["--with", "with_"], type=int, metavar="N", help="Play the scenario with the scheduler of lesson N."
        ),
        click.Option(["--solution"], is_flag=True, help="Show one solution as a difference."),
        click.Option(["--text"], is_flag=True, help="Print the lesson's text."),
        click.Option(["--sandbox"], is_flag=True, help="Start ten nodes and the scheduler for kubectl."),
        click.Option(
            ["--write-kubeconfig"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Write --sandbox's kubeconfig here.",
        ),
        click.Option(["--kubeconfig"], metavar="FILE", help="Schedule for this cluster instead."),
        click.Option(["--real-time"], is_flag=True, help="Use real time instead of virtual time."),
        click.Option(["--ui", "shows_page"], is_flag=True, help="Play it, then show it step by step in the browser."),
        click.Option(["--record"], metavar="FILE", help="Write a record for `mooring replay`."),
        click.Option(
            ["-o", "--output"], type=click.Choice(["text", "json"]), default="text", help="Choose the output format."
        ),
        click.Option(["--lang"], metavar="LANG", help=LANG),
    ]
    if which.steps:
        steps = len(which.steps)
        step = click.Option(["--step"], type=Integers(1, steps), metavar="N", help=f"Play step N of {steps}.")
        options.insert(0, step)
    return click.Command(
        str(number),
        callback=click.pass_obj(lambda group_lang, **chosen: _do(which, {"step": None, **chosen}, group_lang)),
        params=list(options),
        help=f"Lesson {number}, {which.title}: {which.new}.",
        short_help=f"{which.title}: {which.new}",
        epilog=examples(f"mooring learn {number} --check lesson{number}/{COPY}"),
    )


def chapter_command(which: Chapter) -> click.Command:
    """Make the command that prints a chapter."""

    def read(group_lang: str | None, **chosen: Any) -> None:
        words = words_for(chosen["lang"] or group_lang)
        print_text(console(), which.text(words.language))

    return click.Command(
        str(which.number),
        callback=click.pass_obj(read),
        params=[
            click.Option(["--text"], is_flag=True, help="Print the text (the default)."),
            click.Option(["--lang"], metavar="LANG", help=LANG),
        ],
        help=f"Chapter {which.number}: {which.title}.\n\n\b\nExample:\n  mooring learn {which.number}",
        short_help=which.title,
    )


def print_text(to: Console, path: Path) -> None:
    """Print a text of the course: rendered on a terminal, unchanged into a file."""
    text = path.read_text(encoding="utf-8").rstrip()
    if to.is_terminal:
        to.print(Markdown(text, hyperlinks=False), width=min(to.width, 100))
    else:
        to.print(Text(text))


def _do(which: Lesson, chosen: dict[str, Any], lang: str | None) -> int:
    doings = [name for name in _ONE_OF if chosen[name]]
    if len(doings) > 1:
        raise UsageError(f"--{doings[0]} and --{doings[1]} exclude each other; give one of them")
    if chosen["file"] and chosen["with_"]:
        raise UsageError("--file and --with exclude each other; give one of them")
    words = words_for(chosen["lang"] or lang)
    to = console()
    if chosen["text"]:
        print_text(to, which.text(words.language))
    elif chosen["solution"]:
        name = words("lesson {number}: {title}", number=which.number, title=words(which.title))
        print_diff(
            to, which.source.read_text(encoding="utf-8"), which.solution, name, words("one solution of its exercise")
        )
    elif chosen["edit"]:
        _edit(to, which, Path(chosen["edit"]), words)
    elif chosen["check"]:
        return _check(to, which, chosen, words)
    else:
        _play_or_serve(to, which, chosen, words)
    return 0


# ---- playing ----------------------------------------------------------------------------------------------------


def _play_or_serve(to: Console, which: Lesson, chosen: dict[str, Any], words: Words) -> None:
    path, module = which.source, which.module("scheduler")
    scenario: Scenario | None = None
    if chosen["file"]:
        path, module = Path(chosen["file"]), _load(Path(chosen["file"]), which.number)
    elif chosen["with_"]:
        other = lesson(chosen["with_"])
        path, module = other.source, other.module("scheduler")
    elif chosen["step"]:
        path = which.steps[chosen["step"] - 1]
        module, scenario = which.module(path.stem), which.module("steps").scenario
    if chosen["scenario"]:
        path = Path(chosen["scenario"])
        scenario = _load_scenario(path, which.number)
    with _blaming(path):
        if chosen["kubeconfig"] or chosen["sandbox"]:
            _live(to, which, module, chosen, words)
        else:
            _play(to, which, module, scenario, chosen, words)


def teller(to: Console) -> Tell:
    """Print a play line by line; long lines are indented where they wrap."""
    styles = {"scenario": "bold", "note": "cyan", "scheduler": "", "kubectl": "green"}

    def tell(at_s: float, who: str, text: str) -> None:
        begin = f"{'':8}  → " if who == "note" else f"{'':8}  " if who == "kubectl" else f"{at_s:6.1f} s  {who:<9}  "
        lines = [Text(text)]
        if to.is_terminal and who != "kubectl":
            lines = list(Text(text).wrap(to, max(20, to.width - len(begin)))) or [Text()]
        for line in lines:
            line.rstrip()
            line.stylize(styles[who])
            to.print(Text(begin, style="dim").append_text(line), soft_wrap=True)
            begin = " " * len(begin)

    return tell


def _play(
    to: Console,
    which: Lesson,
    module: ModuleType,
    scenario: Scenario | None,
    chosen: dict[str, Any],
    words: Words,
) -> None:
    from mooring.cli.learn import show_lesson
    from mooring.learn.course import play

    def tell_json(at_s: float, who: str, text: str) -> None:
        click.echo(json.dumps({"at": round(at_s, 3), "who": who, "text": text}, ensure_ascii=False))

    options = {
        "module": module,
        "scenario": scenario,
        "real_time": chosen["real_time"],
        "words": words,
        "record": chosen["record"],
    }
    if chosen["output"] == "json":
        play(which, tell_json, **options)
        return
    if chosen["shows_page"]:
        show_lesson(which, words, options)
        return
    number = which.number
    to.print(Text(words("Lesson {number}: {title}", number=number, title=words(which.title)), style="bold"))
    if chosen["with_"]:
        to.print(words("The scheduler is that of lesson {number}.", number=chosen["with_"]))
    elif chosen["step"]:
        to.print(words("Step {step} of {steps}", step=chosen["step"], steps=len(which.steps)))
    else:
        to.print(words("New: {new}.", new=words(which.new)))
    to.print(words("Time is real." if chosen["real_time"] else "Time is virtual: seconds pass at once.") + "\n")
    play(which, teller(to), **options)
    to.print()
    _print_what_is_next(to, which, chosen, words)


def _print_what_is_next(to: Console, which: Lesson, chosen: dict[str, Any], words: Words) -> None:
    number = which.number
    if chosen["step"]:
        following = chosen["step"] + 1
        if following <= len(which.steps):
            to.print(words("Next step: mooring learn {number} --step {step}", number=number, step=following))
        else:
            to.print(words("That was the last step. Next: mooring learn {number}", number=number))
        return
    if chosen["with_"]:
        to.print(words("Now with its own scheduler: mooring learn {number}", number=number))
        return
    to.print(words("Read: mooring learn {number} --text", number=number))
    if number > 1:
        to.print(
            words("What changed: mooring learn diff {before} {number} --explain", before=number - 1, number=number)
        )
    to.print(words("Exercise: mooring learn {number} --edit", number=number))
    to.print(words("Next: mooring learn {number}", number=number + 1))


def _live(to: Console, which: Lesson, module: ModuleType, chosen: dict[str, Any], words: Words) -> None:
    import asyncio

    from mooring.cli.learn import schedule_for, serve_sandbox

    if chosen["kubeconfig"]:
        asyncio.run(schedule_for(to, teller(to), module, chosen["kubeconfig"], words))
    else:
        asyncio.run(serve_sandbox(to, teller(to), which.number, module, chosen["write_kubeconfig"], words))


def _load(path: Path, number: int) -> ModuleType:
    from mooring.learn.check_process import load
    from mooring.learn.classroom import problem_with

    require_file(path, number)
    with _blaming(path):
        module = load(path.resolve())
    problem = problem_with(module)
    if problem:
        raise InputError(f"{path}: {problem}")
    return module


def _load_scenario(path: Path, number: int) -> Scenario:
    import inspect

    from mooring.learn.check_process import load

    require_file(path, number, SCENARIO_COPY)
    with _blaming(path):
        module = load(path.resolve(), "my_scenario")
    found: Scenario | None = getattr(module, "scenario", None)
    if not inspect.iscoroutinefunction(found):
        raise InputError(f"{path}: no function in it to play; expected `async def scenario(room)`")
    return found


@contextlib.contextmanager
def _blaming(path: Path) -> Iterator[None]:
    """Turn an exception of a learner's file into one line that names the place."""
    try:
        yield
    except (MooringError, OutputLost):
        raise
    except SystemExit:
        raise InputError(f'{path}: it ends the program; put that under: if __name__ == "__main__"') from None
    except Exception as error:
        raise MooringError(f"{path}: {describe(error, path.resolve())}") from error


# ---- the exercise -----------------------------------------------------------------------------------------------


def _edit(to: Console, which: Lesson, folder: Path, words: Words) -> None:
    target, scenario, readme = folder / COPY, folder / SCENARIO_COPY, folder / "README.md"
    for existing in (target, scenario):
        if existing.exists():
            raise UsageError(f"{existing} exists and is not overwritten; choose another folder")
    copies = ((which.text(words.language), readme), (which.scenario, scenario), (which.source, target))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source, copy in copies:
            copy.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {(error.strerror or str(error)).lower()}") from None
    number = which.number
    to.print(words("{file} is yours to change; the exercise is at the end of {text}.", file=target, text=readme))
    to.print(words("Check it: mooring learn {number} --check {file}", number=number, file=target))
    to.print(words("Play it: mooring learn {number} --file {file}", number=number, file=target))
    to.print(words("Play your own story: mooring learn {number} --scenario {file}", number=number, file=scenario))


def _check(to: Console, which: Lesson, chosen: dict[str, Any], words: Words) -> int:
    from mooring.learn.course import remember

    file = chosen["check"]
    report = check_file(which, Path(file), time_limit_s=chosen["time_limit"], language=words.language)
    if report.is_solved:
        remember(which.number)
    _print_report(to, which, report, file, chosen["hint"], words)
    return 0 if report.is_solved else 1


def _print_report(to: Console, which: Lesson, report: CheckReport, file: str, hints: int, words: Words) -> None:
    from mooring.learn.course import solved

    more = 0
    for result in report.results:
        if not result.was_run:
            to.print(Text(f"· {result.says}", style="dim"))
        elif result.missing:
            to.print(Text(f"✗ {result.says}", style="bold"))
            to.print(Text("  " + words("seen: {what}", what=result.missing)))
            for hint in result.hints[:hints]:
                to.print(Text("  " + words("hint: {what}", what=hint), style="cyan"))
            more = max(more, len(result.hints) - hints)
        else:
            to.print(Text(f"✓ {result.says}", style="green"))
    if report.output:
        to.print(Text("\n" + words("It printed:") + "\n" + report.output, style="dim"))
    number = which.number
    if report.problem:
        to.print(Text(f"{file}: {report.problem}."))
        to.print(words("Fix that and check again; your file was not changed."))
    elif report.is_solved:
        to.print()
        to.print(
            words(
                "All {count} checks passed: the exercise of lesson {number} is solved.",
                count=report.passed,
                number=number,
            )
        )
        to.print(next_step(words, solved()))
    else:
        to.print()
        to.print(words("{passed} of {count} so far.", passed=report.passed, count=len(report.results)))
        if more > 0:
            to.print(words("One more hint: add --hint {count}", count=hints + 1))
        else:
            to.print(words("If you are stuck: mooring learn {number} --solution", number=number))
