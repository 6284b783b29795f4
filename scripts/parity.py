"""Replay the recorded corpora and write docs/parity.md: how far mooring and kube-scheduler agree.

Run by `make parity`. Exit status 1 when a step differs that is not on the list of known races.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "parity"))

import group_corpus  # noqa: E402
import parity_corpus as corpus  # noqa: E402

from mooring.core.engine.decision import ScheduleResult  # noqa: E402
from mooring.core.engine.in_tree import IN_TREE  # noqa: E402
from mooring.sim.replay import start_replay  # noqa: E402

PAGE = ROOT / "docs" / "parity.md"

INTRODUCTION = """\
# Agreement with kube-scheduler

This page is written by `make parity`; do not edit it by hand.

mooring decides as one version of kube-scheduler, by default as 1.36; `--kubernetes-version` chooses, and a live cluster
or a dump says which it is. What kube-scheduler did is recorded, case by case, in {corpora}.
Each case is replayed without its recorded verdicts. A step is *exact* when everything agrees: the outcome, every
plugin's score on every node, the totals, the reason, the message byte for byte, the nominated node, the victims, the
volumes and the devices; the node must be among those with the highest total.

Tables by plugin count the steps in which the plugin scored nodes, those in which it refused at least one, and after
each how many of them are exact. Plugins that neither filter nor score (queue order, gates, preemption, binding) are
seen through outcomes, nominated nodes and victims.
[Versions of Kubernetes](reference/versions.md) says what differs between them.
"""

FROM_SOURCE = """\
## What no case shows

The corpus of 1.37 has no case in which batching scores a node again, and no pod that is being resized. There mooring
follows kube-scheduler's source at v1.37.0-rc.1, and tests of its own.
"""

DELIBERATE = """\
## What differs on purpose

- **Every feasible node is scored** unless `percentageOfNodesToScore` is set to something other than 0. kube-scheduler
  looks at a share of the nodes in clusters of 100 nodes and more (10 % of 5,000). The corpus has smaller clusters.
- **Nodes are looked at in order**, that of the node tree (one node of each zone in turn). kube-scheduler filters nodes
  in parallel, so the order in which they finish decides between nodes with equal totals. Given the recorded order,
  mooring takes the recorded node in every recorded step. A limited search goes round as kube-scheduler's does with one
  worker.
- **Random choices** of kube-scheduler (the first node that preemption tries, one of several idle claims to release)
  are the first, or those of a seeded generator. kube-scheduler 1.34 also chooses at random among nodes with equal
  totals, and 1.34 and 1.35 search device pools in a random order; mooring does both as later versions do.
- **A plugin that raises, or hangs** for longer than `--plugin-timeout` (10 s), fails the attempt of that one pod, with
  the reason `SchedulerError`; a panic ends kube-scheduler. So does an attempt longer than `--attempt-timeout` (15 s).

On a live cluster (tried with kube-apiserver v1.34.11, v1.35.8, v1.36.4 and v1.37.0-rc.1, also with etcd 3.4.23):

- **A DeviceTaintRule's event** has its own name in metrics; kube-scheduler counts an update of the slices.
- **A Binding without an answer, or with a 409, is looked up** before it counts as failed: the pod may be bound.
- **A pod that is gone or bound elsewhere** gets no status patch, and pods that waited for its place are woken
  immediately; kube-scheduler leaves them to the sweep every five minutes.
- **Claims are patched** with uid and resourceVersion, and volumes read before they are written; kube-scheduler writes
  whole objects.
- **Times are monotonic** in the queue. PreEnqueue plugins run in the configured order; kube-scheduler's is random.
- **The endpoints listen on 127.0.0.1** unless `--bind-address` is set (kube-scheduler: all addresses), and wrong usage
  ends with exit code 2 (kube-scheduler: 1).
- **Requests are JSON**; kube-scheduler's default is protocol buffers.
- **A leader that sees another holder of its lease**, or whose lease has expired by its own clock, writes nothing more;
  kube-scheduler continues until its renew deadline.
