"""Replay the recorded corpus and write docs/parity.md: how far mooring and kube-scheduler agree.

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

import parity_corpus as corpus  # noqa: E402

from mooring.engine.decision import Decision  # noqa: E402
from mooring.engine.in_tree import IN_TREE  # noqa: E402
from mooring.sim.replay import start_replay  # noqa: E402

PAGE = ROOT / "docs" / "parity.md"

INTRODUCTION = """\
# Agreement with kube-scheduler

This page is written by `make parity`; do not edit it by hand.

The corpus in [`tests/parity/golden`](../tests/parity/golden/README.md) records what kube-scheduler v1.36.4 did, case by
case. Each case is replayed without its recorded verdicts. A step is *exact* when everything agrees: the outcome, every
plugin's score on every node, the totals, the reason, the message byte for byte, the nominated node, the victims, the
volumes and the devices; the node must be among those with the highest total.
"""

DELIBERATE = """\
## What differs on purpose

- **Every feasible node is scored.** kube-scheduler looks at a share of the nodes in clusters of 100 nodes and more
  (10 % of 5,000). mooring does so only when `percentageOfNodesToScore` is set, for the profile or globally, to
  something other than 0. Clusters of the corpus are smaller, so nothing in the tables depends on it.
- **Nodes are looked at in order.** kube-scheduler filters nodes in parallel and returns those that fit in the order in
  which they finish, beginning where the last search ended. mooring's order is the node tree's (one node of each zone,
  round and round), the same every time. Among nodes with equal totals that order decides, so kube-scheduler may take
  another of the best nodes than mooring does. Only a limited search (`percentageOfNodesToScore`, or no score plugins)
  goes round as kube-scheduler's does with one worker. A test shows that, given the recorded order, mooring's rule
  takes the recorded node in every recorded step.
- **Where kube-scheduler draws a random number** (the first node that preemption tries, one of several idle claims to
  give back), mooring takes the first, or what a seeded generator from outside says.
- **A plugin that raises** fails the attempt of that one pod, with the reason `SchedulerError`; a panic ends
  kube-scheduler. So does one that hangs, after `--plugin-timeout`.

On a live cluster:

- **A Binding without an answer, or with a 409, is looked up** before it counts as failed: the pod may be bound.
- **A pod that is gone or bound elsewhere** gets no status patch, and pods that waited for its place are woken at once;
  kube-scheduler leaves the latter to the sweep every five minutes. So it is with a preemptor whose victims went early.
- **Claims are patched** with their uid and resourceVersion, and volumes read before they are written, because mooring
  keeps only the fields that scheduling reads; kube-scheduler writes whole objects.
- **Times are monotonic** in the queue: a clock that jumps neither frees nor holds pods. PreEnqueue plugins run in the
  configured order, the one that held the pod first; kube-scheduler's order is random.
- **The endpoints listen on 127.0.0.1** unless `--bind-address` says otherwise (kube-scheduler: all addresses), and bad
  usage ends with exit code 2 (kube-scheduler: 1).
- **Requests are JSON**; kube-scheduler's default is protocol buffers.
- **A plugin is timed by call**: an observation of `scheduler_plugin_execution_duration_seconds` at Filter or Score is
  one call for all nodes that the plugin had to look at; kube-scheduler makes one per node.
