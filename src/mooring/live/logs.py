"""Logs as klog writes them, as text or as JSON, on top of the standard library's logging.

```
I1115 20:25:38.000000       1 scheduler.py:12] "Successfully bound pod to node" pod="default/web" node="node-1"
{"ts":1794774338000.0,"caller":"scheduler.py:12","msg":"Successfully bound pod to node","v":2,
 "pod":{"name":"web","namespace":"default"},"node":"node-1"}
```

Verbosity 0 is logging's INFO; each further level is one below it, so ``-v 2`` shows levels 18 and up.
``StructuredLogger`` takes keys and values; ordinary loggers work too. From ``-v 2`` on an error is logged with its
traceback. A line costs about 25 µs: check ``v(n)`` first, it is falsy if the line would not be shown.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import sys
from typing import Any, TextIO

from mooring.api.errors import UsageError
from mooring.api.text import printable

OBJECTS = frozenset(("pod", "preemptor", "victim", "waitingPod"))
"""Keys whose value is an object's ``namespace/name``; JSON splits it into two fields, as klog's KObj does."""
TRACEBACKS = logging.INFO - 2
_SEVERITY = ((logging.CRITICAL, "F"), (logging.ERROR, "E"), (logging.WARNING, "W"))


class StructuredLogger:
    """A logger for messages with keys and values."""

    __slots__ = ("_level", "_logger")

    def __init__(self, logger: logging.Logger, level: int = logging.INFO) -> None:
        self._logger = logger
        self._level = level

    def __bool__(self) -> bool:
        return self._logger.isEnabledFor(self._level)

    def v(self, verbosity: int) -> StructuredLogger:
        """Return this logger at a verbosity; false if such messages are not shown."""
        return StructuredLogger(self._logger, logging.INFO - verbosity)

    def info(self, message: str, **values: Any) -> None:
        self._emit(self._level, message, values)

    def warning(self, message: str, **values: Any) -> None:
        self._emit(logging.WARNING, message, values)

    def error(self, error: BaseException | str | None, message: str, **values: Any) -> None:
        """Log an error; its text goes into ``err`` as upstream."""
        if error is not None:
            values = {"err": str(error), **values}
        shows_trace = isinstance(error, BaseException) and self._logger.isEnabledFor(TRACEBACKS)
        self._emit(logging.ERROR, message, values, error if shows_trace else None)

    def _emit(self, level: int, message: str, values: dict[str, Any], error: Any = None) -> None:
        if self._logger.isEnabledFor(level):
            if values and not self._logger.hasHandlers():  # Python's last resort prints nothing but the message
                message += ": " + " ".join(f"{key}={value_text(value)}" for key, value in values.items())
            self._logger.log(level, message, extra={"values": values}, stacklevel=3, exc_info=error)


def get_logger(name: str) -> StructuredLogger:
    """The structured logger of a module."""
    return StructuredLogger(logging.getLogger(name))


def verbosity_of(level: int) -> int:
    """The klog verbosity of one of logging's levels."""
    return max(0, logging.INFO - level)


class KlogFormatter(logging.Formatter):
    """Formats records in klog's text form."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.datetime.fromtimestamp(record.created)
        letter = next((letter for level, letter in _SEVERITY if record.levelno >= level), "I")
        # klog writes the process id where other formats have a thread id.
        head = f"{letter}{when:%m%d %H:%M:%S.%f} {record.process or os.getpid():7d} {record.filename}:{record.lineno}] "
        values: dict[str, Any] | None = getattr(record, "values", None)
        if values is None:
            text = printable(record.getMessage().replace("\n", "\\n"))
        else:
            text = quote(record.getMessage()) + "".join(f" {key}={value_text(value)}" for key, value in values.items())
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return head + text


class JsonFormatter(logging.Formatter):
    """Formats records in the JSON form of Kubernetes components: one object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": round(record.created * 1000, 3),
            "caller": f"{record.filename}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.levelno < logging.ERROR:
            line["v"] = verbosity_of(record.levelno)
        for key, value in (getattr(record, "values", None) or {}).items():
            line[key] = _reference(value) if key in OBJECTS and isinstance(value, str) else value
        if record.exc_info:
            line["stacktrace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, separators=(",", ":"))


class PlainFormatter(logging.Formatter):
    """Formats records for people at a terminal: level, logger, message, then keys and values."""

    def format(self, record: logging.LogRecord) -> str:
        values: dict[str, Any] = getattr(record, "values", None) or {}
        text = f"{record.levelname} {record.name}: {record.getMessage()}"
        text += "".join(f" {key}={value_text(value)}" for key, value in values.items())
        return printable(f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text)


def _reference(key: str) -> dict[str, str]:
    namespace, _, name = key.rpartition("/")
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def quote(text: str) -> str:
    """Quote a string as Go's %q does."""
    return json.dumps(text, ensure_ascii=False)


def value_text(value: Any) -> str:
    """Write a value as klog does: strings quoted, several lines indented, numbers plain, the rest as JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "<nil>"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, default=str, separators=(",", ":"), ensure_ascii=False)
    text = str(value)
    if "\n" in text:
        return "<\n" + "".join(f"\t{line}\n" for line in text.split("\n")) + " >"
    return quote(text)


def set_up(
    *, logging_format: str = "text", verbosity: int = 0, stream: TextIO | None = None, root: str = "mooring"
) -> logging.Handler:
    """Send the logs of ``root`` to a stream (standard error by default) in the given format."""
    if logging_format not in ("text", "json"):
        raise UsageError(f"--logging-format: {logging_format!r}; it should be text or json")
    if verbosity < 0:
        raise UsageError(f"-v: {verbosity}; it should be 0 or more")
    logger = logging.getLogger(root)
    for old in [handler for handler in logger.handlers if getattr(handler, "_is_mooring", False)]:
        logger.removeHandler(old)
    handler: logging.Handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if logging_format == "json" else KlogFormatter())
    handler._is_mooring = True  # type: ignore[attr-defined]
    logger.addHandler(handler)
    logger.propagate = False
    set_verbosity(verbosity, root=root)
    return handler


def set_verbosity(verbosity: int, *, root: str = "mooring") -> None:
    """Change the verbosity while running; every level down to 1 is one step."""
    logging.getLogger(root).setLevel(max(1, logging.INFO - verbosity))
