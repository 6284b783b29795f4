"""A network in memory: connections between machines and the API server, and everything that can happen to bytes.

Writes travel as the bytes of HTTP that the client's connection pool makes and reads. Reads and watches travel as
requests, answers and pieces of a body. A request that arrives, arrives within
``MAX_LATE_S``: a leader's fence leaves that much room before its lease expires (decisions/0014).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import urllib.parse
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mooring.controlplane.serving.handlers import Handlers
from mooring.controlplane.serving.requests import ApiRequest, Reply
from mooring.net.errors import ConnectionFailed, Unreachable
from mooring.net.http1 import Message, MessageReader
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import Transport
from tests.faults.stale import BEHIND
from tests.faults.world import Machine, VirtualLoop, World

WRITER: ContextVar[str] = ContextVar("writer", default="")
"""The machine whose request is being carried out; the audit asks."""
LATENCY_S = (0.0002, 0.002)
MAX_LATE_S = 1.0
SILENCE_S = 60.0
"""A connection whose other end is gone is found out after this time, by the kernel's keep-alive."""
GONE = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"too old resource version","reason":"Expired","code":410}}\n'
)


_EXPIRED = (
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,'
    b'"message":"The provided continue parameter is too old to display a consistent list result."}'
)
_NO_STREAMS = (
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,'
    b'"message":"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"}'
)
_REFUSALS = {
    500: (500, "InternalError", ""),
    503: (503, "ServiceUnavailable", "1"),
    429: (429, "TooManyRequests", "1"),
    409: (409, "Conflict", ""),
}


@dataclass
class Trouble:
    """What may happen to a machine's messages just now; the figures are probabilities unless they say otherwise."""

    lose_request: float = 0.0
    lose_answer: float = 0.0
    half: float = 0.0  # of those that are lost: how many are cut in the middle rather than swallowed whole
    double: float = 0.0
    double_events: float = 0.0  # what a watch tells comes once more, and later than what was told after it
    reset: float = 0.0  # the connection breaks while the request is on its way, and the request arrives all the same
    late: float = 0.0
    late_answer_s: float = 0.0  # up to so many seconds
    late_of: str = ""  # only requests with this in their path, and these as late as can be
    lose_answer_of: str = ""  # only answers to requests with this in their path
    refuse: float = 0.0  # answered by the server with an error
    refuse_with: int = 0  # this one
    half_refusal: float = 0.0  # of the errors: how many break off in the middle of their body
    is_cut_off: bool = False
    watch_lag_s: float = 0.0
    watch_lag_of: str = ""  # one kind's watches only
    expire: bool = False  # the next piece of each watch is a 410
    spare_lists: bool = False  # but not of one that begins with a list
    lists_behind_s: float = 0.0  # lists are as old as they may be, and stay behind for so long
    expire_pages: bool = False  # every page but the first of a list is a 410

    def calm(self) -> None:
        self.__init__()  # type: ignore[misc]


