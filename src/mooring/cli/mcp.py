"""``mooring mcp``: serve questions about one cluster to programs that speak the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from mooring.api import yaml
from mooring.api.core import Pod
from mooring.api.errors import InputError, UsageError
from mooring.cli.options import asked_scheduler, scheduler_options
from mooring.cli.output import plain

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from pydantic import ValidationError

    from mooring.ask.scheduler import Scheduler


@click.command()
@scheduler_options
def mcp(**asked: Any) -> int:
    """Serve questions about one cluster over MCP, on standard input and output.

    The questions are: which pods are pending and why, explain a pod, how many more fit, what a loss would do, which
    nodes to add, what if something changed, which pods another configuration would move, and which mistakes are in a
    manifest. All of them only read. A live cluster is read
    again for each question.

    \b
    Example:
      mooring mcp --cluster dump.json
      mooring mcp --kubeconfig ~/.kube/config --context staging
    """

    first = asked_scheduler("mcp", "json", **asked)  # mistakes in the options are reported now, not with the first call
    is_dump = bool(asked["dumps"])

    def find() -> Scheduler:
        return first if is_dump else asked_scheduler("mcp", "json", **asked)

    make_server(find).run("stdio")
    return 0


# --------------------------------------------------------------------------------------------------------------------
# The tools of the Model Context Protocol. All of them only read.
#
# An answer is the output of the command of the same name with ``-o json``, with long lists cut: a program that asks
# about 5,000 nodes gets the first ones and their number. A pod is named, or given as the text of a manifest; no path
# from a client is ever read.

MAX_ITEMS = 30  # of any list or mapping of an answer
MAX_TEXT = 2_000  # characters of any text
MAX_MANIFEST = 100_000

Find = Callable[[], "Scheduler"]


class Tools:
    """The tools, which use the scheduler that ``find`` returns: a new one for each question about a live cluster."""

    def __init__(self, find: Find) -> None:
        self._find = find

    def pending(self) -> dict[str, Any]:
        """List the pods that have no node, and say of each why, in kube-scheduler's words."""
        scheduler = self._find()
        waiting = scheduler.cluster.pending
        return _bounded(
            {
                "cluster": repr(scheduler.cluster),
                "pending": [
                    {"pod": pod.key, "message": scheduler.decide(pod).message or "it could be placed now"}
                    for pod in waiting[:MAX_ITEMS]
                ],
                "pendingInAll": len(waiting),
            }
        )

    def explain(self, pod: str) -> dict[str, Any]:
        """Say where a pod goes and why, or why it fits nowhere and which smallest changes would help.

        ``pod`` is namespace/name of a pod of the cluster, or a manifest (YAML or JSON) of a pod or a workload.
        """
        scheduler = self._find()
        return _bounded(scheduler.explain(_asked(scheduler, pod)).to_dict())

    def capacity(self, pod: str, copies: int | None = None) -> dict[str, Any]:
        """Say how many more copies of a pod fit, on which nodes, and what stops the next one.

        ``pod`` is namespace/name of a pod of the cluster, or a manifest. ``copies``: ask only whether this many fit.
        """
        from mooring.ask.capacity import capacity_of

        scheduler = self._find()
        return _bounded(capacity_of(scheduler, _asked(scheduler, pod), copies).to_dict())

    def drill(self, lose: str = "node") -> dict[str, Any]:
        """Say what would be lost with each node, zone or value of a label; the worst loss comes first.

        ``lose`` is ``node``, ``zone``, ``label=KEY``, or the name of one node.
        """
        from mooring.ask.drill import drill_with

        found = drill_with(self._find(), lose)
        losses = [loss.to_dict() for loss in found.losses[:MAX_ITEMS]]
        return _bounded({"isSafe": found.is_safe, "tried": len(found.losses), "losses": losses})

    def plan(self) -> dict[str, Any]:
        """Find the cheapest nodes to add so that all pending pods fit; each node of a kind that there is costs 1."""
        from mooring.ask.plan import Offer, plan_with

        return _bounded(plan_with(self._find(), Offer()).to_dict())

    def lint(self, manifest: str) -> dict[str, Any]:
        """Find mistakes of intent in manifests (YAML or JSON) before they are applied to the cluster."""
        from mooring.ask.lint.lint import lint

        scheduler = self._find()
        return _bounded(lint(_bytes(manifest, "manifest"), cluster=scheduler.cluster, **scheduler.settings()).to_dict())

    def what_if(
        self,
        pod: str,
        cordon: list[str] | None = None,
        uncordon: list[str] | None = None,
        remove: list[str] | None = None,
        add_nodes_like: str | None = None,
        copies: int = 1,
    ) -> dict[str, Any]:
        """Explain a pod on a copy of the cluster after some changes. The cluster itself stays as it is.

        ``remove`` takes references such as ``node/worker-3`` or ``pod/shop/web-7``; ``add_nodes_like`` is the name of
        a node of which ``copies`` are added.
        """
        if not 1 <= copies <= 1_000:
            raise InputError(f"copies: {copies}; expected a number from 1 to 1000")
        scheduler = self._find()
        asked = _asked(scheduler, pod)
        with scheduler.cluster.fork() as changed:
            changed.cordon(*dict.fromkeys(cordon or ()))
            changed.uncordon(*dict.fromkeys(uncordon or ()))
            for reference in dict.fromkeys(remove or ()):
                changed.remove(reference)
            if add_nodes_like is not None:
                changed.add(changed.get(f"node/{add_nodes_like}"), copies=copies)
            return _bounded(scheduler.on(changed).explain(asked).to_dict())

    def diff(
        self, config: str | None = None, kubernetes_version: str | None = None, all_pods: bool = False
    ) -> dict[str, Any]:
        """Say which pods would go elsewhere, and why, under another configuration or another version of Kubernetes.

        ``config`` is the text of a KubeSchedulerConfiguration (YAML or JSON), whose extenders are not called;
        ``kubernetes_version`` is such as ``1.37``. With ``all_pods`` every pod is placed again, not only pending ones.
        """
        from mooring.ask.diff import diff

        if config is None and kubernetes_version is None:
            raise InputError("nothing to compare; expected config or kubernetes_version")
        before = self._find()
        wanted = None if config is None else _manifest(config, "config", "a KubeSchedulerConfiguration")
        after = before.under(wanted, kubernetes_version=kubernetes_version)
        return _bounded(diff(before, after, "all" if all_pods else "pending").to_dict())


