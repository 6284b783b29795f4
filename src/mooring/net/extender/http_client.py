"""Blocking HTTP/1.1 with kept connections: a scheduling cycle waits for its extenders.

One deadline covers a whole call. Errors have the texts of Go's client. Several threads may use a client concurrently.
"""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import select
import socket
import ssl
import threading
import time
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from mooring.api.errors import ConfigError, UsageError
from mooring.api.text import without_secrets
from mooring.api.version import __version__
from mooring.core.config.types import Extender, ExtenderTLSConfig
from mooring.core.framework.extender import ExtenderError
from mooring.net.extender.wire import Payload
from mooring.net.http1 import (
    MAX_HEAD_BYTES,
    BadEncoding,
    BadMessage,
    BodyTooLarge,
    HeadTooLarge,
    Message,
    MessageReader,
    inflate,
)
from mooring.net.tls import load_identity

MAX_IDLE = 8
IDLE_S = 60.0
MAX_ANSWER_BYTES = 256 << 20
MAX_REDIRECTS = 10
COMPRESS_FROM = 16 << 10
CHUNK = 256 << 10


class NoAnswer(ExtenderError):
    """There was no answer in time."""


class _InBody(NoAnswer):
    """An answer began and did not end."""


class _Stale(Exception):
    """The server closed an idle connection before it answered."""


class ExtenderReply(NamedTuple):
    """Uncompressed answer of an extender."""

    status: int
    body: bytes


class HttpClient:
    """Connections to one extender."""

    def __init__(self, timeout_s: float, tls: ssl.SSLContext | None = None, server_name: str = "") -> None:
        self._timeout_s = timeout_s
        self._tls = tls
        self._server_name = server_name
        self._idle: dict[tuple[str, str, int], list[_Connection]] = {}
        self._lock = threading.Lock()
        self._accepts_gzip: set[str] = set()  # remote hosts that announced it

    @property
    def compresses(self) -> bool:
        """Report whether the server has announced that it reads compressed bodies."""
        return bool(self._accepts_gzip)

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()

    def post(self, url: str, body: Payload | bytes, *, may_repeat: bool = True) -> ExtenderReply:
        """Send a request and return the answer, whatever its status; redirects are followed as Go does."""
        deadline = time.monotonic() + self._timeout_s
        method, payload = "POST", body if isinstance(body, Payload) else Payload((body,))
        target = url
        for _ in range(MAX_REDIRECTS):
            try:
                answer = self._once(method, target, payload, deadline, may_repeat=may_repeat)
            except _InBody:
                raise
            except NoAnswer as error:
                raise NoAnswer(f'{method.title()} "{without_secrets(target)}": {error}') from None
            location = answer.headers.get("location", "")
            if answer.status not in (301, 302, 303, 307, 308) or not location:
                return ExtenderReply(answer.status, bytes(answer.body))
            target = urljoin(target, location)
            if answer.status < 307:
                method, payload = "GET", Payload(())
        raise NoAnswer(f'{method.title()} "{without_secrets(target)}": stopped after {MAX_REDIRECTS} redirects')

    def _once(self, method: str, url: str, body: Payload, deadline: float, *, may_repeat: bool) -> Message:
        parts = _split(url)
        for attempt in (1, 2):
            connection = self._connection(parts, deadline, fresh=attempt == 2)
            try:
                answer = connection.exchange(self._request(method, parts, body), deadline)
            except _Stale:
                connection.close()
                if connection.uses > 1 and may_repeat and attempt == 1:
                    continue  # it was closed while idle; a new connection decides
                raise NoAnswer("EOF") from None
            except BaseException:
                connection.close()
                raise
            self._give_back(connection, answer.keeps_alive)
            if "gzip" in answer.headers.get("accept-encoding", "").lower() and not is_loopback(parts.hostname or ""):
                self._accepts_gzip.add(parts.netloc)
            return _uncompressed(answer)
        raise AssertionError("unreachable")

    def _request(self, method: str, parts: SplitResult, body: Payload) -> bytes:
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
        data = b""
        if method != "GET":
            headers.append("Content-Type: application/json")
            if parts.netloc in self._accepts_gzip and len(body) >= COMPRESS_FROM:
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
            raise NoAnswer(NO_HEADERS) from None
        except (OSError, ValueError) as error:
            sock.close()
            raise NoAnswer(tls_text(error, self._server_name or host)) from None


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

    def exchange(self, request: bytes, deadline: float) -> Message:
        """Send a request and read the answer. ``keeps_alive`` says whether the connection can be reused."""
        self.uses += 1
        try:
            self._sock.settimeout(_left(deadline))
            self._sock.sendall(request)
        except TimeoutError:
            raise NoAnswer(NO_HEADERS) from None
        except (BrokenPipeError, ConnectionResetError):
            pass  # the answer may have arrived nevertheless, such as a 413
        except OSError as error:
            raise NoAnswer(f"write tcp: {errno_text(error)}") from None
        reader = _AnswerReader()
        try:
            while reader.answer is None:
                reader.feed(self._receive(reader, deadline))
            return reader.answer
        finally:
            reader.close()

    def _receive(self, reader: _AnswerReader, deadline: float) -> bytes:
        """Return received bytes; empty when the server has closed the connection."""
        try:
            self._sock.settimeout(_left(deadline))
            return self._sock.recv(CHUNK)
        except TimeoutError:
            raise _InBody(NO_BODY) if reader.has_head else NoAnswer(NO_HEADERS) from None
        except ConnectionResetError as error:
            if reader.has_begun:
                raise _InBody("unexpected EOF") from None
            if self.uses > 1:
                raise _Stale from None
            raise NoAnswer(f"read tcp: read: {errno_text(error)}") from None
        except OSError as error:
            raise NoAnswer(tls_text(error, self.key[1])) from None


