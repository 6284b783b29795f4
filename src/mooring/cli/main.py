"""The frame of the command line: finds the command, runs it, and turns every failure into one clear line."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import click
from click.shell_completion import CompletionItem, get_completion_class

from mooring.api.errors import MooringError, UsageError
from mooring.api.text import hint, printable
from mooring.api.version import __version__
from mooring.cli.options import examples
from mooring.cli.streams import (
    Output,
    OutputLost,
    Termination,
    open_missing_streams,
    warnings_on_stderr,
    watched_output,
)
from mooring.live.logs import PlainFormatter

OK, NO, BAD_USAGE = 0, 1, 2
_INTERRUPTED = 130  # 128 + SIGINT, like a shell
_BROKEN_PIPE = 141  # 128 + SIGPIPE
_TERMINATED = 143  # 128 + SIGTERM
_KUBECTL_OPTIONS = frozenset(("--kubeconfig", "--context", "-n", "--namespace"))


class CommandEntry(NamedTuple):
    """A command and its module, which is imported only when the command runs."""

    name: str
    module: str
    attribute: str
    help: str
    group: str = "Develop"


START, LEARN, EXPLAIN, WHAT_IF, RUN, DEVELOP = "Start", "Learn", "Explain", "What if", "Run", "Develop"

# One line per command. The help shows those whose module is there, under the heading of their group.
COMMANDS: tuple[CommandEntry, ...] = (
    CommandEntry(
        "start", "mooring.cli.start", "start", "Start a cluster in this process and schedule a first pod.", START
    ),
    CommandEntry("learn", "mooring.cli.learn", "learn", "Walk through seven small schedulers.", LEARN),
    CommandEntry(
        "explain", "mooring.cli.explain", "explain", "Explain why a pod goes to its node, or nowhere.", EXPLAIN
    ),
    CommandEntry("queue", "mooring.cli.queue", "queue", "List the pending pods of a running scheduler.", EXPLAIN),
    CommandEntry(
        "lint", "mooring.cli.lint", "lint", "Find mistakes of intent in manifests before they are applied.", EXPLAIN
    ),
    CommandEntry("record", "mooring.cli.record", "record", "Record what happens in a cluster.", EXPLAIN),
    CommandEntry(
        "replay", "mooring.cli.replay", "replay", "List the attempts of a record, and repeat decisions.", EXPLAIN
    ),
    CommandEntry("report", "mooring.cli.report", "report", "Report what happened, in figures.", EXPLAIN),
    CommandEntry("ui", "mooring.cli.ui", "ui", "Show clusters and decisions in the browser.", EXPLAIN),
    CommandEntry("capacity", "mooring.cli.what_if", "capacity", "Count how many more of these pods fit.", WHAT_IF),
    CommandEntry("drill", "mooring.cli.what_if", "drill", "Show what losing each node or zone would do.", WHAT_IF),
    CommandEntry("plan", "mooring.cli.what_if", "plan", "Find the cheapest nodes to add.", WHAT_IF),
    CommandEntry(
        "optimise", "mooring.cli.optimise", "optimise", "Find a better placement and the moves to it.", WHAT_IF
    ),
    CommandEntry("consolidate", "mooring.cli.optimise", "consolidate", "Find nodes that could be removed.", WHAT_IF),
    CommandEntry("deschedule", "mooring.cli.optimise", "deschedule", "Show what a descheduler would evict.", WHAT_IF),
    CommandEntry("admission", "mooring.cli.admission", "admission", "Show whether a queued Job gets quota.", WHAT_IF),
    CommandEntry("diff", "mooring.cli.diff", "diff", "Compare where pods go under two configurations.", WHAT_IF),
    CommandEntry(
        "simulate", "mooring.cli.simulate", "simulate", "Play stories with workloads, in virtual time.", WHAT_IF
    ),
    CommandEntry(
        "autoscale",
        "mooring.cli.autoscale",
        "autoscale",
        "Play a story with autoscaled nodes, and compare policies.",
        WHAT_IF,
    ),
    CommandEntry("import", "mooring.cli.import_", "import_", "Read files of other tools for simulations.", WHAT_IF),
    CommandEntry("sweep", "mooring.cli.sweep", "sweep", "Run a command for many parameters and seeds.", WHAT_IF),
    CommandEntry("tune", "mooring.cli.tune", "tune", "Search for a better configuration for your trace.", WHAT_IF),
    CommandEntry(
        "scenario", "mooring.cli.scenario", "scenario", "Play stories about a cluster, in virtual time.", WHAT_IF
    ),
    CommandEntry("run", "mooring.cli.run", "run", "Run as a scheduler of a cluster.", RUN),
    CommandEntry("shadow", "mooring.cli.shadow", "shadow", "Compare decisions with a live scheduler.", RUN),
    CommandEntry("config", "mooring.cli.config", "config", "Check, convert and show scheduler configurations.", RUN),
    CommandEntry("extender", "mooring.cli.extender", "extender", "Serve, describe and check extenders.", DEVELOP),
    CommandEntry("decide", "mooring.cli.decide", "decide", "Replay recorded cases and print the decisions.", DEVELOP),
    CommandEntry("mcp", "mooring.cli.mcp", "mcp", "Serve questions and answers to programs that speak MCP.", DEVELOP),
    CommandEntry("bench", "mooring.cli.bench", "bench", "Measure mooring's speed and memory.", DEVELOP),
)
_HEADINGS = (START, LEARN, EXPLAIN, WHAT_IF, RUN, DEVELOP)


@dataclass(slots=True)
class CommandSettings:
    """Values of the options before the command; commands find it in ``ctx.obj``."""

    verbosity: int = 0

    @property
    def wants_tracebacks(self) -> bool:
        return self.verbosity >= 2 or os.environ.get("MOORING_DEBUG", "") not in ("", "0")


class LazyGroup(click.Group):
    """A group that imports a command when it is called and lists commands without importing any."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [e.name for e in COMMANDS if _exists(e.module)] + sorted(super().list_commands(ctx))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        entry = _entry(name)
        return super().get_command(ctx, name) if entry is None else _load(entry)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options of the group. kubectl's options may precede the command, as in kubectl itself."""
        return super().parse_args(ctx, _kubectl_options_last(args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and _entry(args[0]) is None and not args[0].startswith("-"):
            raise UsageError(f'no command "{args[0]}"; {hint(args[0], known)}')
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Click prints an empty line at Ctrl-C, which is suppressed when only the reader is gone."""
        try:
            with warnings_on_stderr():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            if isinstance(sys.stdout, Output):
                sys.stdout.check()
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by group, as kubectl does."""
        rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in _HEADINGS}
        for entry in COMMANDS:
            if _exists(entry.module):
                rows.setdefault(entry.group, []).append((entry.name, entry.help))
        for name in sorted(self.commands):
            rows.setdefault(DEVELOP, []).append((name, self.commands[name].get_short_help_str(limit=1000)))
        width = max(len(name) for entries in rows.values() for name, _ in entries)
        for group, entries in rows.items():
            if entries:
                with formatter.section(group):
                    formatter.write_dl([(name.ljust(width), text) for name, text in entries])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        helps = {e.name: e.help for e in COMMANDS}
        items = [
            CompletionItem(name, help=helps.get(name))
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return items + click.Command.shell_complete(self, ctx, incomplete)


def _kubectl_options_last(args: Sequence[str]) -> list[str]:
    rest, moved = list(args), []
    while rest and rest[0].partition("=")[0] in _KUBECTL_OPTIONS:
        length = 1 if "=" in rest[0] else 2
        moved += rest[:length]
        rest = rest[length:]
    end = rest.index("--") if "--" in rest else len(rest)
    return rest[:end] + moved + rest[end:]


def _entry(name: str) -> CommandEntry | None:
    return next((e for e in COMMANDS if e.name == name), None)


def _exists(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _load(entry: CommandEntry) -> click.Command:
    try:
        module = importlib.import_module(entry.module)
    except ModuleNotFoundError as e:
        if e.name == entry.module:
            raise UsageError(f'the command "{entry.name}" is not part of this version ({__version__})') from None
        raise UsageError(f'the command "{entry.name}" needs the package {e.name}, which is not installed') from e
    command: Any = getattr(module, entry.attribute)
    assert isinstance(command, click.Command), f"{entry.module}.{entry.attribute} is not a command"
    return command


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples("mooring start", "mooring explain --help"),
    no_args_is_help=False,
    invoke_without_command=True,
)
@click.option("-v", "--verbose", count=True, help="Print more: -v progress, -vv also tracebacks.")
@click.version_option(__version__, "--version", message="mooring %(version)s")
@click.pass_context
def cli(ctx: click.Context, verbose: int) -> None:
    """A Kubernetes scheduler in Python: kube-scheduler's decisions, with reasons."""
    settings = ctx.ensure_object(CommandSettings)
    settings.verbosity = verbose
    level = {0: logging.WARNING, 1: logging.INFO}.get(verbose, logging.DEBUG)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter())
    logging.basicConfig(level=logging.DEBUG if settings.wants_tracebacks else level, handlers=[handler], force=True)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@cli.command(epilog=examples("mooring completion bash > ~/.local/share/bash-completion/completions/mooring"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script for your shell."""
    script = get_completion_class(shell)
    assert script is not None
    complete = script(cli, {}, "mooring", "_MOORING_COMPLETE")
    # Not .source(): for bash that starts a bash to find out its version, which fails where there is none.
    click.echo(complete.source_template % complete.source_vars())


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line as a process, which ends with its exit code."""
    open_missing_streams()
    termination = Termination()
    code = run(argv)
    gc.freeze()  # at exit Python would search all objects for garbage
    sys.exit(_TERMINATED if termination.has_come and code == _INTERRUPTED else code)


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 (yes, done), 1 (the answer is no, or it failed), 2 (wrong usage or input)."""
    settings = CommandSettings()
    # kubectl runs kubectl-mooring as a plugin.
    name = "kubectl mooring" if os.path.basename(sys.argv[0]) == "kubectl-mooring" else "mooring"
    try:
        with watched_output():
            result = cli.main(args=argv, prog_name=name, standalone_mode=False, obj=settings)
    except OutputLost as e:
        if e.is_unread:
            return _BROKEN_PIPE
        return _fail(f"cannot write to standard output: {e.error.strerror}", e, settings, NO)
    except click.exceptions.Exit as e:
        return e.exit_code
    except click.ClickException as e:
        if type(e).__name__ == "NoArgsIsHelpError":  # a group without its command: print its help
            print(e.format_message(), file=sys.stderr)
            return BAD_USAGE
        return _fail(_usage_line(e), e, settings, BAD_USAGE if isinstance(e, click.UsageError) else NO)
    except UsageError as e:
        return _fail(str(e), e, settings, BAD_USAGE)
    except MooringError as e:
        return _fail(str(e), e, settings, NO)
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    except Exception as e:
        what = f"internal error: {type(e).__name__}: {e}"
        if not settings.wants_tracebacks:
            what += " (run again with -vv for the traceback)"
        return _fail(what, e, settings, NO)
    return result if isinstance(result, int) else OK


def _usage_line(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    ctx = getattr(error, "ctx", None)
    return f"{message}; see {ctx.command_path} --help" if ctx is not None else message


def _fail(message: str, error: BaseException, settings: CommandSettings, code: int) -> int:
    if settings.wants_tracebacks:
        traceback.print_exception(error, file=sys.stderr)
    one_line = " ".join(message.split())
    print("mooring: " + printable(one_line), file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
