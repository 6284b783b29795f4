"""The way to a server: its address, TLS, and a proxy in between. Whatever fails on it is told in one line."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from typing import Protocol, TypeVar, cast

from mooring.client.errors import ConnectionFailed, RequestTimeout, Unreachable, why_not
from mooring.client.tunnel import Opening, Proxy


class Beginner(Protocol):
    """A connection that may have to hear from the server before it can be used."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    async def begin(self) -> None: ...

    def close(self) -> None: ...


_FORGET = struct.pack("ii", 1, 0)
"""For SO_LINGER: what has not arrived when a connection is closed is not sent any more."""

C = TypeVar("C", bound=Beginner)


class Way:
    """Opens connections to one server. ``tls`` is asked for the context before each; None: no TLS is spoken.

    ``proxy_tls`` is the same for a proxy that is spoken to over TLS.
    The kernel gives a connection up whose bytes the peer has not acknowledged within ``arrives_within_s``, and forgets
    them with a connection that is closed. Without that, what was sent to a network that is cut may arrive minutes
    later, even after this process has ended.
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
        self._proxy = proxy  # between us and a server that speaks TLS
        self._proxy_tls = proxy_tls
        self._server_name = server_name or host
        self._connect_timeout_s = connect_timeout_s
        self._arrives_within_s = arrives_within_s

    def context(self) -> ssl.SSLContext | None:
        """What a new connection shows and trusts; ConnectionFailed if no certificate can be read."""
        return self.tls() if self.tls is not None else None

    async def connect(self, context: ssl.SSLContext | None, speaking: Callable[[str | None], C]) -> C:
        """Open a connection; ``speaking`` makes it for the protocol that the server has chosen (ALPN)."""
        where = self.where
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                if context is not None:
                    return await self._connect_secured(context, speaking)
                loop = asyncio.get_running_loop()
                transport, made = await loop.create_connection(
                    lambda: cast(asyncio.Protocol, speaking(None)), self.host, self.port
                )
                self._limit_arrival(transport)
                return cast(C, made)
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
        option = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux has it
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, max(1, int(self._arrives_within_s * 1000)))

    async def _connect_secured(self, context: ssl.SSLContext, speaking: Callable[[str | None], C]) -> C:
        """Connect and speak TLS. In two steps: asyncio forgets a socket that is given up between them."""
        loop, proxy = asyncio.get_running_loop(), self._proxy
        host, port = (self.host, self.port) if proxy is None else (proxy.host, proxy.port)
        transport: asyncio.Transport
        transport, opening = await loop.create_connection(Opening, host, port)
        self._limit_arrival(transport)
        try:
            if proxy is not None:
                if proxy.is_tls:
                    transport = await self._secure_way_to(proxy, transport, opening)
                transport.write(proxy.request(self.host, self.port))
                await opening.pass_proxy()
            if opening.is_lost or transport.is_closing():
                # uvloop would begin the handshake all the same, and the loop would tell of an exception in a callback.
                raise ConnectionResetError("the server closed the connection")
            secured = await loop.start_tls(transport, opening, context, server_hostname=self._server_name)
        except BaseException:
            transport.abort()
            raise
        if secured is None or opening.is_lost:
            raise ConnectionResetError("the server closed the connection")
        connection = speaking(secured.get_extra_info("ssl_object").selected_alpn_protocol())
        secured.set_protocol(cast(asyncio.Protocol, connection))
        connection.connection_made(secured)
        if opening.heard:
            connection.data_received(bytes(opening.heard))
        try:
            await connection.begin()
        except BaseException:
            connection.close()
            raise
        return connection

    async def _secure_way_to(self, proxy: Proxy, transport: asyncio.Transport, opening: Opening) -> asyncio.Transport:
        """Speak TLS to the proxy. It is verified by its own name, with the authorities of the server, as Go does."""
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
