"""``mooring learn``: the course, with seven small schedulers to run, read, change and be checked on."""

from __future__ import annotations

import asyncio
import difflib
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from mooring.api.errors import UsageError
from mooring.cli.options import Group, examples, kubeconfig_place
from mooring.cli.output import console, print_table
from mooring.learn.changes import explained
from mooring.learn.classroom import SCHEDULER_NAME, Say, Words, listening, open_classroom
from mooring.learn.course import Lesson, Tell
from mooring.net.kubeconfig import find_config
from mooring.net.rest import RestClient

NUMBERS = range(1, 15)
LANG = "Read it in en, ja or zh.  [default: your locale]"


class LessonGroup(Group):
    """A group whose commands are the numbers of lessons and chapters."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*(str(number) for number in NUMBERS), *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name.isdecimal() and len(name) < 5 and int(name) in NUMBERS:
            from mooring.cli.learn_lesson import chapter_command, lesson_command
            from mooring.learn.course import CHAPTERS, lesson

            chapter = next((one for one in CHAPTERS if one.number == int(name)), None)
            return chapter_command(chapter) if chapter is not None else lesson_command(lesson(int(name)))
        return super().get_command(ctx, name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise UsageError(f'lesson "{args[0]}": expected a number from 1 to {NUMBERS[-1]}, or diff')
        return super().resolve_command(ctx, args)


@click.group(cls=LessonGroup, invoke_without_command=True, epilog=examples("mooring learn 1"))
@click.option("--lang", metavar="LANG", help=LANG)
@click.pass_context
def learn(ctx: click.Context, lang: str | None) -> None:
    """Walk through seven small schedulers.

    Without a number the lessons are listed. `mooring learn 3` plays lesson 3 on a control plane inside this process
    and says what is to be seen; `mooring learn 3 --help` shows what else can be done with it.
    """
    ctx.obj = lang
    if ctx.invoked_subcommand is None:
        _list(console(), words_for(lang))


def words_for(lang: str | None) -> Words:
    """Return the course's words in the language of an option or the locale."""
    from mooring.learn.classroom import Words, language_of

    return Words(lang or language_of())


def _list(to: Console, words: Words) -> None:
    from mooring.learn import course as progress
    from mooring.learn.course import CHAPTERS, LESSONS

    solved = progress.solved()
    rows = [(str(one.number), "✓" if one.number in solved else "", words(one.title), words(one.new)) for one in LESSONS]
    print_table(to, (words("LESSON"), "", words("TITLE"), words("WHAT IS NEW")), rows)
    to.print()
    print_table(to, (words("CHAPTER"), words("TO READ")), [(str(one.number), words(one.title)) for one in CHAPTERS])
    to.print()
    to.print(words("Play a lesson: mooring learn 1. Read a chapter: mooring learn 8."))
    to.print(next_step(words, solved))


def next_step(words: Words, solved: set[int]) -> str:
    """Return what to do next, by the solved exercises."""
    from mooring.learn.course import CHAPTERS, LESSONS

    following = next((one.number for one in LESSONS if one.number not in solved), None)
    if following is None:
        return words("All exercises are solved. Next: mooring learn {number}", number=CHAPTERS[0].number)
    return words("Next: mooring learn {number}", number=following)


@learn.command(epilog=examples("mooring learn diff 2 3", "mooring learn diff 2 3 --explain"))
@click.argument("before", type=int)
@click.argument("after", type=int)
@click.option("--explain", is_flag=True, help="Explain each change in a sentence.")
@click.option("--lang", metavar="LANG", help=LANG)
@click.pass_context
def diff(ctx: click.Context, before: int, after: int, explain: bool, lang: str | None) -> None:
    """Show what changes from one lesson to another."""

    from mooring.learn.course import lesson

    words = words_for(lang or ctx.obj)
    old, new = lesson(before), lesson(after)
    names = [words("lesson {number}: {title}", number=one.number, title=words(one.title)) for one in (old, new)]
    if explain and after != before + 1:
        raise UsageError(f"--explain: lessons {before} and {after} are not neighbours; give two consecutive lessons")
    if explain:
        print_explained(console(), old, new, words)
    else:
        print_diff(console(), *(one.source.read_text(encoding="utf-8") for one in (old, new)), *names)