"""


class PluginTally:
    """In how many steps a plugin scored or refused a node, and in how many of them the step is exact."""

    def __init__(self) -> None:
        self.scored: Counter[str] = Counter()
        self.scored_exact: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.refused_exact: Counter[str] = Counter()

    def add(self, decisions: list[Decision], is_exact: bool) -> None:
        scored = {name for d in decisions if d.scores is not None for name in d.scores.by_plugin}
        refused = {name for d in decisions if d.statuses is not None for name in d.statuses.plugins()}
        for names, seen, exact in (
            (scored, self.scored, self.scored_exact),
            (refused, self.refused, self.refused_exact),
        ):
            for name in names:
                seen[name] += 1
                exact[name] += is_exact


def replay(case: corpus.Case) -> tuple[corpus.Case, list[list[Decision]]]:
    """Decide the case; also return the decisions of each step."""
    stripped = corpus.without_verdicts(case)
    run = start_replay(stripped)
    decide, made = run.built.engine.decide, []

    def remember(*arguments: Any, **options: Any) -> Decision:
        made.append(decide(*arguments, **options))
        return made[-1]

    run.built.engine.decide = remember  # type: ignore[method-assign]
    steps, decisions = [], []
    for step in stripped["steps"]:
        made.clear()
        steps.append(run.step(step))
        decisions.append(list(made))
    return json.loads(json.dumps({"id": case["id"], "steps": steps})), decisions


def main() -> int:
    plugins = PluginTally()
    rows, surprises = [], []
    totals = [0, 0, 0]
    for family in corpus.families():
        if family in corpus.NOT_REPLAYED:
            continue
        numbers = [0, 0, 0]
        for case in corpus.cases(family):
            decided, decisions = replay(case)
            differing: dict[int, list[str]] = {}
            for step, field, text in corpus.differences(case, decided):
                differing.setdefault(step, []).append(field)
                if not corpus.is_known_race(case, step, field):
                    surprises.append(f"{case['id']} step {step} {field}: {text}")
            for i, made in enumerate(decisions):
                plugins.add(made, i not in differing)
            steps = corpus.n_verdicts(case)
            numbers = [a + b for a, b in zip(numbers, (1, steps, steps - len(differing)), strict=True)]
        rows.append((family, *numbers))
        totals = [a + b for a, b in zip(totals, numbers, strict=True)]
        print(f"{family}: {numbers[2]}/{numbers[1]} steps exact", flush=True)
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(rows, totals, plugins, surprises), encoding="utf-8")
    for line in surprises:
        print(line, file=sys.stderr)
    print(f"total: {totals[2]}/{totals[1]} steps exact; wrote {PAGE.relative_to(ROOT)}")
    return 1 if surprises else 0


def page(rows: list[tuple[object, ...]], totals: list[int], plugins: PluginTally, surprises: list[str]) -> str:
    parts = [INTRODUCTION, "## By family\n", "| family | cases | steps | exact |", "|---|--:|--:|--:|"]
    parts += [f"| {family} | {n_cases} | {steps} | {exact} |" for family, n_cases, steps, exact in rows]
    parts.append(f"| **total** | {totals[0]} | {totals[1]} | {totals[2]} |\n")
    for family, why in corpus.NOT_REPLAYED.items():
        parts.append(f"Family `{family}` is not in the table: {why}.\n")
    parts += [
        "## By plugin\n",
        "Steps in which the plugin scored nodes, and steps in which it refused at least one node; after each the",
        "number of those steps that are exact. Plugins that neither filter nor score (queue order, gates, preemption,",
        "binding) are seen through the outcome, the nominated node and the victims of the steps above.\n",
        "| plugin | scored | exact | refused | exact |",
        "|---|--:|--:|--:|--:|",
    ]
    for plugin in IN_TREE:
        name = plugin.__name__
        if name in plugins.scored or name in plugins.refused:
            parts.append(
                f"| {name} | {plugins.scored[name] or '–'} | {plugins.scored_exact[name] or '–'} "
                f"| {plugins.refused[name] or '–'} | {plugins.refused_exact[name] or '–'} |"
            )
    parts.append("\n## Known races\n")
    parts.append("Recorded steps that depend on something inside kube-scheduler that a case cannot tell:\n")
    parts += [f"- `{case_id}` step {step}: {why}" for (case_id, step), why in corpus.KNOWN_RACES.items()]
    parts.append("")
    if surprises:
        parts.append("## Differences that are not explained\n")
        parts += [f"- {line}" for line in surprises]
        parts.append("")
    parts.append(DELIBERATE)
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
