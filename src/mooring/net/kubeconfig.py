"""Address and credentials of the API server: kubeconfig files, and the in-cluster configuration of a pod.

Every mistake is reported in one line that names the file and the entry.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

import msgspec

from mooring.api import yaml
from mooring.api.errors import InputError, UsageError
from mooring.api.text import without_secrets
from mooring.net.connect import proxy_from_environment
from mooring.net.credentials import (
    EXEC_VERSIONS,
    Credentials,
    ExecCredentials,
    ExecPlugin,
    StaticCredentials,
    TokenFileCredentials,
    basic,
    bearer,
    has_control_characters,
)
from mooring.net.tls import Identity, TlsSettings

# --------------------------------------------------------------------------------------------------------------------
# The files: read, type-checked, and merged as kubectl merges them. The first file that names a cluster, user or context
# wins. Every entry remembers its file, because relative paths are relative to it.

MAX_FILE_BYTES = 16 << 20


class _Kebab(msgspec.Struct, rename="kebab"):
    pass


class KubeconfigCluster(_Kebab):
    """A server and its verification."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    extensions: list[dict[str, Any]] | None = None


class _ExecEnv(msgspec.Struct):
    name: str
    value: str


class Exec(msgspec.Struct, rename="camel"):
    """A program that prints credentials."""

    command: str = ""
    args: list[str] | None = None
    env: list[_ExecEnv] | None = None
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class KubeconfigUser(_Kebab):
    """An identity."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    as_user: str = msgspec.field(name="as", default="")
    as_uid: str = ""
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None
    username: str = ""
    password: str = ""
    auth_provider: dict[str, Any] | None = None
    exec_: Exec | None = msgspec.field(name="exec", default=None)


class KubeconfigContext(_Kebab):
    """A combination of a cluster and a user."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: KubeconfigCluster | None = None


class _NamedUser(msgspec.Struct):
    name: str
    user: KubeconfigUser | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: KubeconfigContext | None = None


class KubeconfigDocument(_Kebab):
    kind: str = ""
    api_version: str = msgspec.field(name="apiVersion", default="")
    current_context: str = ""
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


@dataclass(slots=True)
class KubeconfigFiles:
    """All files merged; each entry knows its file."""

    current_context: str = ""
    clusters: dict[str, tuple[KubeconfigCluster, str]] = field(default_factory=dict)
    users: dict[str, tuple[KubeconfigUser, str]] = field(default_factory=dict)
    contexts: dict[str, tuple[KubeconfigContext, str]] = field(default_factory=dict)

    def add(self, path: str) -> None:
        """Merge a file; entries of earlier files take precedence."""
        file = _read_document(path)
        self.current_context = self.current_context or file.current_context
        for cluster in file.clusters or ():
            self.clusters.setdefault(cluster.name, (cluster.cluster or KubeconfigCluster(), path))
        for user in file.users or ():
            self.users.setdefault(user.name, (user.user or KubeconfigUser(), path))
        for context in file.contexts or ():
            self.contexts.setdefault(context.name, (context.context or KubeconfigContext(), path))


def check_texts(section: KubeconfigCluster | KubeconfigUser, where: str) -> None:
    """Reject control characters in names of files, URLs, tokens and users."""
    for each in msgspec.structs.fields(section):
        if each.name.endswith(("_data", "password")):
            continue
        if has_control_characters(_text_of(getattr(section, each.name))):
            raise InputError(f"{where}: {each.encode_name}: a control character in it; it should be one line of text")


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(each for each in value if isinstance(each, str))
    if isinstance(value, dict):
        return "".join(key + _text_of(inner) for key, inner in value.items())
    return ""


