"""Connections to a server: how they are opened, with TLS and through a proxy, and what they exchange.

Every failure to connect is reported in one line that names the server.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import struct
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar, cast
from urllib.parse import unquote, urlsplit

import msgspec

from mooring.api.errors import InputError
from mooring.net import http2
from mooring.net.errors import ConnectionFailed, RequestTimeout, Unreachable, why_not

# What the pool and its connections exchange: a request, its fields as bytes, its response, or the reason for none.

MAX_ANSWER_BYTES = 64 << 20


class HttpAnswer(NamedTuple):
    """An HTTP response: header names are in lower case. Those of a success may be left out."""

    status: int
    headers: dict[str, str]
    body: bytes


class Broken(Exception):
    """The connection broke; ``written`` says whether the server may have seen the request.

    ``took_others`` means that the server has accepted its maximum of requests on the connection, without this one: the
    next connection is worth trying.
    """

    def __init__(self, why: str, *, written: bool, took_others: bool = False) -> None:
        super().__init__(why)
        self.written = written
        self.took_others = took_others


class HeaderFields:
    """Header fields that requests have in common, encoded once for each protocol."""

    __slots__ = ("http1", "http2")

    def __init__(self, host: str, fields: Iterable[tuple[str, str]]) -> None:
        fields = list(fields)
        lines = [f"{name}: {value}" for name, value in (("Host", host), *fields)]
        self.http1 = ("\r\n".join(lines) + "\r\n").encode()
        self.http2 = b"".join(
            http2.encode_field(name.lower(), value) for name, value in ((":authority", host), *fields)
        )


class HttpRequest(msgspec.Struct, eq=False):
    """A request with its deadline, the future of its response, and its state on an HTTP/2 connection.

    The pool makes it and awaits ``answer``. At any time one place holds the request: the pool's queue, or the table of
    its connection. That place has to settle the future: a request that leaves it must be answered or failed by then. As
    a safeguard the pool's alarm fails it at its deadline: the pool knows all requests with a waiting caller. ``fail``
    does nothing to a future that is done, because the caller may have been cancelled or the alarm may have come first.
    """

    method: str
    target: bytes
    fields: HeaderFields
    body: bytes
    deadline: float
    is_fenced: Callable[[], bool]
    answer: asyncio.Future[HttpAnswer]
    is_sent: bool = False  # whether it was given to a connection
    on_reused: bool = False  # whether its connection had carried others before
    mark: int = 0  # how often its connection had received data when it was sent
    unsent: bytes | memoryview = b""  # the rest that the server has no room for yet
    window: int = 0  # how much of the rest the server accepts now
    status: int = 0  # of the response, known once its headers have arrived
    block: bytes = b""  # encoded headers of the response
    got: bytes | bytearray = b""

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


# --------------------------------------------------------------------------------------------------------------------
# Proxies. A proxy forwards bytes after CONNECT, and TLS begins behind it.

MAX_HEAD_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy. With ``is_tls`` the connection to it uses TLS, and the tunnel is TLS within TLS."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)
    is_tls: bool = False

    @classmethod
    def of_url(cls, url: str) -> Proxy:
        """Parse an ``http://`` or ``https://`` URL."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError("only http:// and https:// proxies can be used")
        user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        authorization = "" if user == ":" else f"Basic {b64encode(user.encode()).decode()}"
        is_tls = parts.scheme == "https"
        return cls(parts.hostname, parts.port or (443 if is_tls else 80), authorization, is_tls)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def request(self, host: str, port: int) -> bytes:
        """Return the CONNECT request for a tunnel to a server."""
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if self.authorization:
            lines.append(f"Proxy-Authorization: {self.authorization}")
        return "\r\n".join([*lines, "", ""]).encode()


