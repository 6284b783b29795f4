"""Settings of a scheduler process from flags and the configuration file."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from mooring.api.errors import ApiError, ConfigError, MooringError, PluginError, UsageError
from mooring.core.config.features import Features, check_supported, parse_feature_gates
from mooring.core.config.load import config_from_dict, enabling, load_config_file, unused
from mooring.core.config.plugin_loading import load_installed, load_plugins
from mooring.core.config.types import KubeSchedulerConfiguration, LeaderElectionConfiguration
from mooring.core.config.validation import validate
from mooring.core.config.versions import DEFAULT_VERSION, VERSIONS, KubernetesVersion, nearest_version, parse_version
from mooring.core.engine.in_tree import in_tree_registry
from mooring.core.framework.registry import Registry
from mooring.live.flags import Flags, openssl_ciphers
from mooring.live.leader_election import LeaderElectionSettings
from mooring.live.logs import get_logger
from mooring.live.serving_auth import TlsFiles
from mooring.net.kubeconfig import ClientConfig, in_cluster_config, load_kubeconfig, scheduler_config
from mooring.net.rest import RestClient, server_version, user_agent
from mooring.net.tls import self_signed

PAIR_NAME = "kube-scheduler"


@dataclass(slots=True)
class Settings:
    """Validated settings of a process; creating them finds every mistake."""

    flags: Flags
    features: Features
    config: KubeSchedulerConfiguration
    registry: Registry
    warnings: tuple[str, ...]

    @property
    def leader_election(self) -> LeaderElectionSettings | None:
        """None: there is no election, this process simply schedules."""
        wanted = self.config.leader_election
        if not wanted.leader_elect:
            return None
        return LeaderElectionSettings(
            wanted.lease_duration,
            wanted.renew_deadline,
            wanted.retry_period,
            wanted.resource_namespace,
            wanted.resource_name,
        )

    def client_config(self) -> ClientConfig:
        return scheduler_config(self.config.client_connection.kubeconfig, master=self.flags.text("master"))

    def review_config(self, flag: str) -> ClientConfig | None:
        """Return the API server that authenticates clients: from the given file, or the cluster that we run in or
        schedule for.

        Outside of a cluster and without a file, upstream treats all clients as anonymous; so does an empty flag here.
        """
        path = self.flags.text(flag)
        if path:
            return load_kubeconfig([path])
        if flag in self.flags.given:
            return None
        try:
            return in_cluster_config()
        except UsageError:
            return self.client_config() if self.config.client_connection.kubeconfig else None

    def tls_files(self) -> TlsFiles:
        flags = self.flags
        certificate, key = flags.text("tls-cert-file"), flags.text("tls-private-key-file")
        if not certificate and not key and flags.text("cert-dir"):
            certificate, key = _pair_in(flags.text("cert-dir"), flags.text("bind-address"))
        return TlsFiles(
            certificate,
            key,
            flags.text("client-ca-file"),
            flags.text("tls-min-version"),
            openssl_ciphers(flags.words("tls-cipher-suites")),
        )


def asked_version(flags: Flags) -> KubernetesVersion | None:
    """Return the Kubernetes version that the flags ask for; None if the cluster's version is to be used."""
    for flag in ("kubernetes-version", "emulated-version"):
        if flags.text(flag):
            return parse_version(flags.text(flag).removeprefix("kube="), f"--{flag}")
    return None


def load_settings(flags: Flags, version: KubernetesVersion | None = None) -> Settings:
    """Read the configuration file, or the flags that replace it.

    ``version`` is the cluster's; flags take precedence over it. While the version is unknown, any settings will do:
    they are replaced once the cluster's version is known.
    """
    asked = asked_version(flags) or version
    if asked is not None:
        return _load_settings(flags, asked)
    try:
        return _load_settings(flags, DEFAULT_VERSION)
    except (UsageError, ConfigError):
        for other in VERSIONS.values():
            with contextlib.suppress(UsageError, ConfigError):
                return _load_settings(flags, other)
        raise