def make_server(find: Find) -> MCPServer[Any]:
    """Return an MCP server with these tools."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.server.mcpserver.tools import Tool
        from mcp.types import ToolAnnotations
        from pydantic import ValidationError
    except ImportError:
        raise UsageError("serving MCP needs the package mcp: pip install 'mooring[mcp]'") from None
    from functools import wraps

    import anyio.to_thread

    from mooring.api.errors import MooringError
    from mooring.api.text import hint
    from mooring.api.version import __version__

    class McpServer(MCPServer[Any]):
        """Rejects unknown arguments: without them it would be another question."""

        async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            expected = expects.get(name, arguments)
            for unknown in (argument for argument in arguments if argument not in expected):
                raise ToolError(_cut(f"{name}: no argument {unknown}; {hint(unknown, expected)}"))
            try:
                return await super().call_tool(name, arguments, context)
            except ToolError as error:
                if isinstance(error.__cause__, ValidationError):  # its own text has many lines, and names a web site
                    raise ToolError(_cut(_wrong_argument(name, error.__cause__))) from None
                raise

    def answering(question: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
        @wraps(question)
        async def answer(**arguments: Any) -> dict[str, Any]:
            try:
                return await anyio.to_thread.run_sync(lambda: question(**arguments))
            except MooringError as error:
                raise ToolError(_cut(str(error))) from None

        return answer

    tools = Tools(find)
    questions = (
        tools.pending,
        tools.explain,
        tools.capacity,
        tools.drill,
        tools.plan,
        tools.what_if,
        tools.diff,
        tools.lint,
    )
    only_reads = ToolAnnotations(read_only_hint=True)
    made = [Tool.from_function(answering(question), annotations=only_reads) for question in questions]
    for tool in made:
        tool.parameters["additionalProperties"] = False
    expects = {tool.name: list(tool.parameters["properties"]) for tool in made}
    return McpServer(
        "mooring",
        version=__version__,
        instructions="Questions about the scheduling of one Kubernetes cluster, answered as kube-scheduler decides. "
        "Everything only reads.",
        log_level="ERROR",
        tools=made,
    )


def _wrong_argument(tool: str, error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    found = "" if first["type"] == "missing" else f", found {_cut(repr(first['input']))}"
    return f"{tool}: {place}: {first['msg'].lower()}{found}"


def _asked(scheduler: Scheduler, pod: str) -> Pod | Mapping[str, Any]:
    """Return the pod of a text. Unlike on the command line, it is never a path."""
    if "\n" in pod or pod.lstrip().startswith("{"):
        return _manifest(pod, "pod", "a pod or a workload")
    key = pod if "/" in pod else f"{scheduler.cluster.namespace}/{pod}"
    known = scheduler.cluster.find_pod(key)
    if known is None:
        raise InputError(f"{pod}: no such pod in the cluster; expected namespace/name, or a manifest")
    return known


def _manifest(text: str, name: str, what: str) -> Mapping[str, Any]:
    manifest = yaml.load(_bytes(text, name), name)
    if not isinstance(manifest, Mapping):
        raise InputError(f"{name}: expected one manifest of {what}")
    return manifest


def _bytes(text: str, name: str) -> bytes:
    if len(text) > MAX_MANIFEST:
        raise InputError(f"{name}: a text of {len(text)} characters; expected at most {MAX_MANIFEST}")
    return text.encode(errors="replace")


def _bounded(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Cut long lists and texts; a list says how many more there were."""
    return {key: _cut(value) for key, value in plain(answer).items()}


def _cut(value: Any) -> Any:
    match value:
        case str():
            if not value.isascii():  # a lone surrogate can be sent, but not returned
                value = value.encode(errors="replace").decode()
            return value if len(value) <= MAX_TEXT else value[:MAX_TEXT] + "…"
        case list():
            more = len(value) - MAX_ITEMS
            return [_cut(item) for item in value[:MAX_ITEMS]] + ([f"… and {more} more"] if more > 0 else [])
        case dict():
            kept = {key: _cut(item) for key, item in list(value.items())[:MAX_ITEMS]}
            more = len(value) - MAX_ITEMS
            return kept | ({"…": f"and {more} more"} if more > 0 else {})
    return value