def proxy_from_environment(url: str, environ: Mapping[str, str]) -> str | None:
    """Find the proxy for ``url`` by HTTP_PROXY, HTTPS_PROXY and NO_PROXY as Go reads them; local addresses use none."""
    parts = urlsplit(url)
    name = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    proxy = environ.get(name) or environ.get(name.lower())
    if not proxy:
        return None
    host = (parts.hostname or "").lower().rstrip(".")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if _bypasses(host, port, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _bypasses(host: str, port: int, no_proxy: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for entry in no_proxy.split(","):
        entry = entry.strip().lower()
        if entry == "*":
            return True
        if entry and _matches(entry, host, port, address):
            return True
    return False


def _matches(entry: str, host: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, wanted_port = entry, ""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        wanted_port = rest.removeprefix(":")
    elif entry.count(":") == 1:
        name, _, wanted_port = entry.partition(":")
    if wanted_port and wanted_port != str(port):
        return False
    entry_address = _address(name)
    if entry_address is not None:
        return entry_address == address
    name = name.removeprefix("*")
    if name.startswith("."):
        return host.endswith(name)
    return host == name or host.endswith("." + name)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


# --------------------------------------------------------------------------------------------------------------------
# Opening a connection


class Opening(asyncio.Protocol):
    """A connection before its protocol is known; bytes that arrive by then are kept for it."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.is_lost = False
        self._news: asyncio.Future[None] | None = None

    def data_received(self, data: bytes) -> None:
        self.heard += data
        self._tell()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._tell()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def pass_proxy(self) -> None:
        """Wait until the proxy has opened the tunnel; raise ConnectionFailed if it refuses."""
        while b"\r\n\r\n" not in self.heard:
            if self.is_lost or len(self.heard) > MAX_HEAD_BYTES:
                raise ConnectionResetError("the proxy closed the connection")
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        head, _, rest = bytes(self.heard).partition(b"\r\n\r\n")
        version, _, answer = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        is_answer = version.startswith("HTTP/1.")
        if is_answer and not answer.startswith("2"):  # an error may have a page as its body
            raise ConnectionFailed(f"the proxy answered {answer.strip()}", was_sent=False)
        if not is_answer or rest:
            raise ConnectionFailed("the proxy does not speak HTTP/1.1", was_sent=False)
        self.heard.clear()


class Beginner(Protocol):
    """A connection that may have to wait for the server's settings before it can be used."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    async def begin(self) -> None: ...

    def close(self) -> None: ...


_FORGET = struct.pack("ii", 1, 0)
"""For SO_LINGER: unsent data of a closed connection is dropped."""

C = TypeVar("C", bound=Beginner)


class Connector:
    """Opens connections to one server. ``tls`` returns the context for each; None: no TLS.

    Through a proxy, TLS goes through a tunnel (CONNECT); without TLS the connection ends at the proxy, and the caller
    names the server in its requests. ``proxy_tls`` is the context for a proxy that is spoken to over TLS.

    The kernel closes a connection whose bytes the peer has not acknowledged within ``arrives_within_s``, and drops them
    with a closed connection. Otherwise a write to a partitioned network could arrive minutes later, even after this
    process has ended.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: Callable[[], ssl.SSLContext] | None = None,
        server_name: str = "",
        proxy: Proxy | None = None,
        proxy_tls: Callable[[], ssl.SSLContext] | None = None,
        connect_timeout_s: float = 30.0,
        arrives_within_s: float | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.tls = tls
        self.where = f"{host}:{port}" if proxy is None else f"{host}:{port} through the proxy {proxy}"
        self._proxy = proxy
        self._proxy_tls = proxy_tls
        self._server_name = server_name or host
        self._connect_timeout_s = connect_timeout_s
        self._arrives_within_s = arrives_within_s

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context of a new connection; raise ConnectionFailed if no certificate can be read."""
        return self.tls() if self.tls is not None else None

    async def connect(self, context: ssl.SSLContext | None, speaking: Callable[[str | None], C]) -> C:
        """Open a connection; ``speaking`` makes its protocol after the server's choice (ALPN)."""
        where = self.where
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                return await self._connect(context, speaking)
        except TimeoutError:
            raise RequestTimeout(f"cannot connect to {where}: no answer in time", was_sent=False) from None
        except ConnectionFailed as error:
            raise ConnectionFailed(f"cannot connect to {where}: {error}", was_sent=False) from None
        except ssl.SSLCertVerificationError as error:
            raise ConnectionFailed(
                f"{where}: the server's certificate is not trusted: {error.verify_message}", was_sent=False
            ) from None
        except ssl.SSLError as error:
            raise ConnectionFailed(f"cannot connect to {where}: {error.strerror or error}", was_sent=False) from None
        except OSError as error:
            raise Unreachable(f"cannot connect to {where}: {why_not(error)}") from None

    def _limit_arrival(self, transport: asyncio.BaseTransport) -> None:
        sock: socket.socket | None = transport.get_extra_info("socket")
        if self._arrives_within_s is None or sock is None:  # a virtual network has no kernel between us and the server
            return
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _FORGET)
        option = getattr(socket, "TCP_USER_TIMEOUT", None)  # on Linux only
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, max(1, int(self._arrives_within_s * 1000)))

    async def _connect(self, context: ssl.SSLContext | None, speaking: Callable[[str | None], C]) -> C:
        loop, proxy = asyncio.get_running_loop(), self._proxy
        host, port = (self.host, self.port) if proxy is None else (proxy.host, proxy.port)
        transport: asyncio.Transport
        if context is None and (proxy is None or not proxy.is_tls):
            transport, made = await loop.create_connection(lambda: cast(asyncio.Protocol, speaking(None)), host, port)
            self._limit_arrival(transport)
            return cast(C, made)
        # TCP first and then TLS: if asyncio did both and were cancelled between them, it would leak the socket.
        transport, opening = await loop.create_connection(Opening, host, port)
        self._limit_arrival(transport)
        try:
            if proxy is not None and proxy.is_tls:
                transport = await self._secure_proxy(proxy, transport, opening)
            if proxy is not None and context is not None:
                transport.write(proxy.request(self.host, self.port))
                await opening.pass_proxy()
            if context is not None:
                if opening.is_lost or transport.is_closing():
                    # uvloop would begin the handshake nevertheless, and the loop would log an exception in a callback.
                    raise ConnectionResetError("the server closed the connection")
                secured = await loop.start_tls(transport, opening, context, server_hostname=self._server_name)
                if secured is None or opening.is_lost:
                    raise ConnectionResetError("the server closed the connection")
                transport = secured
        except BaseException:
            transport.abort()
            raise
        chosen = None if context is None else transport.get_extra_info("ssl_object").selected_alpn_protocol()
        connection = speaking(chosen)
        transport.set_protocol(cast(asyncio.Protocol, connection))
        connection.connection_made(transport)
        if opening.heard:
            connection.data_received(bytes(opening.heard))
        try:
            await connection.begin()
        except BaseException:
            connection.close()
            raise
        return connection

    async def _secure_proxy(self, proxy: Proxy, transport: asyncio.Transport, opening: Opening) -> asyncio.Transport:
        """Start TLS to the proxy. It is verified by its own name, with the authorities of the server, as Go does."""
        assert self._proxy_tls is not None
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport, opening, self._proxy_tls(), server_hostname=proxy.host
            )
        except ssl.SSLCertVerificationError as error:
            raise ConnectionFailed(
                f"the proxy's certificate is not trusted: {error.verify_message}", was_sent=False
            ) from None
        except ssl.SSLError as error:
            raise ConnectionFailed(f"the proxy: {error.strerror or error}", was_sent=False) from None
        if secured is None or opening.is_lost:
            raise ConnectionResetError("the proxy closed the connection")
        return secured
