"""``mooring extender``: serve an extender, print its configuration, and check one that runs somewhere."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from mooring.api import yaml
from mooring.api.errors import PluginError, UsageError
from mooring.api.text import without_secrets
from mooring.cli.options import Group, Integers, Numbers, plugin_option
from mooring.cli.output import console, emit, output_option, print_table
from mooring.cli.streams import say

if TYPE_CHECKING:
    import ssl

    from mooring.net.extender.conformance import ConformanceReport
    from mooring.net.extender.plugin_server import PluginServer
    from mooring.net.extender.server import ExtenderServer, Served

_PORT = 8888
FIRST_LISTS_S = 60.0


@click.group(cls=Group)
def extender() -> None:
    """Serve, describe and check scheduler extenders.

    \b
    Example:
      mooring extender serve my_ext.py
      mooring extender config my_ext.py
      mooring extender check http://127.0.0.1:8888
    """


def _served(
    file: str | None, plugins: Sequence[str], arguments: str | None, *, is_watched: bool = False
) -> tuple[Served, PluginServer | None]:
    """Load FILE or the plugins of --plugin."""
    if bool(file) == bool(plugins):
        raise UsageError("name either a FILE with an extender or a --plugin to serve as one")
    if file and is_watched:
        raise UsageError("--watch is for a --plugin; an extender in a FILE sees what the scheduler sends")
    from mooring.net.extender.server import load_extender

    try:
        if file:
            return load_extender(file), None
        from mooring.core.config.plugin_loading import find_plugins
        from mooring.net.extender.plugin_server import PluginServer

        found = [plugin for reference in plugins for plugin in find_plugins(reference)]
        server = PluginServer(found, _arguments(arguments, found), is_watched=is_watched)
    except PluginError as error:
        raise UsageError(str(error)) from None
    if server.left_out:
        left_out = ", ".join(server.left_out)
        say(f"warning: an extender cannot do {left_out}; these are left out")
    return server.served(), server


def _arguments(text: str | None, plugins: Sequence[type]) -> dict[str, Any]:
    if text is None:
        return {}
    value = yaml.load(text)
    if not isinstance(value, dict):
        raise UsageError(f"--args: expected an object such as '{{threshold: 5}}', found {text!r}")
    return {str(getattr(plugin, "name", "")): value for plugin in plugins}


_weight_option = click.option("--weight", type=Integers(1), help="Set the weight of its scores.  [default: its own]")
_watch_option = click.option("--watch", is_flag=True, help="Watch the cluster, so that a plugin sees pods.")
_args_option = click.option("--args", "arguments", metavar="YAML", help="Pass these arguments, as in pluginConfig.")


@extender.command()
@click.argument("file", required=False)
@plugin_option
@_args_option
@_watch_option
@click.option("--kubeconfig", default="", metavar="FILE", help="Watch this cluster.  [default: kubectl's]")
@click.option("--context", default="", metavar="NAME", help="Watch the cluster of this context.")
@click.option("--host", default="127.0.0.1", help="Listen here, not on 127.0.0.1; 0.0.0.0: all.")
@click.option(
    "--port",
    default=_PORT,
    show_default=True,
    type=Integers(0, 65535),
    help="Listen on this port; 0: any.",
)
@click.option("--prefix", default="", metavar="PATH", help="Serve under this path, as in urlPrefix.")
@click.option("--tls-cert-file", default="", metavar="FILE", help="Serve HTTPS with this certificate.")
@click.option("--tls-private-key-file", default="", metavar="FILE", help="Use this private key.")
@click.option("--client-ca-file", default="", metavar="FILE", help="Serve only clients with this CA's certificate.")
@click.option(
    "--timeout",
    type=Numbers(0.01),
    help="Give up after N s, not 90% of http_timeout.",
)
@click.option("--max-body-mb", default=256, show_default=True, type=Integers(1), help="Refuse larger requests (413).")
@click.option("--threads", default=16, show_default=True, type=Integers(1, 1024), help="Run N calls at a time.")
@click.option(
    "--logging-format", type=click.Choice(["text", "json"]), default="text", help="Log in this format.  [default: text]"
)
@click.option("--quiet", is_flag=True, help="Log failures only.")
def serve(
    file: str | None,
    plugins: tuple[str, ...],
    arguments: str | None,
    watch: bool,
    kubeconfig: str,
    context: str,
    host: str,
    port: int,
    prefix: str,
    tls_cert_file: str,
    tls_private_key_file: str,
    client_ca_file: str,
    timeout: float | None,
    max_body_mb: int,
    threads: int,
    logging_format: str,
    quiet: bool,
) -> None:
    """Serve the extender in FILE (file.py, file.py:Class or a module), or plugins, until interrupted.

    Any kube-scheduler can call it; see "mooring extender config". /healthz and /metrics are served beside the verbs.

    \b
    Example:
      mooring extender serve my_ext.py --port 8888
      mooring extender serve --plugin my_plugin.py --host 0.0.0.0
      mooring extender serve --plugin my_plugin.py --kubeconfig ~/.kube/config
    """
    from mooring.live import logs
    from mooring.net.extender.http_client import server_context
    from mooring.net.extender.server import ExtenderServer, Limits, timeout_for

    is_watched = bool(watch or kubeconfig or context)
    served, plugin_server = _served(file, plugins, arguments, is_watched=is_watched)
    tls = None
    if tls_cert_file or tls_private_key_file or client_ca_file:
        tls = server_context(tls_cert_file, tls_private_key_file, client_ca_file)
    logs.set_up(logging_format=logging_format)
    if quiet:
        logging.getLogger("mooring").setLevel(logging.WARNING)  # the logger, so that lines are not even made
    timeout_s = timeout_for(served.settings.http_timeout) if timeout is None else timeout
    limits = Limits(max_body_bytes=max_body_mb << 20, handler_timeout_s=timeout_s, threads=threads)
    server = ExtenderServer(served, prefix=prefix, limits=limits)
    with _watched(plugin_server, kubeconfig, context) if is_watched else contextlib.nullcontext():
        _serve(server, host, port, tls, prefix)
    if server.is_busy:  # Python waits for threads at exit, and a blocking handler would keep it from ending
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


@contextlib.contextmanager
def _watched(server: PluginServer | None, kubeconfig: str, context: str) -> Iterator[None]:
    """Pass changes of the cluster to the plugins' server."""
    from mooring.live.informers import ClusterWatch
    from mooring.net.kubeconfig import find_config

    assert server is not None, "only plugins are served with a cluster"
    config = find_config(kubeconfig, context=context)
    say(f"waiting for the objects of {config.server}")
    watch = ClusterWatch(config, server, resources=server.resources)
    watch.start(FIRST_LISTS_S)
    try:
        yield
    finally:
        watch.stop()