class _AnswerReader:
    """An answer as it arrives, with Go's errors for invalid ones."""

    def __init__(self) -> None:
        self.answer: Message | None = None
        self._messages = MessageReader(reads_answers=True, max_body_bytes=MAX_ANSWER_BYTES)
        self._first = b""

    @property
    def has_begun(self) -> bool:
        return bool(self._first)

    @property
    def has_head(self) -> bool:
        return self._messages.arriving is not None and self._messages.arriving.has_head

    def close(self) -> None:
        self._messages.close()

    def feed(self, data: bytes) -> None:
        if not data:
            self._end()
            return
        messages = self._messages
        if len(self._first) < 32:
            self._first += data[:32]
        goes_on = False
        try:
            messages.feed(data)
        except BodyTooLarge:
            raise _too_large() from None
        except HeadTooLarge:
            raise NoAnswer(f"net/http: server response headers exceeded {MAX_HEAD_BYTES} bytes; aborted") from None
        except BadMessage:
            if not messages.complete:
                first = self._first.split(b"\r\n")[0].decode("latin-1")
                raise NoAnswer(
                    f'net/http: HTTP/1.x transport connection broken: malformed HTTP response "{first}"'
                ) from None
            goes_on = True  # data after the answer
        if messages.complete:
            self.answer = messages.complete.popleft()
            if goes_on or messages.complete or messages.arriving is not None:
                self.answer.keeps_alive = False

    def _end(self) -> None:
        """Handle a closed connection: the end of an answer of unknown length, or a truncated one."""
        if not self.has_begun:
            raise _Stale
        answer = self._messages.arriving
        if answer is None or not answer.has_head:
            raise NoAnswer("unexpected EOF")
        if not answer.is_open_ended and answer.status == 200:
            raise _InBody("unexpected EOF")
        answer.keeps_alive = False
        self.answer = answer


def _uncompressed(answer: Message) -> Message:
    if answer.status == 200 and answer.headers.get("content-encoding", "").lower() == "gzip":
        try:
            answer.body = inflate(answer.body, "gzip", MAX_ANSWER_BYTES)
        except BadEncoding as error:
            if error.is_cut:
                raise _InBody("unexpected EOF") from None
            raise _InBody("gzip: invalid checksum" if error.member else "gzip: invalid header") from None
        except BodyTooLarge:
            raise _too_large() from None
    return answer


def _too_large() -> _InBody:
    return _InBody(f"the answer is larger than {MAX_ANSWER_BYTES >> 20} MiB")


