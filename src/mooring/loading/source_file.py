"""A Python file that is not on the module path, run as a module; and the line in it where something went wrong."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def module_name(prefix: str, path: Path) -> str:
    """A name that no other file's module has."""
    return f"{prefix}_" + "".join(c if c.isalnum() else "_" for c in str(path.resolve()))


def module_of_file(path: Path, name: str) -> ModuleType:
    """Run a file under a module name. What it raises is its author's business and goes to the caller."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, "a path that ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and type hints look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def line_in(error: BaseException, place: str) -> int | None:
    """The last line of the author's own file that the error passed through."""
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith(place):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