def _read_document(path: str) -> KubeconfigDocument:
    try:
        with open(path, "rb") as stream:
            text = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"kubeconfig {path}: {error.strerror or error}") from None
    if len(text) > MAX_FILE_BYTES:
        raise InputError(f"kubeconfig {path}: more than {MAX_FILE_BYTES >> 20} MiB; a kubeconfig is a small file")
    document = yaml.load(text, f"kubeconfig {path}")
    if document is None:
        document = {}
    if not isinstance(document, dict):
        found = type(document).__name__
        raise InputError(f"kubeconfig {path}: found a {found}; a kubeconfig is a mapping of kind Config")
    try:
        file = msgspec.convert(document, KubeconfigDocument)
    except msgspec.ValidationError as error:
        raise InputError(f"kubeconfig {path}: {_plain(error)}") from None
    if file.kind not in ("", "Config") or file.api_version not in ("", "v1"):
        raise InputError(
            f"kubeconfig {path}: found {file.api_version} {file.kind}; a kubeconfig has apiVersion v1 and kind Config"
        )
    return file


def _plain(error: msgspec.ValidationError) -> str:
    problem, separator, where = str(error).partition(" - at `$")
    return f"{where.rstrip('`').lstrip('.')}: {problem}" if separator else problem


# --------------------------------------------------------------------------------------------------------------------
# A resolved context

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_HOST = re.compile(r"[0-9A-Za-z._:%~-]{1,253}")
_HEADER_NAME = "!#$&'*+^`|"  # besides letters, digits and _.-~: allowed in a header's name


@dataclass(slots=True)
class ClientConfig:
    """An API server, and the identity to use with it."""

    server: str
    credentials: Credentials = field(default_factory=StaticCredentials)
    tls: TlsSettings = field(default_factory=TlsSettings)
    proxy_url: str | None = field(default=None, repr=False)  # may have a password
    namespace: str = "default"
    extra_headers: tuple[tuple[str, str], ...] = ()
    source: str = ""
    arrives_within_s: float | None = None  # writes that have not arrived by then must not arrive later

    @property
    def is_tls(self) -> bool:
        return self.server.startswith("https://")


