"""Kubeconfig files as they stand: read, checked for their types, and merged as kubectl merges them.

The first file that names a cluster, user or context wins. Every entry remembers its file, because relative paths are
relative to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from mooring.api import yaml
from mooring.api.errors import InputError, UsageError
from mooring.net.credentials import has_control_characters

MAX_FILE_BYTES = 16 << 20


class _Kebab(msgspec.Struct, rename="kebab"):
    pass


class KubeconfigCluster(_Kebab):
    """A server, and how to verify it."""

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
    """A program that gives credentials."""

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
    """A cluster and a user that go together."""

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


class _File(_Kebab):
    kind: str = ""
    api_version: str = msgspec.field(name="apiVersion", default="")
    current_context: str = ""
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


@dataclass(slots=True)
class KubeconfigFiles:
    """All files as one; each entry comes with the file it stands in."""

    current_context: str = ""
    clusters: dict[str, tuple[KubeconfigCluster, str]] = field(default_factory=dict)
    users: dict[str, tuple[KubeconfigUser, str]] = field(default_factory=dict)
    contexts: dict[str, tuple[KubeconfigContext, str]] = field(default_factory=dict)

    def add(self, path: str) -> None:
        """Read a file; what an earlier file has said stays."""
        file = _read(path)
        self.current_context = self.current_context or file.current_context
        for cluster in file.clusters or ():
            self.clusters.setdefault(cluster.name, (cluster.cluster or KubeconfigCluster(), path))
        for user in file.users or ():
            self.users.setdefault(user.name, (user.user or KubeconfigUser(), path))
        for context in file.contexts or ():
            self.contexts.setdefault(context.name, (context.context or KubeconfigContext(), path))


def check_texts(section: KubeconfigCluster | KubeconfigUser, where: str) -> None:
    """Refuse control characters in names of files, URLs, tokens and users: none of them can carry one."""
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


def _read(path: str) -> _File:
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