# --------------------------------------------------------------------------------------------------------------------
# Differences of two schedulers: as a unified diff, or change by change with a sentence each.

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def print_diff(to: Console, old: str, new: str, old_name: str, new_name: str) -> None:
    """Print a unified diff of two texts, coloured on a terminal."""
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), old_name, new_name, lineterm="", n=3):
        to.print(Text(line, style="bold" if line.startswith(("+++", "---")) else _STYLES.get(line[:1], "")))


def print_explained(to: Console, old: Lesson, new: Lesson, words: Words) -> None:
    """Print the changes from one lesson to the next in the order in which they are best understood."""
    for number, change in enumerate(explained(old, new), 1):
        to.print(Text(f"{number}. {words(change.says)}", style="bold"))
        for lines in change.hunks:
            to.print()
            for line in lines:
                to.print(Text(f"    {line}", style=_STYLES.get(line[:1], "")))
        to.print()


# --------------------------------------------------------------------------------------------------------------------
# A lesson's scheduler in real time, until Ctrl-C: in a sandbox, or for a cluster of the learner.

SANDBOX_NODES = 10
ANSWER_WITHIN_S = 10.0


async def serve_sandbox(
    to: Console,
    tell: Tell,
    number: int,
    module: ModuleType,
    write_kubeconfig: Path | None = None,
    words: Words | None = None,
) -> None:
    """Start a sandbox cluster for the learner; its kubeconfig is removed when this ends.

    Every printed command names the kubeconfig, so that none of them can reach another cluster.
    """
    words = words or Words()
    say = _since_now(tell)
    with kubeconfig_place(write_kubeconfig) as kubeconfig:
        async with open_classroom(module, say, kubeconfig=kubeconfig, words=words) as room:
            for i in range(SANDBOX_NODES):
                room.node(f"node{i}")
            await room.start()
            kubectl = f"  kubectl --kubeconfig {kubeconfig.resolve()}"  # the other terminal may be in another folder
            overrides = f'--overrides=\'{{"spec":{{"schedulerName":"{SCHEDULER_NAME}"}}}}\''
            to.print(words("The scheduler of lesson {number} is running. In another terminal:", number=number) + "\n")
            for arguments in (f"run pod3 --image=pause:3.10 {overrides}", "get pods -o wide", "get events"):
                to.print(f"{kubectl} {arguments}", soft_wrap=True, markup=False)
            to.print("\n" + words("Ctrl-C ends it.") + "\n")
            to.file.flush()
            await room.pass_time(10**9)


async def schedule_for(
    to: Console, tell: Tell, module: ModuleType, kubeconfig: str, words: Words | None = None
) -> None:
    """Run a lesson's scheduler for a cluster of the learner's; nothing is created in it."""
    words = words or Words()
    say = _since_now(tell)
    async with RestClient(find_config(kubeconfig)) as client:
        answer = await client.get("/version", timeout_s=ANSWER_WITHIN_S)  # a wrong address is reported immediately
        to.print(words("The cluster answers ({status}).", status=answer.status))
        to.print(words("Pods with schedulerName: {name} are scheduled.", name=SCHEDULER_NAME))
        to.print(words("Ctrl-C ends it.") + "\n")
        to.file.flush()
        with listening(say):
            await module.Scheduler(client).run()


def _since_now(tell: Tell) -> Say:
    """Report with the seconds since this call."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    return lambda who, text: tell(loop.time() - began, who, text)


# --------------------------------------------------------------------------------------------------------------------
# ``mooring learn N --ui``: a lesson, played first, then told step by step on the page.


def show_lesson(which: Lesson, words: Words, options: dict[str, Any]) -> None:
    """Play a lesson and serve its page until Ctrl-C; ``options`` are those of the play."""
    from mooring.cli.pages import BuiltInStories, serve_until_interrupted
    from mooring.learn.course import play
    from mooring.show.exports import page_files
    from mooring.show.shown import Shown
    from mooring.show.source import RecordFile

    page_files()  # before anything is played
    with tempfile.TemporaryDirectory(prefix="mooring-") as folder:
        path = options["record"] or str(Path(folder) / "lesson.mooring")
        play(which, lambda at_s, who, text: None, **{**options, "record": path})
        title = words("Lesson {number}: {title}", number=which.number, title=words(which.title))
        shown = Shown(title, RecordFile(path), guide=f"learn {which.number}")
        shown.refresh()
        asyncio.run(serve_until_interrupted([shown], stories=BuiltInStories()))
