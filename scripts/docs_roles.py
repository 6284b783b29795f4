"""Docstrings as Markdown. They say ``:class:`Pod``` where a tool can follow it; on the site that is simply `Pod`."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Module, Object

_ROLE = re.compile(r":(?:class|meth|func|mod|attr|exc|data):`~?([^`]+)`")


class Roles(Extension):
    """Runs when griffe has read an object, or a whole package."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        _rewrite(obj)

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        _rewrite(pkg)


def _rewrite(obj: Object) -> None:
    if obj.docstring is not None:
        text = _ROLE.sub(r"`\1`", obj.docstring.value)
        obj.docstring.value = re.sub(r"::$", ":", text, flags=re.MULTILINE)
