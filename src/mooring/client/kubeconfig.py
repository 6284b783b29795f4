"""Where the API server is and how to speak to it: kubeconfig files, and the configuration a pod finds in its cluster.

Files are merged as kubectl does: the first file that names a cluster, user or context wins; relative paths are relative
to the file they stand in. Everything that could be wrong is said in one line that names the file and the entry.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml

from mooring.client.credentials import (
    EXEC_VERSIONS,
    ClientCertificate,
    Credentials,
    ExecCredentials,
    ExecPlugin,
    StaticCredentials,
    TokenFileCredentials,
    basic,
    bearer,
)
from mooring.client.proxy import proxy_from_environment
from mooring.errors import InputError, UsageError

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class _Kebab(msgspec.Struct, rename="kebab"):
    pass


class _Cluster(_Kebab):
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


class _Exec(msgspec.Struct, rename="camel"):
    command: str = ""
    args: list[str] | None = None
    env: list[_ExecEnv] | None = None
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class _User(_Kebab):
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
    exec_: _Exec | None = msgspec.field(name="exec", default=None)


class _Context(_Kebab):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster | None = None


class _NamedUser(msgspec.Struct):
    name: str
    user: _User | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context | None = None


class _File(_Kebab):
    kind: str = ""
    api_version: str = msgspec.field(name="apiVersion", default="")
    current_context: str = ""
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


@dataclass(slots=True)
class TlsSettings:
    """How the server is verified and which certificate we show; contexts follow files that are replaced."""

    ca_data: bytes | None = None
    ca_file: str = ""
    insecure: bool = False
    server_name: str = ""
    certificate: ClientCertificate | None = None
    certificate_file: str = ""
    key_file: str = ""
    _context: ssl.SSLContext | None = field(default=None, repr=False)
    _made_from: object = field(default=None, repr=False)

    def context(self, override: ClientCertificate | None = None) -> ssl.SSLContext:
        """Give the context for a new connection; it is made again when a file or the plugin's certificate changed."""
        made_from = (override, _stamp(self.ca_file), _stamp(self.certificate_file), _stamp(self.key_file))
        if self._context is None or made_from != self._made_from:
            self._context, self._made_from = self._make(override), made_from
        return self._context

    def _make(self, override: ClientCertificate | None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.ca_data is None and not self.ca_file:
            context.load_default_certs()
        else:
            source = self.ca_file or "certificate-authority-data"
            try:
                pem = self.ca_data if self.ca_data is not None else Path(self.ca_file).read_bytes()
                context.load_verify_locations(cadata=pem.decode("ascii"))
            except (ssl.SSLError, UnicodeDecodeError, ValueError):
                raise InputError(f"{source}: no PEM certificate in it") from None
            except OSError as error:
                raise InputError(
                    f"{source}: cannot read the certificate authority: {error.strerror or error}"
                ) from None
        self._load_identity(context, override)
        return context

    def _load_identity(self, context: ssl.SSLContext, override: ClientCertificate | None) -> None:
        chosen = override or self.certificate
        try:
            if chosen is not None:
                # The ssl module reads identities from files only; this one lives for the length of the call.
                with tempfile.NamedTemporaryFile(prefix="mooring-", suffix=".pem") as file:
                    file.write(chosen.certificate + b"\n" + chosen.key)
                    file.flush()
                    context.load_cert_chain(file.name)
            elif self.certificate_file:
                context.load_cert_chain(self.certificate_file, self.key_file or None)
        except OSError as error:
            source = self.certificate_file or "client-certificate-data"
            why = "certificate and key do not fit together or are not PEM" if isinstance(error, ssl.SSLError) else error
            raise InputError(f"{source}: cannot use the client certificate: {why}") from None


@dataclass(slots=True)
class ClientConfig:
    """One API server, and one identity to use with it."""

    server: str
    credentials: Credentials = field(default_factory=StaticCredentials)
    tls: TlsSettings = field(default_factory=TlsSettings)
    proxy_url: str | None = None
    namespace: str = "default"
    extra_headers: tuple[tuple[str, str], ...] = ()
    source: str = ""

    @property
    def is_tls(self) -> bool:
        return self.server.startswith("https://")


class _KubectlLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML as kubectl does: a date is a string."""


_KubectlLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _KubectlLoader.yaml_implicit_resolvers.items()
}


@dataclass(slots=True)
class _Merged:
    """All files as one; each entry remembers the file it came from."""

    current_context: str = ""
    clusters: dict[str, tuple[_Cluster, str]] = field(default_factory=dict)
    users: dict[str, tuple[_User, str]] = field(default_factory=dict)
    contexts: dict[str, tuple[_Context, str]] = field(default_factory=dict)


def find_config(
    kubeconfig: str = "",
    *,
    context: str = "",
    master: str = "",
    environ: Mapping[str, str] | None = None,
    service_account: str = SERVICE_ACCOUNT,
) -> ClientConfig:
    """Find the configuration as kubectl does: the file given, KUBECONFIG, ~/.kube/config, the cluster we run in."""
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
        "no cluster configured: give --kubeconfig FILE, set KUBECONFIG, or run inside a cluster with a service account"
    )


def scheduler_config(
    kubeconfig: str = "",
    *,
    master: str = "",
    environ: Mapping[str, str] | None = None,
    service_account: str = SERVICE_ACCOUNT,
) -> ClientConfig:
    """Find the configuration as kube-scheduler does: the file given (``master`` overrides), or in-cluster."""
    environ = os.environ if environ is None else environ
    if kubeconfig:
        return load_kubeconfig([kubeconfig], master=master, environ=environ)
    if master:
        return _of_master(master, environ)
    return in_cluster_config(environ=environ, service_account=service_account)


def in_cluster_config(
    *, environ: Mapping[str, str] | None = None, service_account: str = SERVICE_ACCOUNT
) -> ClientConfig:
    """Read what every pod finds: the API server's address in the environment, token and CA in files."""
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
        proxy_url=proxy_from_environment(server, environ),
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
    merged = _Merged()
    read_any = False
    for path in paths:
        if missing_ok and not os.path.exists(path):
            continue
        _merge(merged, path, _read(path))
        read_any = True
    where = paths[0] if len(paths) == 1 else os.pathsep.join(paths)
    if not read_any:
        raise UsageError(f"KUBECONFIG: none of the files exists: {where}")
    return _resolve(merged, where, context=context, master=master, environ=environ)


def _of_master(master: str, environ: Mapping[str, str]) -> ClientConfig:
    server = _server(master, "--master")
    return ClientConfig(server=server, proxy_url=proxy_from_environment(server, environ), source="--master")


def _read(path: str) -> _File:
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"kubeconfig {path}: {error.strerror or error}") from None
    try:
        document = yaml.load(text, Loader=_KubectlLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InputError(f"kubeconfig {path}:{at} not YAML: {error.problem or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"kubeconfig {path}: not YAML: {' '.join(str(error).split())}") from None
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise InputError(
            f"kubeconfig {path}: found a {type(document).__name__}; a kubeconfig is a mapping of kind Config"
        )
    try:
        file = msgspec.convert(document, _File)
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


def _merge(merged: _Merged, path: str, file: _File) -> None:
    merged.current_context = merged.current_context or file.current_context
    for cluster in file.clusters or ():
        merged.clusters.setdefault(cluster.name, (cluster.cluster or _Cluster(), path))
    for user in file.users or ():
        merged.users.setdefault(user.name, (user.user or _User(), path))
    for context in file.contexts or ():
        merged.contexts.setdefault(context.name, (context.context or _Context(), path))


def _resolve(merged: _Merged, where: str, *, context: str, master: str, environ: Mapping[str, str]) -> ClientConfig:
    name = context or merged.current_context
    if not name and not merged.contexts and master:
        return _of_master(master, environ)
    if not name:
        raise InputError(f"kubeconfig {where}: no current-context; name one of {_names(merged.contexts)}")
    if name not in merged.contexts:
        raise InputError(f"kubeconfig {where}: no context named {name!r}; there are {_names(merged.contexts)}")
    chosen, path = merged.contexts[name]
    if chosen.cluster not in merged.clusters and not master:
        raise InputError(
            f"kubeconfig {path}: context {name!r}: no cluster named {chosen.cluster!r}; "
            f"there are {_names(merged.clusters)}"
        )
    if chosen.user and chosen.user not in merged.users:
        raise InputError(
            f"kubeconfig {path}: context {name!r}: no user named {chosen.user!r}; there are {_names(merged.users)}"
        )
    cluster, cluster_path = merged.clusters.get(chosen.cluster, (_Cluster(), path))
    user, user_path = merged.users.get(chosen.user, (_User(), path))
    cluster_where = f"kubeconfig {cluster_path}: cluster {chosen.cluster!r}"
    user_where = f"kubeconfig {user_path}: user {chosen.user!r}"
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
    try:
        parts = urlsplit(server)
        _ = parts.port
    except ValueError as error:
        raise InputError(f"{where}: server {server!r}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{where}: server {server!r}: it should be a URL such as https://host:6443")
    return server.rstrip("/")


def _proxy(cluster: _Cluster, where: str, server: str, environ: Mapping[str, str]) -> str | None:
    if not cluster.proxy_url:
        return proxy_from_environment(server, environ)
    parts = urlsplit(cluster.proxy_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{where}: proxy-url {cluster.proxy_url!r}: only http:// and https:// proxies can be used")
    return cluster.proxy_url


def _tls(
    cluster: _Cluster, cluster_path: str, cluster_where: str, user: _User, user_path: str, user_where: str
) -> TlsSettings:
    ca_data = _data(cluster.certificate_authority_data, f"{cluster_where}: certificate-authority-data")
    if cluster.insecure_skip_tls_verify and (ca_data or cluster.certificate_authority):
        raise InputError(
            f"{cluster_where}: insecure-skip-tls-verify together with a certificate authority; one of them must go"
        )
    certificate_data = _data(user.client_certificate_data, f"{user_where}: client-certificate-data")
    key_data = _data(user.client_key_data, f"{user_where}: client-key-data")
    certificate_file = "" if certificate_data else _beside(user_path, user.client_certificate)
    key_file = "" if key_data else _beside(user_path, user.client_key)
    has_certificate, has_key = bool(certificate_data or certificate_file), bool(key_data or key_file)
    if has_certificate != has_key:
        missing = "client-key" if has_certificate else "client-certificate"
        raise InputError(f"{user_where}: {missing} is missing; certificate and key go together")
    certificate = None
    if certificate_data or key_data:
        certificate = ClientCertificate(
            certificate_data or _file(certificate_file, f"{user_where}: client-certificate"),
            key_data or _file(key_file, f"{user_where}: client-key"),
        )
        certificate_file = key_file = ""
    return TlsSettings(
        ca_data=ca_data,
        ca_file="" if ca_data else _beside(cluster_path, cluster.certificate_authority),
        insecure=cluster.insecure_skip_tls_verify,
        server_name=cluster.tls_server_name,
        certificate=certificate,
        certificate_file=certificate_file,
        key_file=key_file,
    )


def _credentials(
    user: _User, path: str, where: str, cluster: _Cluster, cluster_path: str, environ: Mapping[str, str]
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
        credentials = TokenFileCredentials(_beside(path, user.token_file), fallback=user.token)
        credentials.read()
        return credentials
    if user.token:
        return bearer(user.token)
    if user.username:
        return basic(user.username, user.password)
    return StaticCredentials()


def _exec(
    section: _Exec, path: str, where: str, cluster: _Cluster, cluster_path: str, environ: Mapping[str, str]
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
        raise InputError(f"{where}.exec.interactiveMode: Always, but nobody is there to answer the program")
    command = section.command
    if "/" in command:
        command = _beside(path, command)
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


def _cluster_info(cluster: _Cluster, path: str) -> dict[str, Any]:
    info: dict[str, Any] = {"server": cluster.server}
    if cluster.tls_server_name:
        info["tls-server-name"] = cluster.tls_server_name
    if cluster.insecure_skip_tls_verify:
        info["insecure-skip-tls-verify"] = True
    data = cluster.certificate_authority_data
    if not data and cluster.certificate_authority:
        pem = _file(_beside(path, cluster.certificate_authority), "certificate-authority")
        data = base64.b64encode(pem).decode()
    if data:
        info["certificate-authority-data"] = data
    if cluster.proxy_url:
        info["proxy-url"] = cluster.proxy_url
    for extension in cluster.extensions or ():
        if extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return info


def _impersonation(user: _User, where: str) -> tuple[tuple[str, str], ...]:
    if not user.as_user:
        if user.as_groups or user.as_user_extra or user.as_uid:
            raise InputError(f"{where}: as-groups, as-uid or as-user-extra without as; impersonation needs a user")
        return ()
    headers = [("Impersonate-User", user.as_user)]
    if user.as_uid:
        headers.append(("Impersonate-Uid", user.as_uid))
    headers += [("Impersonate-Group", group) for group in user.as_groups or ()]
    for key, values in (user.as_user_extra or {}).items():
        headers += [(f"Impersonate-Extra-{key}", value) for value in values]
    return tuple(headers)


def _beside(path: str, name: str) -> str:
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


def _stamp(path: str) -> tuple[int, int, int] | None:
    if not path:
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