@dataclass
class Network:
    """Connects machines with the API server."""

    world: World
    rng: random.Random
    streams_lists: bool = True  # as servers do since Kubernetes 1.32
    troubles: dict[str, Trouble] = field(default_factory=dict)
    server: Server | None = None  # None: the connection is refused
    wires: dict[Wire, None] = field(default_factory=dict)
    bodies: dict[Body, None] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)

    def trouble(self, machine: Machine) -> Trouble:
        trouble = self.troubles.get(machine.name)
        if trouble is None:
            trouble = self.troubles[machine.name] = Trouble()
        return trouble

    def note(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1

    def latency(self) -> float:
        return self.rng.uniform(*LATENCY_S)

    def happens(self, chance: float) -> bool:
        return chance > 0 and self.rng.random() < chance

    def late_s(self, trouble: Trouble, data: bytes) -> float:
        if trouble.late_of:
            return MAX_LATE_S if trouble.late_of.encode() in data else self.latency()
        if not self.happens(trouble.late):
            return self.latency()
        self.note("late requests")
        return self.rng.uniform(0.0, MAX_LATE_S)

    def loses_answer(self, trouble: Trouble, target: str) -> bool:
        return trouble.lose_answer_of in target and self.happens(trouble.lose_answer)

    def late_answer_s(self, trouble: Trouble) -> float:
        if not trouble.late_answer_s or not self.happens(trouble.late):
            return self.latency()
        self.note("late answers")
        return self.rng.uniform(0.0, trouble.late_answer_s)

    async def connect(self, loop: VirtualLoop, factory: Callable[[], Any]) -> tuple[Any, Any]:
        """What ``loop.create_connection`` does: a connection for the pool of hot writes."""
        await self._knock(loop.machine)
        wire = Wire(self, loop, factory())
        self.wires[wire] = None
        wire.protocol.connection_made(wire)
        return wire, wire.protocol

    async def _knock(self, machine: Machine) -> None:
        if not machine.is_alive:
            raise ConnectionRefusedError(111, "Connection refused")
        await asyncio.sleep(2 * self.latency())
        trouble = self.trouble(machine)
        if trouble.is_cut_off:
            await asyncio.sleep(SILENCE_S)  # nothing answers; the caller has a limit
        if self.server is None:
            raise ConnectionRefusedError(111, "Connection refused")

    def hang_up(self) -> None:
        """The server is gone: every connection to it breaks."""
        self.server = None
        for wire in tuple(self.wires):
            wire.reset("the server closed the connection")
        for body in tuple(self.bodies):
            body.cut("the server closed the connection")

    def cut_watches(self, machine: Machine | None, *, in_the_middle: bool) -> None:
        for body in tuple(self.bodies):
            if machine is None or body.machine is machine:
                self.note("watches cut")
                body.cut("cut on purpose", half=in_the_middle)


class Server:
    """The side of the API server: its machine, its handlers, and the requests that are being carried out."""

    def __init__(self, machine: Machine, loop: VirtualLoop, handlers: Handlers) -> None:
        self.machine, self.loop, self.handlers = machine, loop, handlers
        self._tasks: dict[asyncio.Task[None], None] = {}

    def spawn(self, work: Any) -> None:
        task = self.loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda task: self._tasks.pop(task, None))

    def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()

    async def carry_out(self, machine: Machine, request: ApiRequest) -> Any:
        WRITER.set(machine.name)
        return await self.handlers.answer(request)


