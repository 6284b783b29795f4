"""Blocking HTTP/1.1 with kept connections: a scheduling cycle waits for its extenders.

One deadline holds for a whole call, whatever it is spent on. Errors have the
texts of Go's client, because they end up in pods' events and people search for
them. A thread may use a transport while another one does.
"""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import select
import socket
import ssl
import struct
import threading
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import httptools

from mooring import __version__
from mooring.framework.extender import ExtenderError
from mooring.urls import without_password

MAX_IDLE = 8
IDLE_S = 60.0
MAX_ANSWER_BYTES = 256 << 20
MAX_REDIRECTS = 10
COMPRESS_FROM = 16 << 10
CHUNK = 256 << 10


class NoAnswer(ExtenderError):
    """Nothing came back, or not in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes


class Body:
    """A request body in pieces, some of which may be kept compressed from earlier calls."""

    __slots__ = ("_deflated", "pieces")

    def __init__(self, pieces: Sequence[bytes], deflated: dict[bytes, bytes] | None = None) -> None:
        self.pieces = pieces
        self._deflated = {} if deflated is None else deflated

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)

    def gzipped(self) -> bytes:
        """One gzip member. Each piece is a run of blocks of its own, so that those of unchanged nodes are reused."""
        parts = [b"\x1f\x8b\x08\0\0\0\0\0\0\xff"]
        crc = size = 0
        for piece in self.pieces:
            crc = zlib.crc32(piece, crc)
            size += len(piece)
            deflated = self._deflated.get(piece)
            parts.append(deflate(piece) if deflated is None else deflated)
        parts.append(b"\x03\x00")  # an empty last block
        parts.append(struct.pack("<II", crc, size & 0xFFFFFFFF))
        return b"".join(parts)


def deflate(piece: bytes) -> bytes:
    """Blocks that can stand anywhere in a stream."""
    compressor = zlib.compressobj(1, zlib.DEFLATED, -15)
    return compressor.compress(piece) + compressor.flush(zlib.Z_FULL_FLUSH)


class Transport:
    """Connections to one extender."""

    def __init__(self, timeout_s: float, tls: ssl.SSLContext | None = None, server_name: str = "") -> None:
        self._timeout_s = timeout_s
        self._tls = tls
        self._server_name = server_name
        self._idle: dict[tuple[str, str, int], list[_Connection]] = {}
        self._lock = threading.Lock()
        self._accepts_gzip: set[str] = set()  # hosts, other than this machine, that said so

    @property
    def compresses(self) -> bool:
        """Whether the other side has said that it reads compressed bodies."""
        return bool(self._accepts_gzip)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()

    def post(self, url: str, body: Body | bytes, *, may_repeat: bool = True) -> Answer:
        """Send a request and return the answer, whatever its status; following redirects as Go does."""
        deadline = time.monotonic() + self._timeout_s
        method, payload = "POST", body if isinstance(body, Body) else Body((body,))
        target = url
        for _ in range(MAX_REDIRECTS):
            try:
                answer, location = self._once(method, target, payload, deadline, may_repeat=may_repeat)
            except NoAnswer as error:
                if isinstance(error, _InBody):
                    raise
                raise NoAnswer(f'{method.title()} "{without_password(target)}": {error}') from None
            if answer.status not in (301, 302, 303, 307, 308) or not location:
                return answer
            target = urljoin(target, location)
            if answer.status < 307:
                method, payload = "GET", Body(())
        raise NoAnswer(f'{method.title()} "{without_password(target)}": stopped after {MAX_REDIRECTS} redirects')

    def _once(
        self, method: str, url: str, body: Body, deadline: float, *, may_repeat: bool
    ) -> tuple[Answer, str | None]:
        parts = urlsplit(url)
        try:
            parts.port  # noqa: B018 - it is read here to see whether it can be
        except ValueError:
            raise NoAnswer(f'invalid port ":{parts.netloc.rpartition(":")[2]}" after host') from None
        if parts.scheme not in ("http", "https"):
            raise NoAnswer(f'unsupported protocol scheme "{parts.scheme}"')
        if not parts.hostname:
            raise NoAnswer("http: no Host in request URL")
        for attempt in (1, 2):
            connection = self._connection(parts, deadline, fresh=attempt == 2)
            try:
                exchange = connection.exchange(self._request(method, parts, body), deadline)
            except _Stale:
                connection.close()
                if connection.uses > 1 and may_repeat and attempt == 1:
                    continue  # it had gone to sleep; a new one will tell
                raise NoAnswer("EOF") from None
            except BaseException:
                connection.close()
                raise
            self._give_back(connection, exchange.can_be_kept)
            if "gzip" in exchange.header(b"accept-encoding").lower() and not is_loopback(parts.hostname):
                self._accepts_gzip.add(parts.netloc)
            found = exchange.answer(), exchange.header(b"location") or None
            exchange.close()
            return found
        raise AssertionError("unreachable")

    def _request(self, method: str, parts: SplitResult, body: Body) -> bytes:
        path = parts.path or "/"
        if parts.query:
            path += "?" + parts.query
        headers = [
            f"{method} {path} HTTP/1.1",
            f"Host: {parts.netloc.rpartition('@')[2]}",
            f"User-Agent: mooring/{__version__}",
            "Accept-Encoding: gzip",
        ]
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers.append(f"Authorization: Basic {base64.b64encode(user.encode()).decode()}")
        if method == "GET":
            return ("\r\n".join(headers) + "\r\n\r\n").encode("latin-1", "replace")
        headers.append("Content-Type: application/json")
        if parts.netloc in self._accepts_gzip and sum(map(len, body.pieces)) >= COMPRESS_FROM:
            data = body.gzipped()
            headers.append("Content-Encoding: gzip")
        else:
            data = bytes(body)
        headers.append(f"Content-Length: {len(data)}")
        return ("\r\n".join(headers) + "\r\n\r\n").encode("latin-1", "replace") + data

    # ---- connections -------------------------------------------------------------------------------------------

    def _connection(self, parts: SplitResult, deadline: float, *, fresh: bool) -> _Connection:
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        key = (parts.scheme, host, port)
        while not fresh:
            with self._lock:
                idle = self._idle.get(key)
                connection = idle.pop() if idle else None
            if connection is None:
                break
            if connection.is_usable():
                return connection
            connection.close()
        sock = _connect(host, port, deadline)
        if parts.scheme == "https":
            sock = self._secure(sock, host, deadline)
        return _Connection(key, sock)

    def _give_back(self, connection: _Connection, can_be_kept: bool) -> None:
        with self._lock:
            idle = self._idle.setdefault(connection.key, [])
            if can_be_kept and len(idle) < MAX_IDLE:
                connection.idle_since = time.monotonic()
                idle.append(connection)
                return
        connection.close()

    def _secure(self, sock: socket.socket, host: str, deadline: float) -> socket.socket:
        context = self._tls or ssl.create_default_context()
        try:
            sock.settimeout(_left(deadline))
            return context.wrap_socket(sock, server_hostname=self._server_name or host)
        except TimeoutError:
            sock.close()
            raise NoAnswer(_NO_HEADERS) from None
        except (OSError, ValueError) as error:
            sock.close()
            raise NoAnswer(_tls_problem(error, self._server_name or host)) from None


_NO_HEADERS = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
_NO_BODY = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"


class _Stale(Exception):
    """The other side closed the connection before it said anything."""


class _InBody(NoAnswer):
    """It began to answer and did not finish."""


class _Connection:
    def __init__(self, key: tuple[str, str, int], sock: socket.socket) -> None:
        self.key = key
        self.uses = 0
        self.idle_since = 0.0
        self._sock = sock

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.close()

    def is_usable(self) -> bool:
        """Report whether an idle connection is still open and quiet."""
        if time.monotonic() - self.idle_since > IDLE_S or self._sock.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return not poll.poll(0)

    def exchange(self, request: bytes, deadline: float) -> _Exchange:
        self.uses += 1
        exchange = _Exchange()
        try:
            self._sock.settimeout(_left(deadline))
            self._sock.sendall(request)
        except TimeoutError:
            raise NoAnswer(_NO_HEADERS) from None
        except (BrokenPipeError, ConnectionResetError):
            pass  # the answer may be there nevertheless: too large a body, for example
        except OSError as error:
            raise NoAnswer(f"write tcp: {_errno_text(error)}") from None
        while not exchange.is_complete:
            try:
                self._sock.settimeout(_left(deadline))
                data = self._sock.recv(CHUNK)
            except TimeoutError:
                raise _InBody(_NO_BODY) if exchange.has_headers else NoAnswer(_NO_HEADERS) from None
            except ConnectionResetError as error:
                if not exchange.has_begun:
                    if self.uses > 1:
                        raise _Stale from None
                    raise NoAnswer(f"read tcp: read: {_errno_text(error)}") from None
                raise _InBody("unexpected EOF") from None
            except OSError as error:
                raise NoAnswer(_tls_problem(error, self.key[1])) from None
            if not data:
                if not exchange.has_begun:
                    raise _Stale
                exchange.ended()
                break
            exchange.feed(data)
        return exchange


class _Exchange:
    """One answer as it arrives."""

    def __init__(self) -> None:
        self.has_begun = False
        self.has_headers = False
        self.is_complete = False
        self._headers: dict[bytes, bytes] = {}
        self._body = bytearray()  # grows with what arrives; no header reserves anything
        self._keeps_alive = False
        self._left: int | None = None  # bytes that go past the parser; None: all go through it
        self._first = b""
        self._parser: Any = httptools.HttpResponseParser(self)

    # httptools calls these

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() >= 200:  # not 100 Continue
            self.has_headers = True
        self._keeps_alive = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        if len(self._body) + len(body) > MAX_ANSWER_BYTES:
            raise _InBody(f"the answer is larger than {MAX_ANSWER_BYTES >> 20} MiB")
        self._body += body

    def on_message_complete(self) -> None:
        if self.has_headers:
            self.is_complete = True
        else:
            self._headers.clear()

    def feed(self, data: bytes) -> None:
        self.has_begun = True
        if self._left is not None:
            self._body += data[: self._left]
            self._keeps_alive = self._keeps_alive and len(data) <= self._left
            self._left -= len(data)
            self.is_complete = self._left <= 0
            return
        if not self.has_headers and len(self._first) < 32:
            self._first += data[:32]
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ if isinstance(error.__context__, ExtenderError) else NoAnswer(str(error)) from None
        except httptools.HttpParserError:
            if self.is_complete:
                self._keeps_alive = False  # something came after the answer
                return
            first = self._first.split(b"\r\n")[0].decode("latin-1")
            raise NoAnswer(
                f'net/http: HTTP/1.x transport connection broken: malformed HTTP response "{first}"'
            ) from None
        if self.has_headers and not self.is_complete:
            self._pass_by_parser()

    def _pass_by_parser(self) -> None:
        """From here on a body of known length needs no parser."""
        length = self._headers.get(b"content-length", b"")
        if not length.isdigit() or b"transfer-encoding" in self._headers:
            return
        if int(length) > MAX_ANSWER_BYTES:
            raise _InBody(f"the answer is larger than {MAX_ANSWER_BYTES >> 20} MiB")
        self._left = int(length) - len(self._body)

    def ended(self) -> None:
        """The connection was closed: the end of an answer of unknown length, or a cut."""
        is_open_ended = b"content-length" not in self._headers and b"transfer-encoding" not in self._headers
        if not self.has_headers:
            raise NoAnswer("unexpected EOF")
        if not is_open_ended and self._parser.get_status_code() == 200:
            raise _InBody("unexpected EOF")
        self._keeps_alive = False

    def close(self) -> None:
        """Let go of the parser, which holds on to the exchange: an answer may have megabytes."""
        self._parser = None

    def header(self, name: bytes) -> str:
        return self._headers.get(name, b"").decode("latin-1")

    @property
    def can_be_kept(self) -> bool:
        return self.is_complete and self._keeps_alive

    def answer(self) -> Answer:
        body = bytes(self._body)
        status = int(self._parser.get_status_code())
        if status == 200 and self.header(b"content-encoding").lower() == "gzip":
            body = gunzip(body, MAX_ANSWER_BYTES)
        return Answer(status, body)


def gunzip(data: bytes, limit: int) -> bytes:
    """Decompress, one member or several, but not without end."""
    parts: list[bytes] = []
    left = limit
    while data:
        inflater = zlib.decompressobj(31)
        try:
            part = inflater.decompress(data, left + 1)
        except zlib.error:
            raise _InBody("gzip: invalid header" if not parts else "gzip: invalid checksum") from None
        left -= len(part)
        if left < 0:
            raise _InBody(f"the answer is larger than {limit >> 20} MiB")
        if not inflater.eof:
            raise _InBody("unexpected EOF")
        parts.append(part)
        data = inflater.unused_data
    return b"".join(parts)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _connect(host: str, port: int, deadline: float) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        raise NoAnswer(f"dial tcp: lookup {host}: no such host") from None
    problem = ""
    for family, kind, protocol, _, address in addresses:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_left(deadline))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except TimeoutError:
            sock.close()
            raise NoAnswer(_NO_HEADERS) from None
        except OSError as error:
            sock.close()
            shown = f"[{address[0]}]" if family == socket.AF_INET6 else address[0]
            problem = problem or f"dial tcp {shown}:{port}: connect: {_errno_text(error)}"
    raise NoAnswer(problem)


def _errno_text(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


_UNKNOWN_AUTHORITY = {2, 18, 19, 20, 21}  # OpenSSL's codes: issuer not found, self-signed, and their kin
_VALIDITY = {9, 10}
_NAMES = {62, 63, 64}


def _tls_problem(error: Exception, host: str) -> str:
    """Go's words for what OpenSSL found."""
    if isinstance(error, ssl.SSLCertVerificationError):
        prefix = "tls: failed to verify certificate: x509: "
        if error.verify_code in _UNKNOWN_AUTHORITY:
            return prefix + "certificate signed by unknown authority"
        if error.verify_code in _VALIDITY:
            return prefix + "certificate has expired or is not yet valid"
        if error.verify_code in _NAMES:
            return prefix + f"certificate is not valid for {host}"
        return prefix + error.verify_message
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
            return "http: server gave HTTP response to HTTPS client"
        if reason.startswith(("TLSV1_ALERT_", "TLSV13_ALERT_", "SSLV3_ALERT_")):
            text = reason.split("ALERT_", 1)[1].replace("_", " ").lower()
            return f"remote error: tls: {text}"
        return f"tls: {reason.replace('_', ' ').lower() or error}"
    if isinstance(error, ConnectionResetError):
        return "read tcp: read: connection reset by peer"
    return "EOF" if isinstance(error, ssl.SSLEOFError) else str(error)
