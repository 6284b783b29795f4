"""The command line of ``mooring run``: kube-scheduler's flags, read as kube-scheduler reads them.

A flag works as upstream, or is accepted without effect (a log line says so), or is rejected with a reason unless its
value is the default anyway. Nothing is silently ignored.

| | kube-scheduler | here |
|---|---|---|
| ``--bind-address`` | 0.0.0.0 | 127.0.0.1: nothing listens beyond this machine unless told to |
| startup failure, bad flags | exit code 1 | exit code 2 |
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mooring.api.errors import ParseError, UsageError
from mooring.api.text import nearest
from mooring.api.times import parse_duration

STRING, BOOL, INT, FLOAT, DURATION, LIST, PAIRS = (
    "string",
    "bool",
    "int",
    "float",
    "duration",
    "strings",
    "key=value,…",
)


@dataclass(frozen=True, slots=True)
class Flag:
    name: str
    kind: str = STRING
    default: str = ""
    help: str = ""
    no_effect: str = ""  # why it has no effect here
    refused: str = ""  # why it is rejected, unless it has its default
    same: tuple[str, ...] = ()  # values equivalent to the default


_PYTHON_SERVES = "the endpoints speak HTTP/1.1"
_REQUEST_HEADER = "front proxies are not trusted here; use tokens or client certificates"

GROUPS: dict[str, tuple[Flag, ...]] = {
    "Misc": (
        Flag("config", help="Read this KubeSchedulerConfiguration; it is reloaded when it changes."),
        Flag("master", help="Use this API server address, not the kubeconfig's."),
        Flag("write-config-to", help="Write the configuration to this file and exit."),
    ),
    "Secure serving": (
        Flag("bind-address", default="127.0.0.1", help="Where to listen; 0.0.0.0 for all addresses."),
        Flag("secure-port", INT, "10259", "Serve HTTPS on this port; 0 disables it."),
        Flag("cert-dir", help="Find kube-scheduler.crt and kube-scheduler.key in this directory."),
        Flag("tls-cert-file", help="Serve this certificate; by default one is made for localhost."),
        Flag("tls-private-key-file", help="Use this private key of the certificate."),
        Flag("tls-cipher-suites", LIST, help="Allow these TLS 1.2 cipher suites, by Go's or OpenSSL's names."),
        Flag("tls-min-version", help="Require at least VersionTLS12 or VersionTLS13."),
        Flag("tls-sni-cert-key", LIST, refused="only one certificate can be shown: use --tls-cert-file"),
        Flag("tls-curve-preferences", LIST, refused="the curves are OpenSSL's defaults"),
        Flag("disable-http2-serving", BOOL, "false", no_effect=_PYTHON_SERVES),
        Flag("http2-max-streams-per-connection", INT, "0", no_effect=_PYTHON_SERVES),
        Flag("permit-address-sharing", BOOL, "false", refused="addresses are not shared"),
        Flag("permit-port-sharing", BOOL, "false", refused="ports are not shared"),
    ),
    "Authentication": (
        Flag("authentication-kubeconfig", help="Authenticate clients with this cluster (TokenReview)."),
        Flag("authentication-skip-lookup", BOOL, "false", "Do not look up the cluster's client CA."),
        Flag("authentication-token-webhook-cache-ttl", DURATION, "10s", "Cache answers for this long."),
        Flag("authentication-tolerate-lookup-failure", BOOL, "true", no_effect="a failed lookup is always tolerated"),
        Flag("client-ca-file", help="Trust client certificates of this CA."),
        Flag("requestheader-allowed-names", LIST, refused=_REQUEST_HEADER),
        Flag("requestheader-client-ca-file", refused=_REQUEST_HEADER),
        Flag("requestheader-extra-headers-prefix", LIST, "x-remote-extra-", no_effect=_REQUEST_HEADER),
        Flag("requestheader-group-headers", LIST, "x-remote-group", no_effect=_REQUEST_HEADER),
        Flag("requestheader-uid-headers", LIST, no_effect=_REQUEST_HEADER),
        Flag("requestheader-username-headers", LIST, "x-remote-user", no_effect=_REQUEST_HEADER),
    ),
    "Authorization": (
        Flag("authorization-kubeconfig", help="Authorise clients with this cluster (SubjectAccessReview)."),
        Flag("authorization-always-allow-paths", LIST, "/healthz,/readyz,/livez", "Leave these paths open to all."),
        Flag("authorization-webhook-cache-authorized-ttl", DURATION, "10s", "Cache positive answers for this long."),
        Flag("authorization-webhook-cache-unauthorized-ttl", DURATION, "10s", "Cache negative answers for this long."),
    ),
    "Without a configuration file": (
        Flag("kubeconfig", help="Use this cluster and identity; not needed in a cluster."),
        Flag("kube-api-qps", FLOAT, "50", "Send at most this many requests per second."),
        Flag("kube-api-burst", INT, "100", "Allow bursts of this many requests."),
        Flag("kube-api-content-type", default="application/vnd.kubernetes.protobuf", no_effect="requests are JSON"),
        Flag("profiling", BOOL, "true", "Serve /debug/flags/v."),
        Flag("contention-profiling", BOOL, "true", no_effect="there are no locks to profile"),
        Flag(
            "pod-max-in-unschedulable-pods-duration",
            DURATION,
            "5m0s",
            "After this time a waiting pod is tried again, whatever happens (also with --config).",
        ),
    ),
    "Leader election (each overrides the configuration file)": (
        Flag("leader-elect", BOOL, "true", "Schedule only while holding the lease."),
        Flag("leader-elect-lease-duration", DURATION, "15s", "Wait this long for a silent leader."),
        Flag("leader-elect-renew-deadline", DURATION, "10s", "Let a leader try to renew for this long."),
        Flag("leader-elect-retry-period", DURATION, "2s", "Wait this long between tries."),
        Flag("leader-elect-resource-lock", default="leases", refused="only leases are supported"),
        Flag("leader-elect-resource-name", default="kube-scheduler", help="The lease's name."),
        Flag("leader-elect-resource-namespace", default="kube-system", help="The lease's namespace."),
    ),
    "Features": (
        Flag("feature-gates", PAIRS, help="Name=true|false,…"),
        Flag("emulated-version", LIST, help="Set --kubernetes-version as kube-scheduler does: kube=1.36."),
        Flag("min-compatibility-version", LIST, no_effect="every gate has its version's default"),
    ),
    "Metrics": (
        Flag("disabled-metrics", LIST, help="Disable these metrics."),
        Flag("allow-metric-labels", LIST, refused="label values are not limited here"),
        Flag("allow-metric-labels-manifest", refused="label values are not limited here"),
        Flag("show-hidden-metrics-for-version", refused="no metric is hidden"),
    ),
    "Logs": (
        Flag("logging-format", default="text", help="text or json."),
        Flag("v", INT, "0", "Set the log verbosity, 0 to 10; 2 logs where pods go."),
        Flag("vmodule", refused="verbosity cannot be set per file: use -v"),
        Flag("log-flush-frequency", DURATION, "5s", no_effect="every line is written immediately"),
        Flag("log-json-info-buffer-size", default="0", no_effect="every line is written immediately"),
        Flag("log-text-info-buffer-size", default="0", no_effect="every line is written immediately"),
        Flag("log-json-split-stream", BOOL, "false", refused="everything goes to standard error"),
        Flag("log-text-split-stream", BOOL, "false", refused="everything goes to standard error"),
    ),
    "mooring's own": (
        Flag(
            "kubernetes-version",
            help="Decide as kube-scheduler of this version, 1.34 to 1.38. Without it, as the cluster's or the nearest.",
        ),
        Flag("plugin", LIST, help="Load a plugin: module:Class, FILE.py or FILE.py:Class; repeatable."),
        Flag("plugin-timeout", DURATION, "10s", "Limit each call of your plugins to this long; 0s: no limit."),
        Flag(
            "attempt-timeout",
            DURATION,
            "15s",
            "How long one attempt to find a node for a pod may take; 0s for no limit.",
        ),
        Flag("decision-log", help="Write decisions to this file, one JSON object per line."),
        Flag("decision-log-sample", FLOAT, "1", "Write this share of decisions, 0 to 1."),
        Flag(
            "decision-log-max-size", INT, "100", "Start a new file after this many megabytes; three old ones are kept."
        ),
        Flag(
            "tracing-config-file",
            help="Export traces of attempts to OpenTelemetry: a TracingConfiguration with endpoint and "
            "samplingRatePerMillion.",
        ),
        Flag("record", help="Write a record for mooring replay to FILE; FILE.1 to FILE.3 are older."),
        Flag("record-max-size", INT, "400", "Limit the record's files to this many megabytes in all."),
        Flag("record-max-age", DURATION, "72h", "Keep records for this long."),
        Flag(
            "record-annotations", BOOL, "false", "Record the values of all annotations, not only those that are read."
        ),
        Flag("ui", BOOL, "false", "Serve the page of mooring ui at /ui/, read-only, to authorised users."),
    ),
    "Global": (
        Flag("help", BOOL, "false", "Print this help and exit."),
        Flag("version", default="false", help="Print the version and exit."),
    ),
}
FLAGS: dict[str, Flag] = {flag.name: flag for group in GROUPS.values() for flag in group}
_SHORT = {"h": "help", "v": "v"}
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


@dataclass(slots=True)
class Flags:
    """The values of all flags as text, and which of them were given."""

    values: dict[str, str] = field(default_factory=lambda: {name: flag.default for name, flag in FLAGS.items()})
    given: set[str] = field(default_factory=set)

    def text(self, name: str) -> str:
        return self.values[name]

    def switch(self, name: str) -> bool:
        return self.values[name] in _TRUE

    def number(self, name: str) -> int:
        return int(self.values[name])

    def fraction(self, name: str) -> float:
        return float(self.values[name])

    def seconds(self, name: str) -> float:
        return parse_duration(self.values[name])

    def words(self, name: str) -> list[str]:
        return [part for part in self.values[name].split(",") if part]

    def shown(self) -> dict[str, str]:
        """Return the flags as /flagz shows them."""
        return {name: f"[{value}]" if FLAGS[name].kind == LIST else value for name, value in self.values.items()}

    def without_effect(self) -> Iterable[str]:
        """Yield a line for each given flag that has no effect."""
        for name in sorted(self.given):
            flag = FLAGS[name]
            if flag.no_effect and self.values[name] != flag.default:
                yield f"--{name} has no effect: {flag.no_effect}"


def parse_flags(arguments: Sequence[str]) -> Flags:
    """Read arguments as pflag does: --name=value, --name value, --switch, --switch=false; a mistake is a UsageError."""
    flags = Flags()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = _name_of(word)
        flag = FLAGS.get(name)
        if flag is None:
            raise UsageError(_unknown(name))
        if not equals:
            if flag.kind == BOOL or name == "version":
                value = "true"
            elif rest:
                value = rest.pop(0)
            else:
                raise UsageError(f"flag needs an argument: --{name}")
        _check(flag, value)
        if flag.kind in (LIST, PAIRS) and name in flags.given and flags.values[name]:
            value = f"{flags.values[name]},{value}"
        flags.values[name] = value
        flags.given.add(name)
    return flags


def _name_of(word: str) -> tuple[str, bool, str]:
    if word.startswith("--") and len(word) > 2:
        name, equals, value = word[2:].partition("=")
        return name.replace("_", "-"), bool(equals), value
    if len(word) > 1 and word[0] == "-" and word[1] in _SHORT:
        value = word[2:].removeprefix("=")
        return _SHORT[word[1]], bool(word[2:]), value
    if word.startswith("-"):
        raise UsageError(f"unknown shorthand flag: {word[1:2]!r} in {word}; see mooring run --help")
    raise UsageError(f"{word!r}: arguments without a flag are not taken; see mooring run --help")


def _unknown(name: str) -> str:
    near = nearest(name, FLAGS)
    hint = f"; did you mean --{near}?" if near else "; see mooring run --help"
    return f"unknown flag: --{name}{hint}"


def _check(flag: Flag, value: str) -> None:
    if flag.refused and not _is_default(flag, value):
        raise UsageError(f"--{flag.name}={value} is not supported: {flag.refused}")
    problem = ""
    if flag.kind == BOOL and value not in _TRUE | _FALSE:
        problem = "write true or false"
    elif flag.kind == INT and not value.removeprefix("-").isdecimal():
        problem = "write a whole number"
    elif flag.kind == FLOAT:
        try:
            problem = "write a number" if math.isnan(float(value)) else ""
        except ValueError:
            problem = "write a number"
    elif flag.kind == DURATION:
        try:
            parse_duration(value)
        except ParseError:
            problem = "write a duration such as 15s or 5m0s"
    if flag.name == "secure-port" and not problem and not 0 <= int(value) <= 65535:
        problem = "write a number from 0 to 65535"
    if problem:
        raise UsageError(f'invalid argument "{value}" for --{flag.name}: {problem}')


def _is_default(flag: Flag, value: str) -> bool:
    if flag.kind == BOOL:
        return (value in _TRUE) == (flag.default in _TRUE) and value in _TRUE | _FALSE
    return value == flag.default or value in flag.same


def help_text(example: str, width: int = 110) -> str:
    """Render all flags by group, with their defaults."""
    lines = [
        "Usage: mooring run [flags]",
        "",
        "Run as a scheduler of a cluster: kube-scheduler's configuration, flags, events, metrics and endpoints.",
        "",
        example,
    ]
    for title, group in GROUPS.items():
        lines += ["", f"{title}:"]
        for flag in group:
            if flag.refused:
                continue
            kind = "" if flag.kind == BOOL else f" {flag.kind}"
            head = f"  {'-v, ' if flag.name == 'v' else ''}--{flag.name}{kind}"
            text = flag.help or f"Accepted, without effect: {flag.no_effect}."
            if flag.default and flag.default != "false":
                text += f" (default {flag.default})"
            wrapped = textwrap.wrap(text, width - 46)
            if len(head) > 44:
                lines.append(head)
            else:
                lines.append(f"{head:<46}{wrapped.pop(0)}")
            lines += [" " * 46 + line for line in wrapped]
    refused = ", ".join(f"--{flag.name}" for flag in FLAGS.values() if flag.refused)
    lines += ["", *textwrap.wrap(f"Not supported: {refused}.", width, break_on_hyphens=False)]
    return "\n".join(lines)


def openssl_ciphers(names: Sequence[str]) -> str:
    """Translate Go's names of cipher suites to OpenSSL's."""
    return ":".join(filter(None, (_openssl_name(name) for name in names)))


def _openssl_name(name: str) -> str:
    if not name.startswith("TLS_"):
        return name
    if "_WITH_" not in name:
        return ""  # TLS 1.3 suites cannot be chosen, as in Go
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC", "")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305")
    prefix = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
    return prefix + cipher.replace("_", "-")