def _serve(server: ExtenderServer, host: str, port: int, tls: ssl.SSLContext | None, prefix: str) -> None:
    try:
        real_port = server.start(host, port, tls=tls)
    except OSError as error:
        number = error.errno or 0
        why = os.strerror(number).lower() if number > 0 else (error.strerror or str(error)).lower()
        raise UsageError(f"cannot listen on {host}:{port}: {why}") from None
    done = threading.Event()
    before = {number: signal.signal(number, lambda *_: done.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    url = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{real_port}"
    if prefix.strip("/"):
        url += "/" + prefix.strip("/")
    verbs = ", ".join(server.served.verbs)
    say(f"{server.served.settings.name}: {verbs} at {url} (Ctrl-C ends it)")
    sys.stderr.flush()
    gc.collect()
    gc.freeze()  # loaded objects stay: collections need not traverse them again
    try:
        done.wait()
    finally:
        server.close(server.limits.handler_timeout_s + 1.0)
        for number, handler in before.items():
            signal.signal(number, handler)


@extender.command("config")
@click.argument("file", required=False)
@plugin_option
@_args_option
@_watch_option
@_weight_option
@click.option("--url", default=f"http://127.0.0.1:{_PORT}", show_default=True, help="Set the URL to call.")
@click.option("--ca-file", default="", metavar="FILE", help="Name the CA file, as the scheduler sees it.")
@click.option("--cert-file", default="", metavar="FILE", help="Name the scheduler's client certificate.")
@click.option("--key-file", default="", metavar="FILE", help="Use this private key.")
@click.option("--entry-only", is_flag=True, help="Print only the entry for extenders.")
@output_option("yaml", "json")
def config_(
    file: str | None,
    plugins: tuple[str, ...],
    arguments: str | None,
    watch: bool,
    weight: int | None,
    url: str,
    ca_file: str,
    cert_file: str,
    key_file: str,
    entry_only: bool,
    output: str,
) -> None:
    """Print the KubeSchedulerConfiguration that makes a scheduler call the extender in FILE.

    \b
    Example:
      mooring extender config my_ext.py --url http://my-ext.kube-system:8888 > scheduler.yaml
    """
    from mooring.net.extender.plugin_server import configuration_for, entry_for

    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--url: expected http://… or https://…, found {without_secrets(url)!r}")
    files = {"ca_file": ca_file, "cert_file": cert_file, "key_file": key_file}
    if any(files.values()) and not url.startswith("https://"):
        raise UsageError(f"--url: expected https://… beside a certificate, found {without_secrets(url)!r}")
    if bool(cert_file) != bool(key_file):
        raise UsageError("--cert-file and --key-file go together; only one is given")
    served, _ = _served(file, plugins, arguments, is_watched=watch)
    if weight is not None:
        served.settings.weight = weight
    value: Any = [entry_for(served, url, **files)] if entry_only else configuration_for(served, url, **files)
    emit(value, output, lambda out: None)


@extender.command()
@click.argument("url")
@click.option("--filter-verb", default="filter", show_default=True, help='Call this path; "" for none.')
@click.option("--prioritize-verb", default="prioritize", show_default=True, help='Call this path; "" for none.')
@click.option("--preempt-verb", default="", help="Set the path of preempt to check it.")
@click.option("--node-cache-capable", is_flag=True, help="Send names instead of whole nodes.")
@click.option(
    "--nodes",
    default=5000,
    show_default=True,
    type=Integers(1, 50_000),
    help="Send N nodes in large requests.",
)
@click.option(
    "--calls",
    default=20,
    show_default=True,
    type=Integers(1, 10_000),
    help="Make N calls per measurement.",
)
@click.option("--concurrency", default=16, show_default=True, type=Integers(1, 256), help="Run N calls at a time.")
@click.option("--timeout", default=5.0, show_default=True, type=Numbers(0.01), help="Limit a call to N seconds.")
@click.option("--seed", default=1, show_default=True, help="Set the random seed of pods and nodes.")
@click.option("--ca-file", default="", metavar="FILE", help="Verify its certificate with this CA.")
@click.option("--insecure", is_flag=True, help="Accept any certificate.")
@click.option("--cert-file", default="", metavar="FILE", help="Present this client certificate.")
@click.option("--key-file", default="", metavar="FILE", help="Use this private key.")
@output_option()
def check(
    url: str,
    filter_verb: str,
    prioritize_verb: str,
    preempt_verb: str,
    node_cache_capable: bool,
    nodes: int,
    calls: int,
    concurrency: int,
    timeout: float,
    seed: int,
    ca_file: str,
    insecure: bool,
    cert_file: str,
    key_file: str,
    output: str,
) -> int:
    """Call the extender at URL, with good requests and with bad ones, and report what it does.

    Nothing is bound or evicted: the bind verb is not tried. Exit code 0: nothing is wrong; 1: something is.

    \b
    Example:
      mooring extender check http://127.0.0.1:8888 --node-cache-capable --nodes 1000
    """
    from mooring.core.config.types import Extender, ExtenderTLSConfig
    from mooring.net.extender.conformance import ConformancePlan, Kit
    from mooring.net.extender.http_client import HttpClient, tls_context

    if not url.startswith(("http://", "https://")):
        raise UsageError(f"expected http://… or https://…, found {without_secrets(url)!r}")
    tls = ExtenderTLSConfig(insecure=insecure, ca_file=ca_file, cert_file=cert_file, key_file=key_file)
    plan = ConformancePlan(
        filter_verb=filter_verb,
        prioritize_verb=prioritize_verb,
        preempt_verb=preempt_verb,
        by_name=node_cache_capable,
        nodes=nodes,
        calls=calls,
        concurrency=concurrency,
        timeout_s=timeout,
        seed=seed,
    )
    if not filter_verb and not prioritize_verb and not preempt_verb:
        raise UsageError("no verb is left to check")
    client = HttpClient(timeout, tls_context(Extender(url_prefix=url, tls_config=tls)))
    err = console(stderr=True)
    status = err.status("checking") if err.is_terminal else contextlib.nullcontext()
    try:
        with status as shown:
            kit = Kit(url, plan, client, None if shown is None else shown.update)
            report = kit.run()
    finally:
        client.close()
    emit(_plain(report), output, lambda out: _draw(report, out))
    return 0 if report.passed else 1


def _plain(report: ConformanceReport) -> dict[str, Any]:
    return {
        "url": report.url,
        "passed": report.passed,
        "checks": [
            {"name": c.name, "passed": c.passed, "problems": c.problems, "warnings": c.warnings, "note": c.note}
            for c in report.checks
        ],
        "latencies": report.latencies,
    }


def _draw(report: ConformanceReport, out: Console) -> None:
    for each in report.checks:
        mark = "ok  " if each.passed and not each.warnings else "warn" if each.passed else "FAIL"
        out.print(f"{mark}  {each.name}" + (f"  ({each.note})" if each.note else ""), markup=False)
        for text in each.problems:
            out.print(f"        {text}", markup=False)
        for text in each.warnings:
            out.print(f"        warning: {text}", markup=False)
    if report.latencies:
        out.print()
        print_table(
            out,
            ["verb", "nodes", "calls", "p50 ms", "p90 ms", "p99 ms", "max ms"],
            [
                [
                    row.verb,
                    f"{row.nodes:,}",
                    str(row.calls),
                    *(f"{x:.1f}" for x in (row.p50_ms, row.p90_ms, row.p99_ms, row.max_ms)),
                ]
                for row in report.latencies
            ],
        )
    failed = sum(not each.passed for each in report.checks)
    warned = sum(bool(each.warnings) for each in report.checks)
    out.print(f"\n{len(report.checks)} checks: {failed} failed, {warned} with warnings")
