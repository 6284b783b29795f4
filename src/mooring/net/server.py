"""A server with one thread per connection, which reads a request, carries it out and writes the response.

A scheduler keeps one or two connections and waits for each response. Handing a request from an event loop to a worker
and back would be most of what a small request costs, so the thread that receives a request also answers it. A blocking
handler blocks its own connection only: a watchdog answers in its place and closes the connection. The number of
connections is bounded. When there are too many, the one that has been idle longest is closed.

It also serves the scheduler's own endpoints, which get few requests. ``async_server`` is for handlers that wait in an
event loop.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable

from mooring.net.http1 import Message
from mooring.net.http_io import Bounds, Refused, RequestReader, Response, send

# --------------------------------------------------------------------------------------------------------------------
# A limit on the memory of request bodies, counted over all connections.
#
# Bytes count when they have arrived, never when a header announces them. At the limit the request that has been
# arriving longest is dropped, so slow clients cannot keep others out.

ROOM_TIMEOUT_S = 5.0  # for a connection that was cut to release its bytes


class BodyMemory:
    """Counts the bytes of all bodies; each connection has a share."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._shares: set[Share] = set()
        self._changed = threading.Condition()

    def share(self, cut: Callable[[], None] = lambda: None) -> Share:
        """Return a share for a connection; ``cut`` ends that connection."""
        share = Share(self, cut)
        with self._changed:
            self._shares.add(share)
        return share

    def take(self, share: Share, count: int) -> None:
        with self._changed:
            while self.held_bytes + count > self.limit_bytes:
                if share.is_cut:
                    raise ConnectionAbortedError("cut to make room for another request")
                if not self._cut_oldest(share, count) or not self._changed.wait(ROOM_TIMEOUT_S):
                    raise Refused(503, f"requests that are being answered hold {self.held_bytes:,} bytes; try again")
            self.held_bytes += count
            share.held_bytes += count

    def give_back(self, share: Share, count: int) -> None:
        with self._changed:
            self.held_bytes -= count
            share.held_bytes -= count
            self._changed.notify_all()

    def forget(self, share: Share) -> None:
        self.give_back(share, share.held_bytes)
        with self._changed:
            self._shares.discard(share)

    def _cut_oldest(self, asking: Share, count: int) -> bool:
        """Cut connections until their bytes make enough room; report whether there will be enough."""
        leaving = sum(share.held_bytes for share in self._shares if share.is_cut)
        while self.held_bytes - leaving + count > self.limit_bytes:
            arriving = [
                (share.arriving_since, share)
                for share in self._shares
                if share.arriving_since is not None and share.held_bytes and not share.is_cut
            ]
            _, oldest = min(arriving, key=lambda pair: pair[0], default=(0.0, asking))
            if oldest is asking:
                return False
            oldest.is_cut = True
            leaving += oldest.held_bytes
            oldest.cut()
        self._changed.notify_all()  # a cut connection may be waiting for room itself
        return True


class Share:
    """The bytes that one connection holds."""

    def __init__(self, memory: BodyMemory, cut: Callable[[], None]) -> None:
        self.held_bytes = 0
        self.arriving_since: float | None = None  # when its unfinished request began; None: there is none
        self.is_cut = False
        self.cut = cut
        self._memory = memory

    def take(self, count: int) -> None:
        """Count arrived bytes. Raise Refused when there is no room for them."""
        self._memory.take(self, count)

    def keep(self, count: int) -> None:
        """Release all bytes but these."""
        if self.held_bytes > count:
            self._memory.give_back(self, self.held_bytes - count)

    def close(self) -> None:
        self._memory.forget(self)


log = logging.getLogger("mooring.net")

BACKLOG = 512
SEND_TIMEOUT_S = 30.0
HANDSHAKE_S = 30.0
LINGER_S = 10.0
SPARE = 64  # connections beyond the limit that still get a response saying so
LATE_S = 0.5  # to write a late response: it is short, and the watchdog serves all connections

Handle = Callable[[Message, "Connection"], Response | None]
"""Carries out a request. None: the watchdog sends the response, and the connection ends."""


