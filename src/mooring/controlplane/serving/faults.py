"""Injected faults for tests: requests that fail, wait or get no answer, watches that break. Off by default."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from mooring.controlplane.serving.requests import ApiRequest
from mooring.controlplane.types.kind import Kind
from mooring.controlplane.types.status import StatusError, gone, too_many_requests

ACTIONS = ("drop", "delay", "error", "gone", "duplicate", "throttle")


@dataclass(slots=True)
class FaultRule:
    """What to do with the next ``times`` matching requests (or watch chunks), after ``skip`` of them.

    ``drop`` cuts the connection, ``delay`` waits ``seconds``, ``error`` answers ``code`` with ``message``, ``gone``
    answers 410 (on a watch: sends an ERROR event and ends it), ``throttle`` answers 429, ``duplicate`` sends watch
    events twice.
    """

    action: str
    method: str = ""
    path: str = ""
    times: int = 1
    skip: int = 0
    seconds: float = 0.0
    code: int = 500
    message: str = "fault injected"
    on_watch: bool = False

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ValueError(f"fault {self.action!r}: use one of {', '.join(ACTIONS)}")

    def takes(self, method: str, path: str) -> bool:
        if self.times <= 0 or (self.method and self.method != method):
            return False
        if self.path and not re.search(self.path, path):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True


@dataclass(slots=True)
class Faults:
    """The active rules; the first one that matches a request applies."""

    rules: list[FaultRule] = field(default_factory=list)

    def add(self, rule: FaultRule) -> FaultRule:
        self.rules.append(rule)
        return rule

    def _taken(self, method: str, path: str, on_watch: bool) -> FaultRule | None:
        candidates: Sequence[FaultRule] = [rule for rule in self.rules if rule.on_watch is on_watch]
        return next((rule for rule in candidates if rule.takes(method, path)), None)

    async def before(self, request: ApiRequest, path: str) -> None:
        """Apply the rules before a request is handled."""
        rule = self._taken(request.method, path, on_watch=False)
        if rule is None:
            return
        match rule.action:
            case "drop":
                request.cut()
                raise ConnectionResetError("dropped on purpose")
            case "delay":
                await asyncio.sleep(rule.seconds)
            case "gone":
                raise gone("too old resource version: fault injected")
            case "throttle":
                raise too_many_requests("fault injected", rule.seconds or 1)
            case "error":
                raise StatusError(rule.code, "InternalError" if rule.code >= 500 else "Conflict", rule.message)

    async def on_watch(self, kind: Kind, lines: bytes) -> tuple[bytes, bool]:
        """Apply the rules before watch lines are sent; return what to send instead, and whether the watch ends then."""
        rule = self._taken("GET", f"/{kind.resource}", on_watch=True)
        match rule.action if rule is not None else "":
            case "drop":
                return b"", True
            case "delay":
                assert rule is not None
                await asyncio.sleep(rule.seconds)
            case "duplicate":
                return lines + lines, False
            case "gone":
                return _GONE_EVENT, True
        return lines, False


_GONE_EVENT = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"too old resource version: fault injected","reason":"Expired","code":410}}\n'
)