def is_loopback(host: str) -> bool:
    """Report whether a host name or address is loopback."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _split(url: str) -> SplitResult:
    """Split a URL that requests can be sent to."""
    parts = urlsplit(url)
    try:
        parts.port  # noqa: B018 - accessed for its validation
    except ValueError:
        raise NoAnswer(f'invalid port ":{parts.netloc.rpartition(":")[2]}" after host') from None
    if parts.scheme not in ("http", "https"):
        raise NoAnswer(f'unsupported protocol scheme "{parts.scheme}"')
    if not parts.hostname:
        raise NoAnswer("http: no Host in request URL")
    return parts


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
            raise NoAnswer(NO_HEADERS) from None
        except OSError as error:
            sock.close()
            shown = f"[{address[0]}]" if family == socket.AF_INET6 else address[0]
            problem = problem or f"dial tcp {shown}:{port}: connect: {errno_text(error)}"
    raise NoAnswer(problem)


# --------------------------------------------------------------------------------------------------------------------
# Go's texts for connection failures. They appear in pods' events, and people search for them.

NO_HEADERS = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
NO_BODY = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"

_UNKNOWN_AUTHORITY = {2, 18, 19, 20, 21}  # OpenSSL's codes: issuer not found, self-signed and related
_VALIDITY = {9, 10}
_NAMES = {62, 63, 64}


def errno_text(error: OSError) -> str:
    """Return the system's error as Go writes it."""
    return (error.strerror or str(error)).lower()


def tls_text(error: Exception, host: str) -> str:
    """Return Go's text for OpenSSL's error, or for another end of the connection."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {_certificate_text(error, host)}"
    if isinstance(error, ssl.SSLEOFError):
        return "EOF"
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
    return str(error)


def _certificate_text(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return "certificate signed by unknown authority"
    if error.verify_code in _VALIDITY:
        return "certificate has expired or is not yet valid"
    if error.verify_code in _NAMES:
        return f"certificate is not valid for {host}"
    return error.verify_message


# --------------------------------------------------------------------------------------------------------------------
# TLS of client and server: an entry's settings as kube-scheduler interprets them, and a server's certificate.


def tls_context(config: Extender) -> ssl.SSLContext | None:
    """Return the TLS context for an extender; None for the system's defaults."""
    tls = config.tls_config or ExtenderTLSConfig()
    has_ca = bool(tls.ca_file or tls.ca_data)
    insecure = tls.insecure or (config.enable_https and not has_ca)
    if config.tls_config is None and not insecure:
        return None
    if has_ca and insecure:
        raise ConfigError("specifying a root certificates file with the insecure flag is not allowed")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif has_ca:
        _trust(context, tls)
    else:
        context.load_default_certs()
    _identify(context, tls)
    return context


def server_context(certificate_file: str, key_file: str, client_ca_file: str = "") -> ssl.SSLContext:
    """Return a server's context; with a client CA only clients with a certificate of that CA are served."""
    if not certificate_file or not key_file:
        raise UsageError("--tls-cert-file and --tls-private-key-file go together; only one is given")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate_file, key_file)
    except ssl.SSLError:
        raise UsageError(
            f"--tls-cert-file {certificate_file}: certificate and key do not fit together or are not PEM"
        ) from None
    except OSError as error:
        raise UsageError(f"--tls-cert-file {certificate_file}: {(error.strerror or str(error)).lower()}") from None
    if client_ca_file:
        try:
            context.load_verify_locations(client_ca_file)
        except (ssl.SSLError, OSError):
            raise UsageError(f"--client-ca-file {client_ca_file}: no certificates in PEM form there") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _trust(context: ssl.SSLContext, tls: ExtenderTLSConfig) -> None:
    pem = tls.ca_data or _read("tlsConfig.caFile", tls.ca_file)
    try:
        context.load_verify_locations(cadata=pem.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError, ValueError):
        where = "tlsConfig.caData" if tls.ca_data else f"tlsConfig.caFile {tls.ca_file}"
        raise ConfigError(f"unable to load root certificates: {where} has no certificate in PEM form") from None


def _identify(context: ssl.SSLContext, tls: ExtenderTLSConfig) -> None:
    certificate = tls.cert_data or (_read("tlsConfig.certFile", tls.cert_file) if tls.cert_file else b"")
    key = tls.key_data or (_read("tlsConfig.keyFile", tls.key_file) if tls.key_file else b"")
    if not certificate or not key:
        return  # upstream needs both
    try:
        load_identity(context, certificate, key)
    except (ssl.SSLError, OSError):
        raise ConfigError("tlsConfig: certificate and key do not fit together or are not PEM") from None


def _read(field: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{field}: open {path}: {(error.strerror or str(error)).lower()}") from None
