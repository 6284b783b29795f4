"""The way to a server through a proxy (CONNECT): the proxy passes bytes on, and TLS begins behind it."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from mooring.client.errors import ConnectionFailed

MAX_HEAD_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy; with ``is_tls`` it is spoken to over TLS, and what it passes on is TLS within TLS."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)
    is_tls: bool = False

    @classmethod
    def of_url(cls, url: str) -> Proxy | None:
        """The proxy of an ``http://`` or ``https://`` URL; None for others."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return None
        user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        authorization = "" if user == ":" else f"Basic {b64encode(user.encode()).decode()}"
        is_tls = parts.scheme == "https"
        return cls(parts.hostname, parts.port or (443 if is_tls else 80), authorization, is_tls)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def request(self, host: str, port: int) -> bytes:
        """What asks for a way to a server."""
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if self.authorization:
            lines.append(f"Proxy-Authorization: {self.authorization}")
        return "\r\n".join([*lines, "", ""]).encode()


class Opening(asyncio.Protocol):
    """A connection before it is known which protocol is spoken; what comes by then is kept for that one."""

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
        """Wait until the proxy has opened the way; raise ConnectionFailed if it will not."""
        while b"\r\n\r\n" not in self.heard:
            if self.is_lost or len(self.heard) > MAX_HEAD_BYTES:
                raise ConnectionResetError("the proxy closed the connection")
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        head, _, rest = bytes(self.heard).partition(b"\r\n\r\n")
        version, _, answer = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        is_answer = version.startswith("HTTP/1.")
        if is_answer and not answer.startswith("2"):  # a refusal may have a page as its body
            raise ConnectionFailed(f"the proxy answered {answer.strip()}", was_sent=False)
        if not is_answer or rest:
            raise ConnectionFailed("the proxy does not speak HTTP/1.1", was_sent=False)
        self.heard.clear()
