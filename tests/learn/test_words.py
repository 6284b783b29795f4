"""The course's words: every text that the code can say is in both catalogues, with the same values to fill in."""

from __future__ import annotations

import ast
import json
import re
import string
from pathlib import Path

import pytest

from mooring.api.errors import UsageError
from mooring.learn import changes
from mooring.learn.classroom import Words, language_of
from mooring.learn.course import CHAPTERS, HERE, LESSONS, lesson, play

CATALOGUES: dict[str, dict[str, str]] = {
    language: json.loads((HERE / f"words_{language}.json").read_text(encoding="utf-8")) for language in ("ja", "zh")
}
CLI = HERE.parent / "cli"
SPEAKERS = {"say", "note", "words", "Missing", "_no_more_attempts"}


def spoken(path: Path) -> set[str]:
    """The texts of a module that are said: first string of each call that speaks."""
    found = set()
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if name in SPEAKERS:
                for argument in call.args:
                    found |= set(_strings(argument))
    return found


def _strings(argument: ast.expr) -> list[str]:
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return [argument.value]
    if isinstance(argument, ast.IfExp):
        return _strings(argument.body) + _strings(argument.orelse)
    return []


def everything() -> set[str]:
    texts = {one.title for one in (*LESSONS, *CHAPTERS)} | {one.new for one in LESSONS}
    texts |= {says for table in changes.EXPLANATIONS.values() for says, _ in table}
    for one in LESSONS:
        for check in one.module("check").CHECKS:
            texts |= {check.says, *check.hints}
    modules = [*HERE.glob("stage*/scenario.py"), *HERE.glob("stage*/steps.py"), *HERE.glob("stage*/check.py")]
    modules += [HERE / "classroom.py", HERE / "check_process.py", *CLI.glob("learn*.py")]
    for module in modules:
        texts |= spoken(module)
    return texts


def values(text: str) -> set[str]:
    return {f"{name}:{form}" for _, name, form, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("language", CATALOGUES)
def test_every_text_is_translated_and_nothing_else_is_in_the_catalogue(language: str) -> None:
    assert everything() - set(CATALOGUES[language]) == set()
    assert set(CATALOGUES[language]) - everything() == set()


@pytest.mark.parametrize("language", CATALOGUES)
def test_a_translation_has_the_same_values_to_fill_in(language: str) -> None:
    wrong = [text for text, other in CATALOGUES[language].items() if "{" in text and values(text) != values(other)]
    assert wrong == []


@pytest.mark.parametrize("language", CATALOGUES)
def test_a_translation_keeps_commands_and_log_lines(language: str) -> None:
    for text, other in CATALOGUES[language].items():
        for command in re.findall(r"mooring learn [\w{} -]*[\w}]|--\w+", text):
            assert command in other, text


@pytest.mark.parametrize("language", CATALOGUES)
def test_a_play_speaks_the_language_and_the_scheduler_still_logs_in_english(language: str) -> None:
    lines: list[tuple[str, str]] = []
    play(lesson(2), lambda at, who, text: lines.append((who, text)), words=Words(language))
    foreign = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
    assert all(foreign.search(text) for who, text in lines if who in ("scenario", "note"))
    assert not any(foreign.search(text) for who, text in lines if who in ("scheduler", "kubectl"))


@pytest.mark.parametrize(
    ("environ", "want"),
    [
        pytest.param({}, "en", id="no locale"),
        pytest.param({"LANG": "ja_JP.UTF-8"}, "ja", id="Japanese"),
        pytest.param({"LANG": "zh_CN.UTF-8"}, "zh", id="Chinese"),
        pytest.param({"LANG": "de_DE.UTF-8"}, "en", id="a language without a translation"),
        pytest.param({"LANG": "ja_JP.UTF-8", "LC_ALL": "C"}, "en", id="LC_ALL comes first"),
        pytest.param({"LANG": "C", "LC_MESSAGES": "zh_TW"}, "zh", id="LC_MESSAGES comes before LANG"),
    ],
)
def test_the_language_of_a_locale(environ: dict[str, str], want: str) -> None:
    assert language_of(environ) == want


def test_an_unknown_text_is_unchanged_and_an_unknown_language_is_refused() -> None:
    assert Words("ja")("a text of a learner's own, {n}", n=3) == "a text of a learner's own, 3"
    with pytest.raises(UsageError, match="--lang xx"):
        Words("xx")