def find_config(
    kubeconfig: str = "",
    *,
    context: str = "",
    master: str = "",
    environ: Mapping[str, str] | None = None,
    service_account: str = SERVICE_ACCOUNT,
    give: str = "--kubeconfig FILE",
) -> ClientConfig:
    """Find the configuration as kubectl does: the given file, KUBECONFIG, ~/.kube/config, or in-cluster.

    ``give`` tells the user how to name a file, for the message if there is none.
    """
    environ = os.environ if environ is None else environ
    if kubeconfig:
        return load_kubeconfig([kubeconfig], context=context, master=master, environ=environ)
    listed = [path for path in environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    if listed:
        return load_kubeconfig(listed, context=context, master=master, environ=environ, missing_ok=True)
    home = environ.get("HOME", "")
    default = os.path.join(home, ".kube", "config") if home else ""
    if default and os.path.exists(default):
        return load_kubeconfig([default], context=context, master=master, environ=environ)
    if master:
        return _of_master(master, environ)
    if "KUBERNETES_SERVICE_HOST" in environ:
        return in_cluster_config(environ=environ, service_account=service_account)
    raise UsageError(
        f"no cluster configured: give {give}, set KUBECONFIG, or run inside a cluster with a service account"
    )


def scheduler_config(
    kubeconfig: str = "",
    *,
    master: str = "",
    environ: Mapping[str, str] | None = None,
    service_account: str = SERVICE_ACCOUNT,
) -> ClientConfig:
    """Find the configuration as kube-scheduler does: the given file (``master`` overrides), or in-cluster."""
    environ = os.environ if environ is None else environ
    if kubeconfig:
        return load_kubeconfig([kubeconfig], master=master, environ=environ)
    if master:
        return _of_master(master, environ)
    return in_cluster_config(environ=environ, service_account=service_account)


def in_cluster_config(
    *, environ: Mapping[str, str] | None = None, service_account: str = SERVICE_ACCOUNT
) -> ClientConfig:
    """Read the in-cluster configuration: the server's address from the environment, token and CA from files."""
    environ = os.environ if environ is None else environ
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise UsageError(
            "unable to load in-cluster configuration: "
            "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined; "
            "outside a cluster give --kubeconfig FILE"
        )
    credentials = TokenFileCredentials(os.path.join(service_account, "token"))
    credentials.read()
    ca_file = os.path.join(service_account, "ca.crt")
    namespace_file = Path(service_account, "namespace")
    namespace = namespace_file.read_text(encoding="utf-8").strip() if namespace_file.exists() else ""
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    config = ClientConfig(
        server=server,
        credentials=credentials,
        tls=TlsSettings(ca_file=ca_file),
        proxy_url=_proxy(KubeconfigCluster(), "", server, environ),
        namespace=namespace or "default",
        source="in-cluster configuration",
    )
    config.tls.context()
    return config


def load_kubeconfig(
    paths: Sequence[str],
    *,
    context: str = "",
    master: str = "",
    environ: Mapping[str, str] | None = None,
    missing_ok: bool = False,
) -> ClientConfig:
    """Merge kubeconfig files and resolve one context of them."""
    environ = os.environ if environ is None else environ
    files = KubeconfigFiles()
    read_any = False
    for path in paths:
        if missing_ok and not os.path.exists(path):
            continue
        files.add(path)
        read_any = True
    where = paths[0] if len(paths) == 1 else os.pathsep.join(paths)
    if not read_any:
        raise UsageError(f"KUBECONFIG: none of the files exists: {where}")
    return _resolve(files, where, context=context, master=master, environ=environ)


def _of_master(master: str, environ: Mapping[str, str]) -> ClientConfig:
    server = _server(master, "--master")
    return ClientConfig(server=server, proxy_url=_proxy(KubeconfigCluster(), "", server, environ), source="--master")


def _resolve(
    files: KubeconfigFiles, where: str, *, context: str, master: str, environ: Mapping[str, str]
) -> ClientConfig:
    name = context or files.current_context
    if not name and not files.contexts and master:
        return _of_master(master, environ)
    if not name:
        hint = f"name one of {_names(files.contexts)}" if files.contexts else "and no contexts to name one of"
        raise InputError(f"kubeconfig {where}: no current-context; {hint}")
    if name not in files.contexts:
        raise InputError(f"kubeconfig {where}: no context named {name!r}; there are {_names(files.contexts)}")
    chosen, path = files.contexts[name]
    if chosen.cluster not in files.clusters and not master:
        raise InputError(
            f"kubeconfig {path}: context {name!r}: no cluster named {chosen.cluster!r}; "
            f"there are {_names(files.clusters)}"
        )
    if chosen.user and chosen.user not in files.users:
        raise InputError(
            f"kubeconfig {path}: context {name!r}: no user named {chosen.user!r}; there are {_names(files.users)}"
        )
    cluster, cluster_path = files.clusters.get(chosen.cluster, (KubeconfigCluster(), path))
    user, user_path = files.users.get(chosen.user, (KubeconfigUser(), path))
    cluster_where = f"kubeconfig {cluster_path}: cluster {chosen.cluster!r}"
    user_where = f"kubeconfig {user_path}: user {chosen.user!r}"
    check_texts(cluster, cluster_where)
    check_texts(user, user_where)
    server = _server(master, "--master") if master else _server(cluster.server, cluster_where)
    tls = _tls(cluster, cluster_path, cluster_where, user, user_path, user_where)
    config = ClientConfig(
        server=server,
        credentials=_credentials(user, user_path, user_where, cluster, cluster_path, environ),
        tls=tls,
        proxy_url=_proxy(cluster, cluster_where, server, environ),
        namespace=chosen.namespace or "default",
        extra_headers=_impersonation(user, user_where),
        source=f"{where}, context {name}",
    )
    if config.is_tls:
        tls.context()
    return config


def _names(entries: Mapping[str, object]) -> str:
    return ", ".join(sorted(entries)) or "none"


def _server(server: str, where: str) -> str:
    if not server:
        raise InputError(f"{where}: no server; it should be a URL such as https://host:6443")
    if "://" not in server:
        server = f"http://{server}"
    if _parts_of(server) is None:
        raise InputError(f"{where}: server {without_secrets(server)!r}: it should be a URL such as https://host:6443")
    if "@" in urlsplit(server).netloc:
        raise InputError(f"{where}: server {without_secrets(server)!r}: credentials belong in the user's entry")
    return server.rstrip("/")


def _proxy(cluster: KubeconfigCluster, where: str, server: str, environ: Mapping[str, str]) -> str | None:
    proxy = cluster.proxy_url or proxy_from_environment(server, environ)
    if proxy and _parts_of(proxy) is None:
        source = f"{where}: proxy-url" if cluster.proxy_url else "HTTP_PROXY or HTTPS_PROXY"
        raise InputError(f"{source} {without_secrets(proxy)!r}: only http:// and https:// proxies can be used")
    return proxy


def _parts_of(url: str) -> SplitResult | None:
    """Split a URL; None if requests cannot be sent to it."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts if parts.scheme in ("http", "https") and _is_host(parts.hostname or "") else None


def _is_host(name: str) -> bool:
    return _HOST.fullmatch(name) is not None and all(len(label) <= 63 for label in name.split("."))


def _tls(
    cluster: KubeconfigCluster,
    cluster_path: str,
    cluster_where: str,
    user: KubeconfigUser,
    user_path: str,
    user_where: str,
) -> TlsSettings:
    ca_data = _data(cluster.certificate_authority_data, f"{cluster_where}: certificate-authority-data")
    if cluster.insecure_skip_tls_verify and (ca_data or cluster.certificate_authority):
        raise InputError(
            f"{cluster_where}: insecure-skip-tls-verify together with a certificate authority; one of them must go"
        )
    if cluster.tls_server_name and not _is_host(cluster.tls_server_name):
        raise InputError(f"{cluster_where}: tls-server-name {cluster.tls_server_name!r}: it should be a host name")
    certificate_data = _data(user.client_certificate_data, f"{user_where}: client-certificate-data")
    key_data = _data(user.client_key_data, f"{user_where}: client-key-data")
    certificate_file = "" if certificate_data else _relative_to(user_path, user.client_certificate)
    key_file = "" if key_data else _relative_to(user_path, user.client_key)
    has_certificate, has_key = bool(certificate_data or certificate_file), bool(key_data or key_file)
    if has_certificate != has_key:
        missing = "client-key" if has_certificate else "client-certificate"
        raise InputError(f"{user_where}: {missing} is missing; certificate and key go together")
    certificate = None
    if certificate_data or key_data:
        certificate = Identity(
            certificate_data or _file(certificate_file, f"{user_where}: client-certificate"),
            key_data or _file(key_file, f"{user_where}: client-key"),
        )
        certificate_file = key_file = ""
    return TlsSettings(
        ca_data=ca_data,
        ca_file="" if ca_data else _relative_to(cluster_path, cluster.certificate_authority),
        insecure=cluster.insecure_skip_tls_verify,
        server_name=cluster.tls_server_name,
        certificate=certificate,
        certificate_file=certificate_file,
        key_file=key_file,
    )


def _credentials(
    user: KubeconfigUser,
    path: str,
    where: str,
    cluster: KubeconfigCluster,
    cluster_path: str,
    environ: Mapping[str, str],
) -> Credentials:
    if user.auth_provider is not None:
        name = user.auth_provider.get("name", "")
        raise InputError(f"{where}: auth-provider {name!r} is no longer supported by Kubernetes; use an exec plugin")
    if user.exec_ is not None:
        if user.token or user.token_file or user.username:
            raise InputError(f"{where}: exec together with a token or a password; one of them must go")
        return _exec(user.exec_, path, where, cluster, cluster_path, environ)
    if (user.token or user.token_file) and user.username:
        raise InputError(
            f"{where}: more than one authentication method found; only one of [token basicAuth] is allowed"
        )
    if user.token_file:
        credentials = TokenFileCredentials(_relative_to(path, user.token_file), fallback=user.token)
        credentials.read()
        return credentials
    if user.token:
        return bearer(user.token)
    if user.username:
        return basic(user.username, user.password)
    return StaticCredentials()


def _exec(
    section: Exec, path: str, where: str, cluster: KubeconfigCluster, cluster_path: str, environ: Mapping[str, str]
) -> ExecCredentials:
    if not section.command:
        raise InputError(f"{where}.exec.command: missing; it names the program to run")
    if section.api_version not in EXEC_VERSIONS:
        raise InputError(f"{where}.exec.apiVersion: {section.api_version!r}; it should be {' or '.join(EXEC_VERSIONS)}")
    if section.interactive_mode not in ("", "Never", "IfAvailable", "Always"):
        raise InputError(
            f"{where}.exec.interactiveMode: {section.interactive_mode!r}; it should be Never, IfAvailable or Always"
        )
    if section.interactive_mode == "" and section.api_version == EXEC_VERSIONS[0]:
        raise InputError(f"{where}.exec.interactiveMode: missing; it should be Never, IfAvailable or Always")
    if section.interactive_mode == "Always":
        raise InputError(f"{where}.exec.interactiveMode: Always, but there is no terminal for the program")
    command = section.command
    if "/" in command:
        command = _relative_to(path, command)
    info = _cluster_info(cluster, cluster_path) if section.provide_cluster_info else None
    plugin = ExecPlugin(
        command=command,
        args=tuple(section.args or ()),
        env=tuple((entry.name, entry.value) for entry in section.env or ()),
        api_version=section.api_version,
        install_hint=section.install_hint,
        cluster_info=info,
    )
    return ExecCredentials(plugin, where=where, environ=environ)


def _cluster_info(cluster: KubeconfigCluster, path: str) -> dict[str, Any]:
    info: dict[str, Any] = {"server": cluster.server}
    if cluster.tls_server_name:
        info["tls-server-name"] = cluster.tls_server_name
    if cluster.insecure_skip_tls_verify:
        info["insecure-skip-tls-verify"] = True
    data = cluster.certificate_authority_data
    if not data and cluster.certificate_authority:
        pem = _file(_relative_to(path, cluster.certificate_authority), "certificate-authority")
        data = base64.b64encode(pem).decode()
    if data:
        info["certificate-authority-data"] = data
    if cluster.proxy_url:
        info["proxy-url"] = cluster.proxy_url
    for extension in cluster.extensions or ():
        if extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return info


def _impersonation(user: KubeconfigUser, where: str) -> tuple[tuple[str, str], ...]:
    if not user.as_user:
        if user.as_groups or user.as_user_extra or user.as_uid:
            raise InputError(f"{where}: as-groups, as-uid or as-user-extra without as; impersonation needs a user")
        return ()
    headers = [("Impersonate-User", user.as_user)]
    if user.as_uid:
        headers.append(("Impersonate-Uid", user.as_uid))
    headers += [("Impersonate-Group", group) for group in user.as_groups or ()]
    for key, values in (user.as_user_extra or {}).items():
        name = f"Impersonate-Extra-{quote(key, safe=_HEADER_NAME)}"
        headers += [(name, value) for value in values]
    return tuple(headers)


def _relative_to(path: str, name: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(path)), name) if name else ""


def _data(text: str, where: str) -> bytes | None:
    if not text:
        return None
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"{where}: not base64; it should be a PEM file encoded with base64") from None


def _file(path: str, where: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{where}: {path}: {error.strerror or error}") from None