class Wire(asyncio.Transport):
    """The client's end of a connection for writes, and what the server has read of it."""

    def __init__(self, network: Network, loop: VirtualLoop, protocol: Any) -> None:
        super().__init__()
        self.protocol = protocol
        self._network, self._loop = network, loop
        self._server = network.server
        self._reader = MessageReader(reads_answers=False, max_body_bytes=1 << 24)
        self._is_closing = False
        self._is_silent = False  # nothing that is sent arrives any more
        self._has_lost = False  # an answer, so that none comes any more: a connection has no gaps
        self._conflicts: set[tuple[str, bytes]] = set()  # requests that were refused with a 409
        self._to_serve: deque[Message] = deque()
        self._is_serving = False
        self._last_in_s = self._last_out_s = 0.0  # a connection keeps the order of its bytes

    # ---- what the pool calls -----------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        network, machine = self._network, self._loop.machine
        if self._is_closing or self._is_silent or not machine.is_alive:
            return
        trouble = network.trouble(machine)
        if trouble.is_cut_off:
            self._is_silent = True
            return
        data = bytes(data)
        if network.happens(trouble.lose_request):
            if network.happens(trouble.half):
                network.note("half-sent requests")
                self._deliver(data[: network.rng.randrange(len(data))])
                network.world.after(network.latency(), lambda: self.reset("connection reset by peer"))
            else:
                network.note("lost requests")
                self._is_silent = True
            return
        if network.happens(trouble.reset):
            network.note("connections reset")
            self._deliver(data, network.rng.uniform(0.0, MAX_LATE_S))
            network.world.after(network.latency(), lambda: self.reset("connection reset by peer"))
            return
        self._deliver(data)
        if network.happens(trouble.double):
            network.note("doubled requests")
            self._deliver_copy(data)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._network.wires.pop(self, None)
            if not self._loop.is_closed():
                self._loop.call_soon(self.protocol.connection_lost, None)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    # ---- the network -------------------------------------------------------------------------------------------

    def reset(self, why: str) -> None:
        """The connection breaks; both ends notice."""
        if not self._is_closing:
            self._is_closing = True
            self._network.wires.pop(self, None)
            if not self._loop.is_closed():
                self._loop.call_soon(self.protocol.connection_lost, ConnectionResetError(104, why))

    def _deliver(self, data: bytes, late_s: float | None = None) -> None:
        network = self._network
        delay = network.late_s(network.trouble(self._loop.machine), data) if late_s is None else late_s

        def arrive() -> None:
            if network.server is not self._server or self._server is None:
                return
            self._reader.feed(data)
            self._to_serve.extend(self._reader.complete)
            self._reader.complete.clear()
            if self._to_serve and not self._is_serving:
                self._is_serving = True
                self._server.spawn(self._serve_in_order(self._server))

        self._last_in_s = max(self._last_in_s, network.world.now_s + delay)
        network.world.at(self._last_in_s, arrive)

    async def _serve_in_order(self, server: Server) -> None:
        """One request after the other, as HTTP/1.1 wants it: a client may send several before the first answer."""
        while self._to_serve:
            await self._serve(server, self._to_serve.popleft(), is_copy=False)
        self._is_serving = False

    def _deliver_copy(self, data: bytes) -> None:
        """A proxy in between sends the request once more; that answer is not awaited."""
        network = self._network

        def arrive() -> None:
            if network.server is not self._server or self._server is None:
                return
            reader = MessageReader(reads_answers=False, max_body_bytes=1 << 24)
            reader.feed(data)
            while reader.complete:
                self._server.spawn(self._serve(self._server, reader.complete.popleft(), is_copy=True))

        network.world.after(network.rng.uniform(0.0, MAX_LATE_S), arrive)

    async def _serve(self, server: Server, message: Message, *, is_copy: bool) -> None:
        network, machine = self._network, self._loop.machine
        headers = {name.title(): value for name, value in message.headers.items()}
        body = bytes(message.body)
        request = ApiRequest(message.method, message.target.decode(), headers, body)
        if is_copy and (request.target, body) in self._conflicts:
            return  # what is in conflict with something stays so; a server does not carry it out a moment later
        trouble = network.trouble(machine)
        refusal = _refusal(network, trouble, request)
        if refusal is not None and refusal.code == 409:
            self._conflicts.add((request.target, body))
        reply = refusal or await server.carry_out(machine, request)
        assert isinstance(reply, Reply)
        if is_copy or self._is_closing:
            return
        data = _encode(reply)
        if refusal is not None and network.happens(trouble.half_refusal):
            network.note("half-sent refusals")
            self._answer(data[: _cut(network, refusal, data)], then_reset=True)
            return
        if network.loses_answer(trouble, request.target):
            if network.happens(trouble.half):
                network.note("half-sent answers")
                self._answer(data[: network.rng.randrange(len(data))], then_reset=True)
            else:
                network.note("lost answers")
                self._is_silent = self._has_lost = True
            return
        self._answer(data)

    def _answer(self, data: bytes, *, then_reset: bool = False) -> None:
        network, loop = self._network, self._loop
        if self._has_lost:
            return

        def arrive() -> None:
            if self._is_closing or loop.is_closed():
                return
            loop.call_soon(self.protocol.data_received, data)
            if then_reset:
                self.reset("connection reset by peer")

        delay_s = network.late_answer_s(network.trouble(loop.machine))
        self._last_out_s = max(self._last_out_s, network.world.now_s + delay_s)
        network.world.at(self._last_out_s, arrive)


def _cut(network: Network, refusal: Reply, data: bytes) -> int:
    """Where an answer breaks off: its head has come, and some of its body."""
    return len(data) - network.rng.randrange(1, len(refusal.body))


