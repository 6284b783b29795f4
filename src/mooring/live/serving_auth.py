"""Access control of the endpoints: the API server is asked, as by every Kubernetes component.

A client certificate or a token identifies the user (TokenReview); a SubjectAccessReview authorises the request. Answers
are cached for ten seconds. Some paths are open to all, and members of ``system:masters`` are always allowed.
"""

from __future__ import annotations

import hashlib
import ssl
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from mooring.api.clock import Clock, SystemClock
from mooring.api.errors import ApiError, UsageError
from mooring.live.logs import get_logger
from mooring.net.errors import NotFound
from mooring.net.tls import Identity, file_stamp, load_identity, self_signed

log = get_logger("mooring.live.serving")

ALWAYS_ALLOW = ("/healthz", "/readyz", "/livez")
MASTERS = "system:masters"
NOBODY_TO_ASK = "there is no cluster to ask: give --authentication-kubeconfig and --authorization-kubeconfig"


@dataclass(frozen=True, slots=True)
class User:
    """The user who sent a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class ReviewClient(Protocol):
    """The part of a REST client that reviews need."""

    async def create(self, path: str, body: bytes, query: Mapping[str, str] | None = None) -> Any: ...


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo = msgspec.field(default_factory=_UserInfo)
    error: str = ""


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


V = TypeVar("V")


class _Cache(Generic[V]):
    def __init__(self, clock: Clock, size: int = 4096) -> None:
        self._clock = clock
        self._size = size
        self._entries: OrderedDict[object, tuple[float, V]] = OrderedDict()

    def get(self, key: object) -> V | None:
        entry = self._entries.get(key)
        if entry is None or entry[0] <= self._clock.monotonic():
            return None
        return entry[1]

    def put(self, key: object, value: V, ttl_s: float) -> None:
        self._entries[key] = (self._clock.monotonic() + ttl_s, value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)


class AuthenticationFailed(Exception):
    """The client presented an invalid token."""


class DelegatedAuth:
    """Authentication and authorisation by the API server; without a client every user is anonymous."""

    def __init__(
        self,
        authentication: ReviewClient | None,
        authorization: ReviewClient | None,
        *,
        always_allow_paths: tuple[str, ...] = ALWAYS_ALLOW,
        token_ttl_s: float = 10.0,
        allowed_ttl_s: float = 10.0,
        denied_ttl_s: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        self._authentication = authentication
        self._authorization = authorization
        self._exact = {path for path in always_allow_paths if not path.endswith("*")}
        self._prefixes = tuple(path[:-1] for path in always_allow_paths if path.endswith("*"))
        self._token_ttl_s = token_ttl_s
        self._allowed_ttl_s, self._denied_ttl_s = allowed_ttl_s, denied_ttl_s
        clock = clock or SystemClock()
        self._users: _Cache[User | str] = _Cache(clock)
        self._decisions: _Cache[tuple[bool, str]] = _Cache(clock)

    def is_open(self, path: str) -> bool:
        return path in self._exact or path.startswith(self._prefixes or ("\0",))

    async def authenticate(self, authorization: str, peer: Mapping[str, Any] | None) -> User:
        """Identify the client; raise ``AuthenticationFailed`` for a rejected token."""
        if peer:
            return user_of_certificate(peer)
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or self._authentication is None:
            return ANONYMOUS
        try:
            key = hashlib.sha256(token.encode()).digest()
        except UnicodeEncodeError:
            raise AuthenticationFailed("the token is not UTF-8") from None
        known = self._users.get(key)
        if known is None:
            known = await self._review_token(self._authentication, token)
            self._users.put(key, known, self._token_ttl_s)
        if isinstance(known, str):
            raise AuthenticationFailed(known)
        return known

    async def _review_token(self, client: ReviewClient, token: str) -> User | str:
        body = {
            "kind": "TokenReview",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {},
            "spec": {"token": token},
            "status": {"user": {}},
        }
        try:
            answer = await client.create("/apis/authentication.k8s.io/v1/tokenreviews", msgspec.json.encode(body))
            status = msgspec.json.decode(answer.body, type=_TokenReview).status
        except (ApiError, msgspec.DecodeError) as error:
            # Not cached: the next request asks again.
            log.error(error, "Unable to authenticate the request")
            raise AuthenticationFailed(str(error)) from None
        if not status.authenticated:
            return status.error or "invalid bearer token"
        user = status.user
        groups = tuple(user.groups or ())
        extra = {key: tuple(values) for key, values in (user.extra or {}).items()}
        return User(user.username, groups, user.uid, extra)

    async def authorize(self, user: User, verb: str, path: str) -> tuple[bool, str]:
        """Report whether ``user`` may, and why not; raise ``ApiError`` when the API server cannot be asked."""
        if self.is_open(path) or MASTERS in user.groups:
            return True, ""
        if self._authorization is None:
            return False, NOBODY_TO_ASK
        key = (user.name, user.groups, user.uid, verb, path)
        known = self._decisions.get(key)
        if known is None:
            known = await self._review_access(self._authorization, user, verb, path)
            self._decisions.put(key, known, self._allowed_ttl_s if known[0] else self._denied_ttl_s)
        return known

    async def _review_access(self, client: ReviewClient, user: User, verb: str, path: str) -> tuple[bool, str]:
        spec: dict[str, Any] = {"nonResourceAttributes": {"path": path, "verb": verb}, "user": user.name}
        if user.groups:
            spec["groups"] = list(user.groups)
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra.items()}
        if user.uid:
            spec["uid"] = user.uid
        body = {
            "kind": "SubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": spec,
            "status": {"allowed": False},
        }
        answer = await client.create(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews", msgspec.json.encode(body), {"timeout": "10s"}
        )
        try:
            status = msgspec.json.decode(answer.body, type=_AccessReview).status
        except msgspec.DecodeError as error:
            raise ApiError(f"the answer is not a SubjectAccessReview: {error}") from None
        return status.allowed and not status.denied, status.reason


def user_of_certificate(peer: Mapping[str, Any]) -> User:
    """Return the user that a verified client certificate names: common name and organisations."""
    name, groups = "", []
    for part in peer.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                name = value
            elif key == "organizationName":
                groups.append(value)
    return User(name, (*groups, "system:authenticated"))


async def client_ca_of_cluster(client: Any) -> bytes | None:
    """Fetch the CA of client certificates that the API server publishes; None if it may not be read."""
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    try:
        answer = await client.get(path)
        data = msgspec.json.decode(answer.body).get("data") or {}
    except NotFound:
        return None  # this cluster publishes none
    except (ApiError, msgspec.DecodeError, AttributeError) as error:
        log.warning("Error looking up in-cluster authentication configuration", err=str(error))
        return None
    text: str = data.get("client-ca-file", "")
    return text.encode() or None


# --------------------------------------------------------------------------------------------------------------------
# The certificate of the endpoints: from files that may be replaced, or self-signed in memory.

_VERSIONS = {"": ssl.TLSVersion.TLSv1_2, "VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The flags --tls-cert-file, --tls-private-key-file, --client-ca-file, --tls-min-version, --tls-cipher-suites."""

    certificate_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""
    min_version: str = ""
    ciphers: str = ""