def _load_settings(flags: Flags, version: KubernetesVersion) -> Settings:
    features = parse_feature_gates([flags.text("feature-gates")], version)
    check_supported(features)
    registry, own, problems = load_registry(flags.words("plugin"))
    config, warnings = load_configuration(flags, features, own)
    settings = Settings(flags, features, config, registry, (*warnings, *problems))
    _ = settings.leader_election  # incompatible durations are rejected here
    return settings


def load_registry(references: Iterable[str]) -> tuple[Registry, list[str], list[str]]:
    """Return all plugins (mooring's, named and installed ones), the names of the named ones, and errors."""
    registry = in_tree_registry()
    try:
        own = load_plugins(references, registry)
    except PluginError as error:
        raise UsageError(f"--plugin: {error}") from None
    return registry, own, load_installed(registry)


def load_configuration(
    flags: Flags, features: Features, own: Sequence[str] = ()
) -> tuple[KubeSchedulerConfiguration, tuple[str, ...]]:
    """Return the configuration and warnings for its author. Also called to read a changed file again.

    The user's ``own`` plugins are enabled where no file says which plugins are.
    """
    path = flags.text("config")
    warnings: tuple[str, ...] = ()
    if path:
        loaded = load_config_file(path, features)
        config = loaded.config
        warnings = (*loaded.warnings, *unused(config, own, path), *_overruled(config, flags))
        config = _connected(config, flags)
    else:
        config = _of_flags(config_from_dict(enabling(None, own), features), flags)
    config = replace(config, leader_election=_elect(config.leader_election, flags))
    problems = validate(config, features)
    if problems:
        raise ConfigError(*problems)
    return config, warnings


def _overruled(config: KubeSchedulerConfiguration, flags: Flags) -> list[str]:
    in_file, given = config.client_connection.kubeconfig, flags.text("kubeconfig")
    if not given or not in_file or given == in_file:
        return []
    return [f"--kubeconfig={given} is ignored: the configuration file names {in_file} in clientConnection.kubeconfig"]


def _connected(config: KubeSchedulerConfiguration, flags: Flags) -> KubeSchedulerConfiguration:
    """Apply the kubeconfig flag to a file that names none; upstream ignores the flag, and looks for a cluster."""
    connection = config.client_connection
    if connection.kubeconfig or not flags.text("kubeconfig"):
        return config
    return replace(config, client_connection=replace(connection, kubeconfig=flags.text("kubeconfig")))


def _of_flags(config: KubeSchedulerConfiguration, flags: Flags) -> KubeSchedulerConfiguration:
    """Apply the deprecated flags, which count only without a configuration file."""
    connection = replace(
        config.client_connection,
        kubeconfig=flags.text("kubeconfig"),
        qps=flags.fraction("kube-api-qps"),
        burst=flags.number("kube-api-burst"),
        content_type=flags.text("kube-api-content-type"),
    )
    return replace(
        config,
        client_connection=connection,
        enable_profiling=flags.switch("profiling"),
        enable_contention_profiling=flags.switch("contention-profiling"),
    )


def _elect(config: LeaderElectionConfiguration, flags: Flags) -> LeaderElectionConfiguration:
    """Apply the leader election flags, which override the file."""

    def given(name: str) -> bool:
        return name in flags.given

    if given("leader-elect"):
        config = replace(config, leader_elect=flags.switch("leader-elect"))
    if given("leader-elect-lease-duration"):
        config = replace(config, lease_duration=flags.seconds("leader-elect-lease-duration"))
    if given("leader-elect-renew-deadline"):
        config = replace(config, renew_deadline=flags.seconds("leader-elect-renew-deadline"))
    if given("leader-elect-retry-period"):
        config = replace(config, retry_period=flags.seconds("leader-elect-retry-period"))
    if given("leader-elect-resource-name"):
        config = replace(config, resource_name=flags.text("leader-elect-resource-name"))
    if given("leader-elect-resource-namespace"):
        config = replace(config, resource_namespace=flags.text("leader-elect-resource-namespace"))
    return config