def _refusal(network: Network, trouble: Trouble, request: ApiRequest) -> Reply | None:
    if trouble.expire_pages and "continue=" in request.target:
        network.note("pages expired")
        return Reply(_EXPIRED, 410)
    if not network.streams_lists and "sendInitialEvents" in request.target:
        return Reply(_NO_STREAMS, 422)
    if not network.happens(trouble.refuse):
        return None
    code, reason, wait = _REFUSALS.get(trouble.refuse_with) or network.rng.choice(
        [_REFUSALS[code] for code in (500, 503, 429)]
    )
    network.note("refused requests")
    body = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"%s","code":%d}' % (reason.encode(), code)
    reply = Reply(body, code)
    if wait:
        reply.headers.append(("Retry-After", wait))
    return reply


def _encode(reply: Reply) -> bytes:
    lines = [f"HTTP/1.1 {reply.code} X", f"Content-Type: {reply.content_type}", f"Content-Length: {len(reply.body)}"]
    lines += [f"{name}: {value}" for name, value in reply.headers]
    return "\r\n".join([*lines, "", ""]).encode() + reply.body


class Body:
    """What comes of an answer, piece by piece."""

    def __init__(self, network: Network, loop: VirtualLoop) -> None:
        self.machine = loop.machine
        self._network, self._loop = network, loop
        self._pieces: deque[bytes] = deque()
        self._is_over = False
        self._broken: str | None = None
        self._reader: asyncio.Future[None] | None = None  # waits for the next piece
        self._last_at_s = 0.0
        network.bodies[self] = None

    async def readany(self) -> bytes:
        while not self._pieces:
            if self._broken is not None:
                raise ConnectionFailed(f"GET: the connection broke: {self._broken}", was_sent=True)
            if self._is_over:
                return b""
            self._reader = self._loop.create_future()
            await self._reader
        come = b"".join(self._pieces)
        self._pieces.clear()
        return come

    def send(self, piece: bytes, delay_s: float) -> None:
        """Have a piece arrive, in order; nothing is the end."""
        world = self._network.world
        self._last_at_s = max(self._last_at_s, world.now_s + delay_s)
        world.at(self._last_at_s, lambda: self._arrive(piece))

    def send_again(self, piece: bytes, delay_s: float) -> None:
        """Have the piece that was sent last arrive once more, so much later, whatever has come by then."""
        self._network.world.at(self._last_at_s + delay_s, lambda: self._arrive(piece))

    def arrive_whole(self, head: asyncio.Future[Any], reply: Reply) -> None:
        """An answer comes with all of its body."""
        if self._broken is None:
            if reply.body:
                self._pieces.append(reply.body)
            self._is_over = True
        if not self._loop.is_closed() and not head.done():
            head.set_result((reply.code, dict(reply.headers)))

    def arrive_by_half(self, head: asyncio.Future[Any], reply: Reply) -> None:
        """The head of an answer comes, and half of its body; then the connection breaks."""
        self.arrive_whole(head, Reply(reply.body[: len(reply.body) // 2], reply.code))
        self._broken = "connection reset by peer"

    def _arrive(self, piece: bytes) -> None:
        if self._broken is not None or self._loop.is_closed():
            return
        if piece:
            self._pieces.append(piece)
        else:
            self._is_over = True
        self._wake()

    def cut(self, why: str, *, half: bool = False) -> None:
        if half and self._pieces:
            self._pieces[-1] = self._pieces[-1][: len(self._pieces[-1]) // 2]
        self._broken = why
        self.close()
        if not self._loop.is_closed():
            self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def close(self) -> None:
        self._network.bodies.pop(self, None)


class Got:
    """An answer whose body is still coming."""

    def __init__(self, status: int, headers: dict[str, str], content: Body) -> None:
        self.status, self.headers, self.readany = status, headers, content.readany


class VirtualTransport(Transport):
    """A client's connections through a virtual network."""

    def __init__(self, config: ClientConfig, network: Network, machine: Machine) -> None:
        super().__init__(config)
        self._network, self._machine = network, machine

    @contextlib.asynccontextmanager
    async def open(self, target: str, headers: list[tuple[str, str]]) -> AsyncIterator[Got]:
        network, machine = self._network, self._machine
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        try:
            await network._knock(machine)
        except ConnectionRefusedError:
            raise Unreachable("cannot connect to http://virtual: Connection refused") from None
        content = Body(network, loop)
        head: asyncio.Future[tuple[int, dict[str, str]]] = loop.create_future()
        request = ApiRequest("GET", target, dict(headers))
        self._send(request, content, head)
        try:
            status, answered = await head
            yield Got(status, answered, content)
        finally:
            content.close()

    def _send(self, request: ApiRequest, content: Body, head: asyncio.Future[Any]) -> None:
        network, machine, server = self._network, self._machine, self._network.server
        trouble = network.trouble(machine)
        loop = head.get_loop()

        def fail(why: str) -> None:
            content._broken = why
            if not loop.is_closed():
                loop.call_soon(lambda: None if head.done() else head.set_exception(_broken(why)))

        if network.happens(trouble.lose_request) or server is None:
            network.note("lost requests")
            network.world.after(SILENCE_S, lambda: fail("no answer"))
            return

        def arrive() -> None:
            if network.server is not server or server is None:
                fail("the server closed the connection")
                return
            server.spawn(self._serve(server, request, content, head, fail))

        network.world.after(network.late_s(trouble, request.target.encode()), arrive)

    def _let_lists_be_behind(self, trouble: Trouble, request: ApiRequest) -> None:
        version = _version_asked_for(request.target) if trouble.lists_behind_s else None
        if version is not None:
            self._network.note("lists from the past")
            BEHIND.set((version, trouble.lists_behind_s))

    async def _serve(
        self, server: Server, request: ApiRequest, content: Body, head: asyncio.Future[Any], fail: Callable[[str], None]
    ) -> None:
        network, machine = self._network, self._machine
        trouble = network.trouble(machine)
        self._let_lists_be_behind(trouble, request)
        answer: Any = _refusal(network, trouble, request) or await server.carry_out(machine, request)
        loop = head.get_loop()
        if isinstance(answer, Reply):
            delay = network.late_answer_s(trouble)
            if network.loses_answer(trouble, request.target):
                network.note("lost answers")
                network.world.after(delay, lambda: fail("connection reset by peer"))
                return
            if answer.code >= 400 and network.happens(trouble.half_refusal):
                network.note("half-sent refusals")
                network.world.after(delay, lambda: content.arrive_by_half(head, answer))
                return
            network.world.after(delay, lambda: content.arrive_whole(head, answer))
            return
        try:
            network.world.after(
                network.latency(), lambda: None if loop.is_closed() or head.done() else head.set_result((200, {}))
            )
            while content in network.bodies:
                piece = await answer.read()
                if trouble.is_cut_off or not machine.is_alive:
                    network.world.after(SILENCE_S, lambda: content.cut("no answer"))
                    return
                if trouble.expire and not (trouble.spare_lists and "sendInitialEvents" in request.target):
                    network.note("watches expired")
                    piece, is_over = GONE, True
                else:
                    is_over = not piece
                lag_s = trouble.watch_lag_s if f"/{trouble.watch_lag_of}" in request.target else 0.0
                if lag_s:
                    network.note("stale watch events")
                content.send(piece, lag_s + network.latency())
                if network.happens(trouble.double_events):
                    network.note("doubled watch events")
                    content.send_again(piece, network.rng.uniform(0.0, MAX_LATE_S))
                if is_over:
                    content.send(b"", 0.0)
                    return
        finally:
            answer.close()


def _version_asked_for(target: str) -> int | None:
    """The version that a list with its initial events must not be older than; None if it must be the newest."""
    asked = urllib.parse.parse_qs(urllib.parse.urlsplit(target).query)
    version = asked.get("resourceVersion", [""])[0]
    return int(version) if version.isdigit() and asked.get("sendInitialEvents") == ["true"] else None


def _broken(why: str) -> ConnectionFailed:
    return ConnectionFailed(f"GET: the connection broke: {why}", was_sent=True)