class Connection:
    """A client connection. Its thread and the watchdog may both answer, so a lock guards sending and closing."""

    def __init__(self, sock: socket.socket, memory: BodyMemory) -> None:
        self.sock = sock
        self.share = memory.share(self.cut)
        self.waits_since: float | None = time.monotonic()  # waits for its client since; None: a request is carried out
        self._lock = threading.Lock()
        self._is_open = True
        self._is_answered_late = threading.Event()

    def send(
        self, response: Response, request: Message | None, *, closes: bool, timeout_s: float = SEND_TIMEOUT_S
    ) -> None:
        with self._lock:
            if self._is_open:
                self.sock.settimeout(timeout_s)
                send(self.sock, response, request, closes=closes)

    def answer_late(self, response: Response, request: Message) -> None:
        """Answer in place of a handler that has not returned, and end the connection."""
        try:
            with contextlib.suppress(OSError, ValueError):
                self.send(response, request, closes=True, timeout_s=LATE_S)
            self.cut()
        finally:
            self._is_answered_late.set()

    def wait_for_late_answer(self) -> None:
        """Wait until the watchdog has answered; closing earlier would leave the client without a response."""
        self._is_answered_late.wait(SEND_TIMEOUT_S)

    def secure(self, tls: ssl.SSLContext) -> ssl.SSLSocket:
        """Start TLS with the handshake."""
        with self._lock:
            self.sock = sock = tls.wrap_socket(self.sock, server_side=True, do_handshake_on_connect=False)
        return sock

    def cut(self) -> None:
        """Shut the connection down. A thread that reads from it sees its end."""
        with self._lock, contextlib.suppress(OSError):
            if self._is_open:
                # Not the SSL socket's own method, which would pull its state away under a thread that reads.
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)

    def close(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._is_open = False
            self.sock.close()
        self.share.close()

    def linger(self) -> None:
        """Keep reading for a while: closing while the client sends would make its kernel drop the response."""
        deadline = time.monotonic() + LINGER_S
        with contextlib.suppress(OSError, ValueError):
            if isinstance(self.sock, ssl.SSLSocket):
                self.sock.settimeout(LINGER_S)
                with contextlib.suppress(ssl.SSLError):  # the client is still sending
                    self.sock.unwrap()  # announces the end, and waits for the client's
            else:
                self.sock.shutdown(socket.SHUT_WR)
            buffer = bytearray(64 << 10)
            while (left_s := deadline - time.monotonic()) > 0:
                self.sock.settimeout(left_s)
                if not socket.socket.recv_into(self.sock, buffer):  # below TLS, without decoding
                    break


class Connections:
    """Accepts clients and serves each in its own thread."""

    def __init__(
        self,
        handle: Handle,
        say_refused: Callable[[Refused], Response],
        bounds: Bounds,
        memory: BodyMemory,
        *,
        most: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._handle = handle
        self._say_refused = say_refused
        self._bounds = bounds
        self._memory = memory
        self._most = most
        self.tls = tls  # for new connections: another certificate is another context
        self._listeners: list[socket.socket] = []
        self._open: set[Connection] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def listen(self, host: str, port: int) -> int:
        """Listen on every address of the host; return the port."""
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found):
            try:
                listener = socket.create_server((address, port), family=family, backlog=BACKLOG)
            except OSError:
                self.close()
                raise
            port = port or int(listener.getsockname()[1])
            self._listeners.append(listener)
        for listener in self._listeners:
            threading.Thread(target=self._accept, args=(listener,), name="connections-accept", daemon=True).start()
        return port

    def close(self, drain_s: float = 0.0) -> None:
        """Accept no more connections; requests in flight may finish within ``drain_s``."""
        self._is_closed = True
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread
            listener.close()
        deadline = time.monotonic() + drain_s
        while busy := self._cut_those_who_wait():
            if time.monotonic() >= deadline:
                break
            time.sleep(0.02)
        for connection in busy:
            connection.cut()

    def _cut_those_who_wait(self) -> list[Connection]:
        with self._lock:
            left = list(self._open)
        for connection in left:
            if connection.waits_since is not None:
                connection.cut()
        return [connection for connection in left if connection.waits_since is None]

    def _accept(self, listener: socket.socket) -> None:
        while not self._is_closed:
            try:
                sock, _ = listener.accept()
            except OSError as error:
                if self._is_closed:
                    return
                log.warning("cannot accept a connection: %s", error.strerror or error)
                time.sleep(0.1)  # probably out of file descriptors; others will be closed
                continue
            connection = Connection(sock, self._memory)
            self._make_room()
            with self._lock:
                self._open.add(connection)
                is_hopeless = self._is_closed or len(self._open) > self._most + SPARE
            if is_hopeless:
                self._forget(connection)
                continue
            try:
                threading.Thread(target=self._serve, args=(connection,), name="connections", daemon=True).start()
            except RuntimeError as error:
                log.warning("cannot serve a connection: %s", error)
                self._forget(connection)

    def _make_room(self) -> None:
        with self._lock:
            if len(self._open) < self._most:
                return
            waiting = [
                (since, connection) for connection in self._open if (since := connection.waits_since) is not None
            ]
            if not waiting:
                return
            _, oldest = min(waiting, key=lambda pair: pair[0])
            self._open.discard(oldest)
        oldest.cut()

    def _forget(self, connection: Connection) -> None:
        with self._lock:
            self._open.discard(connection)
        connection.close()

    def _serve(self, connection: Connection) -> None:
        try:
            if len(self._open) > self._most:
                self._refuse(connection, Refused(503, f"{self._most} connections are in use, which is the limit"))
                return
            self._converse(connection)
        except (OSError, ValueError):
            pass  # the client disconnected, or does not use TLS
        except Exception:
            log.exception("a connection failed")
        finally:
            self._forget(connection)

    def _converse(self, connection: Connection) -> None:
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = self.tls
        if tls is not None and not self._shake_hands(connection, tls):
            return
        reader = RequestReader(connection.sock, self._bounds, connection.share)
        try:
            while (request := reader.next()) is not None:
                connection.waits_since = None
                response = self._handle(request, connection)
                if response is None:
                    connection.wait_for_late_answer()
                    return
                is_last = self._is_closed or not request.keeps_alive
                connection.send(response, request, closes=is_last)
                if response.afterwards is not None:
                    response.afterwards()
                if is_last:
                    return
                connection.waits_since = time.monotonic()
        except Refused as refused:
            self._refuse(connection, refused)
        finally:
            reader.close()

    def _shake_hands(self, connection: Connection, tls: ssl.SSLContext) -> bool:
        connection.sock.settimeout(HANDSHAKE_S)
        sock = connection.secure(tls)
        try:
            sock.do_handshake()
        except ssl.SSLError as error:
            why = (error.reason or str(error)).replace("_", " ").lower()
            log.warning("a TLS handshake failed", extra={"values": {"err": why}})
            return False
        return True

    def _refuse(self, connection: Connection, refused: Refused) -> None:
        connection.waits_since = None
        connection.share.keep(0)
        connection.send(self._say_refused(refused), None, closes=True)
        connection.waits_since = time.monotonic()  # from here on it may be closed for others
        connection.linger()
