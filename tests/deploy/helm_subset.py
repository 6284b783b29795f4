"""Renders the chart where there is no Helm, for the tests: the objects that ``helm template`` would print.

It knows the part of Helm's template language that our chart uses, and keeps the chart that simple: pipelines of paths,
``include``, ``toYaml``, ``quote``, ``default`` and ``nindent``; ``if``, ``range`` and ``define``; ``{{-`` and ``-}}``
trim white space. Anything else raises.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml


@dataclass
class Block:
    """A list of texts, actions and inner blocks."""

    head: str = ""
    parts: list[Any] = field(default_factory=list)


def parse(template: str) -> Block:
    """Split a template into texts and actions, and nest what ``if``, ``range`` and ``define`` hold."""
    stack = [Block()]
    position = 0
    while (tag := re.compile(r"\{\{-?.*?-?\}\}", re.DOTALL).search(template, position)) is not None:
        text, word = template[position : tag.start()], tag.group()
        position = tag.end()
        if word.startswith("{{-"):
            text = text.rstrip()
        if word.endswith("-}}"):
            position += len(template[position:]) - len(template[position:].lstrip())
        stack[-1].parts.append(text)
        action = word.removeprefix("{{").removesuffix("}}").removeprefix("-").removesuffix("-").strip()
        first = action.split()[0]
        if first in ("if", "range", "define"):
            block = Block(action)
            stack[-1].parts.append(block)
            stack.append(block)
        elif first == "end":
            stack.pop()
        else:
            stack[-1].parts.append(Block(action))
    stack[-1].parts.append(template[position:])
    if len(stack) != 1:
        raise ValueError(f"{stack[-1].head}: no end")
    return stack[0]


class Renderer:
    """Renders parsed templates; ``defines`` are shared by all templates of a chart."""

    def __init__(self) -> None:
        self.defines: dict[str, Block] = {}

    def render(self, block: Block, dot: Any) -> str:
        return "".join(part if isinstance(part, str) else self._act(part, dot) for part in block.parts)

    def _act(self, block: Block, dot: Any) -> str:
        first, _, rest = block.head.partition(" ")
        match first:
            case "define":
                self.defines[rest.strip('"')] = Block("", block.parts)
                return ""
            case "if":
                return self.render(block, dot) if self._value(rest, dot) else ""
            case "range":
                return "".join(self.render(block, item) for item in self._value(rest, dot))
            case _:
                return _text(self._value(block.head, dot))

    def _value(self, pipeline: str, dot: Any) -> Any:
        value: Any = None
        for number, stage in enumerate(pipeline.split("|")):
            words = shlex.split(stage, posix=False)
            value = self._call(words, dot, [value] if number else [])
        return value

    def _call(self, words: list[str], dot: Any, piped: list[Any]) -> Any:
        name, arguments = words[0], [self._operand(word, dot) for word in words[1:]] + piped
        match name:
            case "include":
                return self.render(self.defines[arguments[0]], arguments[1])
            case "toYaml":
                return yaml.safe_dump(arguments[0]).rstrip("\n")
            case "quote":
                return json.dumps(_text(arguments[0]))
            case "default":
                return arguments[1] or arguments[0]
            case "nindent":
                pad = " " * arguments[0]
                return "\n" + "\n".join(pad + line if line else line for line in _text(arguments[1]).split("\n"))
            case _ if not piped and len(words) == 1:
                return self._operand(name, dot)
        raise ValueError(f"{' '.join(words)}: not in the subset of Helm that the chart may use")

    def _operand(self, word: str, dot: Any) -> Any:
        if word == ".":
            return dot
        if word.startswith('"'):
            return word.strip('"')
        if word.isdecimal():
            return int(word)
        if not word.startswith("."):
            raise ValueError(f"{word}: not in the subset of Helm that the chart may use")
        for key in word[1:].split("."):
            dot = dot[key]  # a KeyError names a value that values.yaml lacks
        return dot


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def merged(defaults: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The chart's values with one's own over them, as Helm does it: maps are merged, lists replaced, null removes."""
    found = dict(defaults)
    for key, value in own.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict) and isinstance(found.get(key), dict):
            found[key] = merged(found[key], value)
        else:
            found[key] = value
    return found


def render_chart(
    chart: Path, *, release: str = "mooring", namespace: str = "kube-system", values: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """All objects of a chart, as ``helm template`` would print them."""
    described = yaml.safe_load((chart / "Chart.yaml").read_text())
    dot = {
        "Values": merged(yaml.safe_load((chart / "values.yaml").read_text()), values or {}),
        "Release": {"Name": release, "Namespace": namespace},
        "Chart": {"Name": described["name"], "Version": described["version"], "AppVersion": described["appVersion"]},
    }
    renderer = Renderer()
    for helper in sorted((chart / "templates").glob("*.tpl")):
        renderer.render(parse(helper.read_text()), dot)
    objects: list[dict[str, Any]] = []
    for template in sorted((chart / "templates").glob("*.yaml")):
        text = renderer.render(parse(template.read_text()), dot)
        objects += [document for document in yaml.safe_load_all(text) if document is not None]
    return objects
