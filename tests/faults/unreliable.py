"""A plugin that raises and an extender that hangs or lies, while a story wants them to."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from mooring.core.framework.status import SUCCESS, Status
from mooring.net.extender.client import HttpExtender
from mooring.net.extender.http_client import ExtenderReply, NoAnswer
from mooring.net.extender.wire import Payload
from tests.faults.world import Machine

HANG_S = 5.0
RAISE = 0.2
EXTENDER = {
    "urlPrefix": "http://extender.invalid",
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "weight": 1,
    "nodeCacheCapable": True,
}
KEPT_OFF = "app-250", "node-0"
"""Pods with this label are never allowed on this node: the extender says so whenever it answers truly."""


class Moods:
    """What plugins and extenders are up to just now; one for all replicas of a world."""

    def __init__(self, rng: random.Random, tell: Callable[[str], None] = lambda problem: None) -> None:
        self.rng = rng
        self.tell = tell
        self.raises = False
        self.hangs = False
        self.lies = False


def raising_plugin(moods: Moods) -> type:
    """A plugin that fails now and then at every point where a plugin of a user's own may.

    It keeps books: what it has refused by raising must be undone and not be bound.
    """

    class Raising:
        name: ClassVar[str] = "Raising"

        def __init__(self, args: Any, handle: Any) -> None:
            self._raised: set[str] = set()

        def events_to_register(self) -> tuple[Any, ...]:
            return ()

        def _perhaps(self, pod: Any = None) -> None:
            if moods.raises and moods.rng.random() < RAISE:
                if pod is not None:
                    self._raised.add(pod.uid)
                raise RuntimeError("raised on purpose")

        def reserve(self, state: Any, pod: Any, node_name: str) -> Status:
            if pod.uid in self._raised:
                self._raised.discard(pod.uid)
                moods.tell(f"pod {pod.pod.key} is tried again, and what a plugin had reserved was not undone")
            self._perhaps(pod)
            return SUCCESS

        def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
            self._raised.discard(pod.uid)
            self._perhaps()

        def permit(self, state: Any, pod: Any, node_name: str) -> tuple[Status, float]:
            self._perhaps(pod)
            return SUCCESS, 0.0

        async def pre_bind(self, state: Any, pod: Any, node_name: str) -> Status:
            self._perhaps(pod)
            return SUCCESS

        def post_bind(self, state: Any, pod: Any, node_name: str) -> None:
            if pod.uid in self._raised:
                moods.tell(f"pod {pod.pod.key} was bound although a plugin had raised")
            self._perhaps()

    return Raising


def moody(extender: HttpExtender, machine: Machine, moods: Moods) -> HttpExtender:
    """The extender with the far end of its connections here."""
    extender._client.close()
    extender._client = _FarEnd(machine, moods)  # type: ignore[assignment]
    return extender


class _Asked(msgspec.Struct):
    Pod: dict[str, Any]
    NodeNames: list[str]


class _FarEnd:
    """An extender that filters and scores. When it hangs, it takes its whole time and gives no answer. When it lies,
    it names nodes that it was not asked about, leaves out others, and scores beyond all bounds, or answers with
    something that no extender says."""

    compresses = False

    def __init__(self, machine: Machine, moods: Moods) -> None:
        self._machine, self._moods = machine, moods
        self._known: dict[str, None] = {}  # every node that it was ever asked about

    def close(self) -> None: ...

    def post(self, url: str, body: Payload, *, may_repeat: bool = True) -> ExtenderReply:
        moods = self._moods
        if moods.hangs:
            self._machine.busy_s += HANG_S
            raise NoAnswer(f"{url}: no answer in {HANG_S:g}s")
        self._machine.busy_s += 0.002
        asked = msgspec.json.decode(b"".join(body.pieces), type=_Asked)
        self._known |= dict.fromkeys(asked.NodeNames)
        answer = self._filter(asked) if url.endswith("filter") else self._prioritize(asked)
        return ExtenderReply(200, msgspec.json.encode(answer))

    def _filter(self, asked: _Asked) -> Any:
        app, kept_off = KEPT_OFF
        label = (asked.Pod["metadata"].get("labels") or {}).get("app")
        names = [name for name in asked.NodeNames if (label, name) != (app, kept_off)]
        if self._moods.lies:
            lie = self._moods.rng.randrange(3)
            if lie == 0:
                return {"NodeNames": [name for name in self._known if (label, name) != (app, kept_off)]}
            if lie == 1:
                return ["what is this"]
            names = [name for name in names if self._moods.rng.random() < 0.7]
            return {"NodeNames": names, "FailedNodes": {"no-such-node": "a lie"}}
        return {"NodeNames": names}

    def _prioritize(self, asked: _Asked) -> Any:
        if self._moods.lies:
            beyond = [{"Host": name, "Score": 100_000_000_000_000_000} for name in asked.NodeNames[:1]]
            return [{"Host": "no-such-node", "Score": 10}, *beyond]
        return [{"Host": name, "Score": 5} for name in asked.NodeNames]
