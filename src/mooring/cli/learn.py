"""``mooring learn``: the course, with seven small schedulers to run, read, change and be checked on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Console

from mooring.cli.help import Group, examples
from mooring.cli.output import console, print_table
from mooring.errors import UsageError

if TYPE_CHECKING:
    from mooring.lessons.words import Words

NUMBERS = range(1, 15)
LANG = "The language of the course: en, ja or zh.  [default: that of your locale]"


class LessonGroup(Group):
    """A group whose commands are the numbers of lessons and chapters."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*(str(number) for number in NUMBERS), *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name.isdecimal():
            from mooring.cli.learn_lesson import chapter_command, lesson_command
            from mooring.lessons.course import CHAPTERS, lesson

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
    """The course's words in the language that an option or the locale asks for."""
    from mooring.lessons.words import Words, language_of

    return Words(lang or language_of())


def _list(to: Console, words: Words) -> None:
    from mooring.lessons import progress
    from mooring.lessons.course import CHAPTERS, LESSONS

    solved = progress.solved()
    rows = [(str(one.number), "✓" if one.number in solved else "", words(one.title), words(one.new)) for one in LESSONS]
    print_table(to, (words("LESSON"), "", words("TITLE"), words("WHAT IS NEW")), rows)
    to.print()
    print_table(to, (words("CHAPTER"), words("TO READ")), [(str(one.number), words(one.title)) for one in CHAPTERS])
    to.print()
    to.print(words("Play a lesson: mooring learn 1. Read a chapter: mooring learn 8."))
    to.print(next_step(words, solved))


def next_step(words: Words, solved: set[int]) -> str:
    """Say what to do next, from what was solved."""
    from mooring.lessons.course import CHAPTERS, LESSONS

    following = next((one.number for one in LESSONS if one.number not in solved), None)
    if following is None:
        return words("All exercises are solved. Next: mooring learn {number}", number=CHAPTERS[0].number)
    return words("Next: mooring learn {number}", number=following)


@learn.command(epilog=examples("mooring learn diff 2 3", "mooring learn diff 2 3 --explain"))
@click.argument("before", type=int)
@click.argument("after", type=int)
@click.option("--explain", is_flag=True, help="Each change with a sentence, in the order of the lesson.")
@click.option("--lang", metavar="LANG", help=LANG)
@click.pass_context
def diff(ctx: click.Context, before: int, after: int, explain: bool, lang: str | None) -> None:
    """Show what changes from one lesson to another."""
    from mooring.cli.learn_diff import print_diff, print_explained
    from mooring.lessons.course import lesson

    words = words_for(lang or ctx.obj)
    old, new = lesson(before), lesson(after)
    names = [words("lesson {number}: {title}", number=one.number, title=words(one.title)) for one in (old, new)]
    if explain and after != before + 1:
        raise UsageError(f"--explain: lessons {before} and {after} are no neighbours; give two that follow each other")
    if explain:
        print_explained(console(), old, new, words)
    else:
        print_diff(console(), old.source, new.source, *names)