def _pair_in(directory: str, address: str) -> tuple[str, str]:
    """Return the certificate and key of a directory, and create missing ones, as upstream does."""
    certificate = os.path.join(directory, f"{PAIR_NAME}.crt")
    key = os.path.join(directory, f"{PAIR_NAME}.key")
    if os.path.exists(certificate) and os.path.exists(key):
        return certificate, key
    hosts = ["localhost", "127.0.0.1"] + ([address] if address not in ("0.0.0.0", "::", "127.0.0.1") else [])
    made = self_signed(*hosts)
    try:
        os.makedirs(directory, exist_ok=True)
        for path, content, mode in ((certificate, made[0], 0o644), (key, made[1], 0o600)):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
                file.write(content)
    except OSError as error:
        raise UsageError(f"--cert-dir {directory}: {error.strerror or error}") from None
    return certificate, key


# --------------------------------------------------------------------------------------------------------------------
# Live reload: the configuration file is read again when it changes, or on SIGHUP.
#
# An unusable file is logged, and the current configuration stays in effect.

log = get_logger("mooring.live")

LOOK_EVERY_S = 5.0
_AT_START_ONLY = ("leader_election", "client_connection", "pod_initial_backoff_seconds", "pod_max_backoff_seconds")


class ConfigReloader:
    """Watches one file. ``apply`` activates the new configuration, or raises."""

    def __init__(
        self,
        path: str,
        load: Callable[[], KubeSchedulerConfiguration],
        apply: Callable[[KubeSchedulerConfiguration], None],
        in_force: KubeSchedulerConfiguration,
    ) -> None:
        self._path = Path(path)
        self._load = load
        self._apply = apply
        self._at_start = self._in_force = in_force
        self._seen = self._fingerprint()
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Read the file again soon, even if it has not changed."""
        self._asked.set()

    async def run(self, every_s: float = LOOK_EVERY_S) -> None:
        """Check the file periodically, until cancelled."""
        while True:
            is_asked = await self._wait(every_s)
            found = self._fingerprint()
            if is_asked or (found is not None and found != self._seen):
                self._seen = found
                self.reload()

    async def _wait(self, every_s: float) -> bool:
        try:
            async with asyncio.timeout(every_s):
                await self._asked.wait()
        except TimeoutError:
            return False
        self._asked.clear()
        return True

    def reload(self) -> bool:
        """Read and apply the file now; false if the old configuration stays in effect."""
        try:
            config = self._load()
            self._apply(config)
        except MooringError as error:
            log.error(error, "The configuration is invalid; keeping the old one")
            return False
        for name in _AT_START_ONLY:
            value = getattr(config, name)
            if value not in (getattr(self._at_start, name), getattr(self._in_force, name)):
                log.warning("The change takes effect after a restart", field=name)
        self._in_force = config
        log.info("The configuration was reloaded", path=str(self._path))
        return True

    def _fingerprint(self) -> bytes | None:
        try:
            return hashlib.sha256(self._path.read_bytes()).digest()
        except OSError:
            return None  # possibly just being replaced


# --------------------------------------------------------------------------------------------------------------------
# The Kubernetes version to emulate: the API server's, found out before anything is built.

TIMEOUT_S = 10.0


async def for_cluster(settings: Settings, timeout_s: float = TIMEOUT_S) -> Settings:
    """Return the settings for the cluster's version, or the nearest; unchanged if the flags ask for a version.

    If the server does not answer in time, the default version is used, with a warning.
    """
    if asked_version(settings.flags) is not None:
        return settings
    client = RestClient(settings.client_config(), agent=user_agent("mooring", "scheduler"))
    try:
        async with asyncio.timeout(timeout_s):
            release = (await server_version(client)).release
    except (ApiError, OSError, TimeoutError) as error:
        log.warning(
            "The API server does not report its version; set --kubernetes-version",
            deciding_as=str(settings.features.version),
            error=str(error) or "no answer",
        )
        return settings
    finally:
        await client.close()
    version, warning = nearest_version(release)
    if warning:
        log.warning(f"{warning[0].upper()}{warning[1:]}")
    return settings if version is settings.features.version else load_settings(settings.flags, version)