- **Bindings take priority over patches of conditions** under the client's rate limit.
- **Outside of a cluster**, clients of the endpoints are authenticated by the API server in use, unless
  `--authentication-kubeconfig` and `--authorization-kubeconfig` name another; to kube-scheduler they are anonymous.
- **`scheduler_plugin_evaluation_total` at Filter** counts every node that was looked at and no dry runs of preemption.
  `scheduler_plugin_execution_duration_seconds` has one observation for all nodes; kube-scheduler has one per node.
"""


GROUPS = """## Pod groups (1.37, gate GenericWorkload)

A program around the scheduler package of v1.37.0-rc.1 ran cases of our own against an API in memory;
[its README](../tests/parity/groups-1.37/README.md) says how. Each is replayed on the live scheduler in virtual time. A
step is exact when everything agrees: each pod's node, nominated node, message and part of the queue, each group's
condition, the evicted pods, the events, and the number of attempts.
Trees of groups (CompositePodGroup) are refused as a gate.
"""

GATES = """## Devices, and gates away from their defaults

Recorded and compared in the same way, with the claims: their devices, their shares and whom they are reserved for;
[the README](../tests/parity/gates/README.md) names the gate and the version of each family.
"""


class PluginTally:
    """In how many steps a plugin scored or refused a node, and in how many of them the step is exact."""

    def __init__(self) -> None:
        self.scored: Counter[str] = Counter()
        self.scored_exact: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.refused_exact: Counter[str] = Counter()

    def add(self, decisions: list[ScheduleResult], is_exact: bool) -> None:
        scored = {name for d in decisions if d.scores is not None for name in d.scores.by_plugin}
        refused = {name for d in decisions if d.statuses is not None for name in d.statuses.plugins()}
        for names, seen, exact in (
            (scored, self.scored, self.scored_exact),
            (refused, self.refused, self.refused_exact),
        ):
            for name in names:
                seen[name] += 1
                exact[name] += is_exact


def replay(case: corpus.Case) -> tuple[corpus.Case, list[list[ScheduleResult]]]:
    """Decide the case; also return the decisions of each step."""
    stripped = corpus.without_verdicts(case)
    run = start_replay(stripped)
    decide, made = run.session.engine.decide, []

    def remember(*arguments: Any, **options: Any) -> ScheduleResult:
        made.append(decide(*arguments, **options))
        return made[-1]

    run.session.engine.decide = remember  # type: ignore[method-assign]
    steps, decisions = [], []
    for step in stripped["steps"]:
        made.clear()
        steps.append(run.step(step))
        decisions.append(list(made))
    return json.loads(json.dumps({"id": case["id"], "steps": steps})), decisions


class Result:
    """How far one version agrees."""

    def __init__(self, recorded: corpus.Corpus) -> None:
        self.recorded = recorded
        self.plugins = PluginTally()
        self.rows: list[tuple[str, int, int, int]] = []  # family, cases, steps, exact steps
        self.surprises: list[str] = []
        for family in recorded.families():
            self._add(family)

    def _add(self, family: str) -> None:
        n_cases = n_steps = n_exact = 0
        for case in self.recorded.cases(family):
            decided, decisions = replay(case)
            differing: dict[int, list[str]] = {}
            for step, field, text in corpus.differences(case, decided):
                differing.setdefault(step, []).append(field)
                if not self.recorded.is_known_race(case, step, field):
                    self.surprises.append(f"{case['id']} step {step} {field}: {text}")
            for i, made in enumerate(decisions):
                self.plugins.add(made, i not in differing)
            steps = corpus.n_verdicts(case)
            n_cases, n_steps, n_exact = n_cases + 1, n_steps + steps, n_exact + steps - len(differing)
        self.rows.append((family, n_cases, n_steps, n_exact))
        print(f"{self.recorded} {family}: {n_exact}/{n_steps} steps exact", flush=True)

    @property
    def total(self) -> list[int]:
        return [sum(row[column] for row in self.rows) for column in (1, 2, 3)]

    def page(self) -> list[str]:
        version = self.recorded.version
        parts = [f"## Kubernetes {version} ({version.tag})\n"]
        parts += [
            "| plugin | scored | exact | refused | exact |",
            "|---|--:|--:|--:|--:|",
        ]
        for name in (plugin.__name__ for plugin in IN_TREE):
            if name in self.plugins.scored or name in self.plugins.refused:
                parts.append(
                    f"| {name} | {self.plugins.scored[name] or '–'} | {self.plugins.scored_exact[name] or '–'} "
                    f"| {self.plugins.refused[name] or '–'} | {self.plugins.refused_exact[name] or '–'} |"
                )
        races: dict[str, list[str]] = {}
        for (case_id, step), why in self.recorded.known_races.items():
            races.setdefault(why, []).append(f"`{case_id}` step {step}")
        parts.append("\nNot counted, because the outcome depends on something that the case does not record:\n")
        parts += [f"- {', '.join(steps)}: {why}" for why, steps in races.items()]
        parts.append("")
        if self.surprises:
            parts.append("### Differences that are not explained\n")
            parts += [f"- {line}" for line in self.surprises]
            parts.append("")
        return parts


def groups(folder: Path, title: str) -> tuple[list[str], list[str]]:
    """The part of the page about the cases of one folder, and the differences that were found."""
    rows: list[tuple[str, int, int, int]] = []
    surprises: list[str] = []
    for family in group_corpus.families(folder):
        n_cases = n_steps = n_exact = 0
        for case in group_corpus.cases(family):
            found = list(group_corpus.differences(case, group_corpus.replay(case)))
            steps = sum("schedule" in step for step in case["steps"])
            n_cases, n_steps = n_cases + 1, n_steps + steps
            n_exact += steps - len({line.split()[2] for line in found})
            surprises += found
        rows.append((family, n_cases, n_steps, n_exact))
        print(f"{folder.name} {family}: {n_exact}/{n_steps} steps exact", flush=True)
    total = [sum(row[column] for row in rows) for column in (1, 2, 3)]
    parts = [title, "| family | cases | steps | exact |", "|---|--:|--:|--:|"]
    parts += [f"| {family} | {n_cases} | {steps} | {exact} |" for family, n_cases, steps, exact in rows]
    parts.append("| **total** | {} | {} | {} |\n".format(*total))
    return parts, surprises


def overview(results: list[Result]) -> list[str]:
    """Exact steps of all steps, by family and version."""
    by_version = [{family: f"{exact} / {steps}" for family, _, steps, exact in result.rows} for result in results]
    families = sorted({family for rows in by_version for family in rows})
    parts = ["## Steps decided exactly, by family and version\n"]
    parts += [f"| family | {' | '.join(str(result.recorded) for result in results)} |", "|---|" + "--:|" * len(results)]
    parts += [f"| {family} | {' | '.join(rows.get(family, '–') for rows in by_version)} |" for family in families]
    totals = (f"{exact} / {steps}" for _, steps, exact in (result.total for result in results))
    parts.append(f"| **total** | {' | '.join(totals)} |\n")
    return parts


def main() -> int:
    results = [Result(recorded) for recorded in corpus.CORPORA]
    folders = [
        f"[`tests/parity/{each.folder}`](../tests/parity/{each.folder}/README.md) ({each.version.tag})"
        for each in corpus.CORPORA
    ]
    parts = [INTRODUCTION.format(corpora=f"{', '.join(folders[:-1])} and {folders[-1]}"), *overview(results)]
    for result in results:
        parts += result.page()
    surprises = [line for result in results for line in result.surprises]
    for folder, title in ((group_corpus.GROUPS, GROUPS), (group_corpus.GATES, GATES)):
        about, found = groups(folder, title)
        parts += about
        surprises += found
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join([*parts, FROM_SOURCE, DELIBERATE]), encoding="utf-8")
    for line in surprises:
        print(line, file=sys.stderr)
    for result in results:
        print(f"{result.recorded} total: {result.total[2]}/{result.total[1]} steps exact")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