class ServerTls:
    """The TLS context of the endpoints; ``reload`` builds another one when files were replaced.

    A context that is in use by handshakes in other threads is never changed: it would have a certificate and key that
    do not match for a moment.
    """

    def __init__(
        self,
        files: TlsFiles,
        *,
        hosts: tuple[str, ...],
        client_ca: bytes | None = None,
        make_identity: Callable[..., Identity] = self_signed,
    ) -> None:
        self._files, self._client_ca = files, client_ca
        if bool(files.certificate_file) != bool(files.key_file):
            raise UsageError("--tls-cert-file and --tls-private-key-file go together; only one is given")
        if files.min_version not in _VERSIONS:
            raise UsageError(f"--tls-min-version: {files.min_version!r}; it should be VersionTLS12 or VersionTLS13")
        self._stamp = self._stamp_now()
        self.context = self._context()
        if files.certificate_file:
            _load(self.context, files)
        else:
            load_identity(self.context, *make_identity(*hosts))

    def _stamp_now(self) -> object:
        return file_stamp(self._files.certificate_file), file_stamp(self._files.key_file)

    def _context(self) -> ssl.SSLContext:
        """A context without a certificate."""
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[files.min_version]
        context.set_alpn_protocols(["http/1.1"])
        if files.ciphers:
            try:
                context.set_ciphers(files.ciphers)
            except ssl.SSLError:
                raise UsageError(f"--tls-cipher-suites: {files.ciphers!r}; none of them is known") from None
        try:
            if files.client_ca_file:
                context.load_verify_locations(files.client_ca_file)
            if self._client_ca:
                context.load_verify_locations(cadata=self._client_ca.decode("ascii"))
        except (OSError, UnicodeDecodeError, ValueError) as error:
            where = files.client_ca_file or "the cluster's client CA"
            raise UsageError(f"--client-ca-file {where}: {getattr(error, 'strerror', None) or error}") from None
        if files.client_ca_file or self._client_ca:
            # A client may present a certificate; without one it is anonymous or has a token.
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def reload(self) -> bool:
        """Load new files, if there are any; a pair that does not match is logged and the old one stays in effect."""
        stamp = self._stamp_now()  # read first, so that files replaced from here on are loaded next time
        if not self._files.certificate_file or stamp == self._stamp:
            return False
        try:
            context = self._context()
            _load(context, self._files)
        except (OSError, UsageError) as error:
            log.error(error, "The new serving certificate is invalid; keeping the old one")
            return False
        self.context, self._stamp = context, stamp
        log.info("The serving certificate was replaced")
        return True


def _load(context: ssl.SSLContext, files: TlsFiles) -> None:
    try:
        context.load_cert_chain(files.certificate_file, files.key_file)
    except ssl.SSLError:
        raise UsageError(
            f"--tls-cert-file {files.certificate_file}: certificate and key do not fit together or are not PEM"
        ) from None
    except OSError as error:
        raise UsageError(f"--tls-cert-file {files.certificate_file}: {error.strerror or error}") from None
