"""An author's module, named on the command line: a Python file or an importable name. Mistakes are one line each."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from mooring.errors import MooringError, PluginError


def split_reference(reference: str) -> tuple[str, str]:
    """The file or module, and the class if one is named: ``file.py:Class`` or ``package.module:Class``."""
    place, colon, class_name = reference.rpartition(":")
    if not colon or class_name.endswith(".py") or "/" in class_name:
        return reference, ""
    return place, class_name


def load_module(place: str, prefix: str, where: str) -> ModuleType:
    """Run a file as a module whose name begins with the prefix, or import a module. Errors begin with ``where``.

    A file that was run before is not run again.
    """
    if not place.endswith(".py"):
        return _import(place, where)
    path = Path(place)
    if not path.is_file():
        raise PluginError(f"{where}: there is no file {path}")
    name = f"{prefix}_" + "".join(c if c.isalnum() else "_" for c in str(path.resolve()))
    if name in sys.modules:
        return sys.modules[name]
    try:
        return _run(path, name)
    except Exception as error:
        raise PluginError(f"{where}: {problem_in(error, str(path))}") from error


def _import(name: str, where: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            hint = "is it installed? (the name of a file ends in .py)"
            raise PluginError(f"{where}: there is no module {error.name}; {hint}") from None
        raise PluginError(f"{where}: importing {name} needs the module {error.name}") from None
    except Exception as error:
        raise PluginError(f"{where}: {problem_in(error, name)}") from error


class _AsItIsNow(SourceFileLoader):
    """Compiles the file each time: kept byte code may be that of an older text of the same second and size."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _run(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path, loader=_AsItIsNow(name, str(path)))
    assert spec is not None and spec.loader is not None, "a loader was given"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and type hints look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def problem_in(error: Exception, place: str) -> str:
    """What went wrong in an author's module, with the line if it is known."""
    if isinstance(error, SyntaxError):
        return f"{error.filename or place}, line {error.lineno}: {error.msg}"
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith(place):
            line = trace.tb_lineno
        trace = trace.tb_next
    where = place if line is None else f"{place}, line {line}"
    return f"{where}: {error}" if isinstance(error, MooringError) else f"{where}: {type(error).__name__}: {error}"
