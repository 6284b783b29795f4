"""A collection of wrong solutions, each a change of the right one: every one is refused, with a hint that fits.

The right solutions below the wrong ones solve the exercise in another way; they are accepted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.learn.check_process import check_here
from mooring.learn.checking import CheckReport
from mooring.learn.course import lesson

Change = tuple[str, str]

SELECTOR = "    return all(node.metadata.labels.get(key) == value for key, value in wanted.items())\n"
LOOP = (
    "    for key, value in wanted.items():\n"
    "        if node.metadata.labels.get(key) != value:\n"
    "            return False\n"
    "    return True\n"
)
PREDICATES = "[any_node, matches_node_selector]"

LESSON_1: list[tuple[str, list[Change], str]] = [
    ("the predicate is never asked", [(PREDICATES, "[any_node]")], "goes to the node that has the label"),
    ("one label is enough", [(SELECTOR, SELECTOR.replace("all(", "not wanted or any("))], "every label"),
    (
        "keys are ignored",
        [(SELECTOR, "    return all(value in node.metadata.labels.values() for value in wanted.values())\n")],
        "key and value both",
    ),
    (
        "values are ignored",
        [(SELECTOR, "    return all(key in node.metadata.labels for key in wanted)\n")],
        "goes to the node that has the label",
    ),
    (
        "only the first label is looked at",
        [(SELECTOR, SELECTOR.replace("wanted.items())", "list(wanted.items())[:1])"))],
        "every label",
    ),
    (
        "only the last label is looked at",
        [(SELECTOR, SELECTOR.replace("wanted.items())", "list(wanted.items())[-1:])"))],
        "every label",
    ),
    (
        "the beginning of a value is enough",
        [(SELECTOR, SELECTOR.replace("get(key) == value", "get(key, '').startswith(value)"))],
        "key and value both",
    ),
    (
        "a part of the value is enough",
        [(SELECTOR, SELECTOR.replace("labels.get(key) == value", "labels.get(key, '?') in value"))],
        "key and value both",
    ),
    (
        "a label that the node lacks is taken for an empty one",
        [(SELECTOR, SELECTOR.replace("get(key) == value", "get(key, '') == value"))],
        "no node matches stays pending",
    ),
    (
        "a label that the node lacks is taken for a match",
        [(SELECTOR, SELECTOR.replace("get(key) == value", "get(key, value) == value"))],
        "key and value both",
    ),
    (
        "the labels have to be equal, no more and no fewer",
        [(SELECTOR, "    return not wanted or node.metadata.labels == wanted\n")],
        "goes to the node that has the label",
    ),
    (
        "a pod without a nodeSelector is refused",
        [(SELECTOR, SELECTOR.replace("return all", "return bool(wanted) and all"))],
        "without a nodeSelector",
    ),
    (
        "a pod without a nodeSelector goes to the first node",
        [
            (
                SELECTOR,
                "    if not wanted:\n        return node.metadata.name == 'plain'\n" + SELECTOR,
            )
        ],
        "without a nodeSelector",
    ),
    ("None is not thought of", [("pod.spec.node_selector or {}", "pod.spec.node_selector")], "'NoneType' object"),
]

EFFECT = "    if toleration.effect and toleration.effect != taint.effect:\n        return False\n"
EXISTS = '    if toleration.operator == "Exists":\n        return toleration.key in ("", taint.key)\n'
EQUAL = "    return toleration.key == taint.key and toleration.value == taint.value\n"
TAINTS = "        for taint in node.spec.taints:\n"
HARD = 'taint.effect in ("NoSchedule", "NoExecute") and '
ANY = "any(\n                tolerates(toleration, taint) for toleration in pod.spec.tolerations\n            )"
TWO = "[NodeUnschedulable(), TaintToleration()]"
REFUSES = 'return Status("Unschedulable", "node(s) had untolerated taint(s)")'

LESSON_2: list[tuple[str, list[Change], str]] = [
    (
        "the plugin is never asked",
        [("[NodeUnschedulable(), TaintToleration()]", "[NodeUnschedulable()]")],
        "are refused",
    ),
    ("every taint is refused", [(f"not {ANY}", "True")], "all ways of tolerating"),
    ("any toleration at all is enough", [(ANY, "pod.spec.tolerations")], "another key, value or effect"),
    ("only the first taint counts", [(TAINTS, "        for taint in node.spec.taints[:1]:\n")], "every taint needs"),
    ("only the last taint counts", [(TAINTS, "        for taint in node.spec.taints[-1:]:\n")], "every taint needs"),
    ("the effect is ignored", [(EFFECT, "")], "another key, value or effect"),
    ("an effect has to be named", [("if toleration.effect and toleration", "if toleration")], "all ways of tolerating"),
    (
        "the effect is ignored for Exists",
        [(EFFECT + EXISTS, EXISTS + EFFECT)],
        "another key, value or effect",
    ),
    ("Exists covers every key", [(EXISTS, EXISTS.replace('toleration.key in ("", taint.key)', "True"))], "another key"),
    (
        "Exists without a key covers nothing",
        [(EXISTS, EXISTS.replace('in ("", taint.key)', "== taint.key"))],
        "all ways of tolerating",
    ),
    ("the key is ignored", [(EQUAL, "    return toleration.value == taint.value\n")], "another key, value or effect"),
    ("the value is ignored", [(EQUAL, "    return toleration.key == taint.key\n")], "another key, value or effect"),
    (
        "no operator means Exists",
        [(EXISTS, EXISTS.replace('== "Exists"', 'in ("", "Exists")'))],
        "another key, value or effect",
    ),
    (
        "only the operator Equal is known by name",
        [(EQUAL, EQUAL.replace("return", 'return toleration.operator == "Equal" and'))],
        "all ways of tolerating",
    ),
    ("NoExecute is not refused", [(HARD, 'taint.effect == "NoSchedule" and ')], "are refused"),
    ("NoSchedule is not refused", [(HARD, 'taint.effect == "NoExecute" and ')], "are refused"),
    ("PreferNoSchedule is refused", [(HARD, "")], "PreferNoSchedule"),
    (
        "PreferNoSchedule ends the search",
        [(TAINTS, TAINTS + '            if taint.effect == "PreferNoSchedule":\n                return SUCCESS\n')],
        "PreferNoSchedule",
    ),
    (
        "one tolerated taint is enough",
        [(TAINTS, TAINTS + f"            if {ANY}:\n                return SUCCESS\n")],
        "every taint needs",
    ),
    (
        "one toleration has to cover all taints",
        [(ANY, "any(all(tolerates(t, each) for each in node.spec.taints) for t in pod.spec.tolerations)")],
        "every taint needs",
    ),
    (
        "only the first toleration counts",
        [("for toleration in pod.spec.tolerations\n", "for toleration in pod.spec.tolerations[:1]\n")],
        "every taint needs",
    ),
    ("the reason is in other words", [(REFUSES, 'return Status("Unschedulable", "tainted")')], "upstream's words"),
    ("the code is Success", [(REFUSES, REFUSES.replace("Unschedulable", "Success"))], "are refused"),
    (
        "the old plugin is gone",
        [("[NodeUnschedulable(), TaintToleration()]", "[TaintToleration()]")],
        "upstream's words",
    ),
    ("keys instead of attributes", [("taint.effect in", 'taint["effect"] in')], "write taint.effect"),
]

COUNT = "max(0, 100 - sum(other.spec.node_name == node.metadata.name for other in self.pods))"
THREE = "[NodeUnschedulable(), NodeNumber(), LeastPods(self.pods)]"

LESSON_3: list[tuple[str, list[Change], str]] = [
    ("the plugin is never asked", [(THREE, "[NodeUnschedulable(), NodeNumber()]")], "spread evenly"),
    ("NodeNumber keeps its weight", [("    weight = 10\n", "")], "NodeNumber still wins"),
    ("NodeNumber gets twice its weight", [("    weight = 10\n", "    weight = 2\n")], "NodeNumber still wins"),
    ("NodeNumber is gone", [(THREE, "[NodeUnschedulable(), LeastPods(self.pods)]")], "beside NodeNumber"),
    ("the most pods are best", [(COUNT, COUNT.replace("100 - ", ""))], "spread evenly"),
    ("no difference is made", [(COUNT, "50")], "spread evenly"),
    ("full or empty is all it knows", [(COUNT, COUNT.replace("100 - sum(", "100 - any("))], "spread evenly"),
    (
        "only its own pods count",
        [
            (
                COUNT,
                COUNT.replace(
                    "for other in self.pods", "for other in self.pods if other.spec.scheduler_name == SCHEDULER_NAME"
                ),
            )
        ],
        "other schedulers",
    ),
    (
        "it counts its own decisions",
        [
            ("        self.pods = pods\n", "        self.pods = pods\n        self.counts = Counter()\n"),
            (
                "        return " + COUNT,
                "        self.counts.update(o.spec.node_name for o in self.pods if not self.counts)\n"
                "        return 100 - self.counts[node.metadata.name]",
            ),
        ],
        "spread evenly",
    ),
    (
        "deleted pods count for ever",
        [
            ("        self.pods = pods\n", "        self.pods = pods\n        self.seen = {}\n"),
            (
                "        return " + COUNT,
                "        self.seen.update({o.metadata.uid: o.spec.node_name for o in self.pods})\n"
                "        return 100 - list(self.seen.values()).count(node.metadata.name)",
            ),
        ],
        "deleted pods",
    ),
    (
        "no plugin, but another select_host",
        [
            (THREE, "[NodeUnschedulable(), NodeNumber()]"),
            (
                "        best = max(totals.values())\n",
                "        there = Counter(pod.spec.node_name for pod in self.pods)\n"
                "        totals = {name: total * 1000 - there[name] for name, total in totals.items()}\n"
                "        best = max(totals.values())\n",
            ),
        ],
        "a plugin named LeastPods",
    ),
    (
        "the scheduler's informer is looked for in the plugin",
        [("        self.pods = pods\n", "        self.mine = pods\n")],
        "hand them to the plugin's __init__",
    ),
]

NOT_SKIPPED = '[plugin for plugin in self.plugins if plugin.pre_score(state, pod, feasible).code != "Skip"]'
SKIP = 'return Status("Skip") if wanted is None else SUCCESS'
UNUSED = "        for plugin in self.plugins:\n            plugin.pre_score(state, pod, feasible)\n"
SCORERS = f"        scorers = {NOT_SKIPPED}\n"

LESSON_4: list[tuple[str, list[Change], str]] = [
    ("NodeNumber never skips", [(SKIP, "return SUCCESS")], "not scored by NodeNumber"),
    (
        "the status is not looked at",
        [(SCORERS, UNUSED + "        scorers = self.plugins\n")],
        "not scored by NodeNumber",
    ),
    (
        "NodeNumber is known by its name",
        [
            (
                SCORERS,
                UNUSED + '        has_digit = state["NodeNumber/wanted"] is not None\n'
                '        scorers = [p for p in self.plugins if p.name != "NodeNumber" or has_digit]\n',
            )
        ],
        "every plugin may skip",
    ),
    ("the digit 0 is skipped", [("if wanted is None else", "if not wanted else")], "scored on every node"),
    ("every pod is skipped", [(SKIP, 'return Status("Skip")')], "scored on every node"),
    (
        "skipped once, skipped for ever",
        [
            (
                SCORERS,
                "        self.skipped = getattr(self, 'skipped', set())\n"
                "        for plugin in self.plugins:\n"
                "            if plugin.pre_score(state, pod, feasible).code == 'Skip':\n"
                "                self.skipped.add(plugin.name)\n"
                "        scorers = [plugin for plugin in self.plugins if plugin.name not in self.skipped]\n",
            )
        ],
        "every plugin may skip",
    ),
    (
        "one Skip skips all",
        [
            (
                SCORERS,
                "        answers = [plugin.pre_score(state, pod, feasible).code for plugin in self.plugins]\n"
                "        scorers = [] if 'Skip' in answers else self.plugins\n",
            )
        ],
        "every plugin may skip",
    ),
    (
        "the first Skip ends pre-scoring",
        [
            (
                SCORERS,
                "        scorers = []\n"
                "        for plugin in self.plugins:\n"
                "            if plugin.pre_score(state, pod, feasible).code == 'Skip':\n"
                "                break\n"
                "            scorers.append(plugin)\n",
            )
        ],
        "every plugin may skip",
    ),
    (
        "plugins without a pre_score are skipped",
        [
            (
                'Skip means no opinion."""\n        return SUCCESS',
                'Skip means no opinion."""\n        return Status("Skip")',
            )
        ],
        "every plugin may skip",
    ),
    (
        "plugins without a pre_score answer None",
        [('Skip means no opinion."""\n        return SUCCESS', 'Skip means no opinion."""')],
        "'NoneType' object",
    ),
    (
        "a skipped pod is not scheduled",
        [(SCORERS, SCORERS + "        if len(scorers) < len(self.plugins):\n            raise FitError({})\n")],
        "not scored by NodeNumber",
    ),
]

WAITS = "            await asyncio.wait((waiting.verdict,), timeout=PERMIT_TIMEOUT_S)\n"
REJECTS = "                waiting.reject(plugin, node, reason)\n"
FOR_EACH = "            for plugin in sorted(waiting.pending):\n"
STARTS = "            self.run_permit_plugins(state, pod, node)\n"

LESSON_5: list[tuple[str, list[Change], str]] = [
    ("no limit", [("timeout=PERMIT_TIMEOUT_S)", "timeout=None)")], "not bound"),
    ("nothing is rejected", [(REJECTS, "                log.info(reason)\n")], "not bound"),
    ("ten seconds", [("PERMIT_TIMEOUT_S = 5.0", "PERMIT_TIMEOUT_S = 10.0")], "not bound"),
    ("two seconds", [("PERMIT_TIMEOUT_S = 5.0", "PERMIT_TIMEOUT_S = 2.0")], "allowed in time"),
    ("six seconds", [("PERMIT_TIMEOUT_S = 5.0", "PERMIT_TIMEOUT_S = 6.0")], "rejected after 5 seconds"),
    (
        "NodeNumber refuses at once what would take too long",
        [
            (WAITS, ""),
            (FOR_EACH, "            for plugin in ():\n"),
            (
                "        if not seconds:\n            return SUCCESS\n",
                "        if not seconds:\n            return SUCCESS\n"
                "        if seconds > 5:\n            return Status('Unschedulable', 'timeout')\n",
            ),
        ],
        "rejected after 5 seconds",
    ),
    (
        "the limit is in NodeNumber, not in the scheduler",
        [
            (WAITS, ""),
            (FOR_EACH, "            for plugin in ():\n"),
            (
                '        return Status("Wait", f"{seconds} s")\n',
                "        if seconds > 5:\n"
                "            asyncio.get_running_loop().call_later(5, self.late, pod.metadata.uid, node)\n"
                '        return Status("Wait", f"{seconds} s")\n\n'
                "    def late(self, uid: str, node: str) -> None:\n"
                '        self.waiting_pods[uid].reject(self.name, node, "timeout")\n',
            ),
        ],
        "every plugin, and for all of them together",
    ),
    ("the reason is another", [("rejected due to timeout after", "rejected after")], "speaks of a timeout"),
    (
        "the timeout is raised and not caught",
        [(WAITS, "            await asyncio.wait_for(waiting.verdict, PERMIT_TIMEOUT_S)\n")],
        "TimeoutError",
    ),
    (
        "who is too late is bound all the same",
        [("            await waiting.verdict\n", "")],
        "not bound",
    ),
    ("rejected before the wait", [(WAITS, "")], "allowed in time"),
    (
        "each plugin has its own five seconds",
        [(WAITS, "            for _ in set(waiting.pending):\n    " + WAITS)],
        "every plugin, and for all of them together",
    ),
    (
        "rejected pods stay among the waiting",
        [
            (
                "        finally:\n            del self.waiting_pods[pod.metadata.uid]\n",
                "        except ApiError:\n            del self.waiting_pods[pod.metadata.uid]\n",
            )
        ],
        "every plugin, and for all of them together",
    ),
    (
        "everybody waits in the scheduling cycle",
        [
            (STARTS, STARTS + "            await self.wait_on_permit(pod, node)\n"),
        ],
        "no other pod waits",
    ),
]

LESS = "(-self.pod.priority, self.arrival) < (-other.pod.priority, other.arrival)"
LEAVES = "        self.active = [info for info in self.active if info.pod.metadata.uid != uid]\n"
HEAPIFY = "        heapq.heapify(self.active)\n"

LESSON_6: list[tuple[str, list[Change], str]] = [
    ("the lowest priority first", [(LESS, LESS.replace("-", ""))], "highest priority is next"),
    (
        "the last to come is first",
        [(LESS, LESS.replace("self.arrival", "-self.arrival").replace("other.arrival", "-other.arrival"))],
        "among equals",
    ),
    ("equals come in any order", [(LESS, "self.pod.priority > other.pod.priority")], "among equals"),
    ("arrival only", [(LESS, "self.arrival < other.arrival")], "highest priority is next"),
    (
        "the name decides among equals",
        [
            (
                LESS,
                LESS.replace("self.arrival", "self.pod.metadata.uid").replace(
                    "other.arrival", "other.pod.metadata.uid"
                ),
            )
        ],
        "among equals",
    ),
    ("no heapify", [(HEAPIFY, "")], "others keep their order"),
    ("delete leaves active alone", [(LEAVES + HEAPIFY, "")], "leaves active"),
    (
        "delete takes the first of the list",
        [(LEAVES, "        self.active = self.active[1:]\n")],
        "leaves active",
    ),
    (
        "delete sorts by something else",
        [(HEAPIFY, "        self.active.sort(key=lambda info: info.arrival)\n")],
        "others keep their order",
    ),
    (
        "delete empties backoff",
        [("        self.backoff.pop(uid, None)\n", "        self.backoff.clear()\n")],
        "leaves active",
    ),
    (
        "delete empties unschedulable",
        [("        self.unschedulable.pop(uid, None)\n", "        self.unschedulable.clear()\n")],
        "leaves active",
    ),
    ("delete forgets backoff", [("        self.backoff.pop(uid, None)\n", "")], "leaves active"),
    (
        "append instead of push",
        [("heapq.heappush(self.active, info)", "self.active.append(info)")],
        "highest priority is next",
    ),
    ("pop takes the last", [("heapq.heappop(self.active)", "self.active.pop()")], "highest priority is next"),
    (
        "a pair on the heap",
        [
            (
                "        heapq.heappush(self.active, info)\n",
                "        heapq.heappush(self.active, (-info.pod.priority, info))\n",
            ),
            ("        info = heapq.heappop(self.active)\n", "        info = heapq.heappop(self.active)[1]\n"),
            (LESS, "NotImplemented"),
        ],
        "'<' not supported",
    ),
    (
        "failed pods are forgotten",
        [("        part[info.pod.metadata.uid] = info\n", "        part.pop(info.pod.metadata.uid, None)\n")],
        "treated as before",
    ),
]

HINT = (
    "        was_open = old is not None and not old.spec.unschedulable\n"
    "        return not was_open and not new.spec.unschedulable\n"
)
OTHER_WORDS = (
    "        if new.spec.unschedulable:\n"
    "            return False\n"
    "        return old is None or bool(old.spec.unschedulable)\n"
)
DEFAULT = '"""Could this change of a node turn this plugin\'s no to the pod into a yes?"""\n        return True\n'
HELPS = "            return any(p.name in info.refused_by and p.queueing_hint(info.pod, old, new) for p in plugins)\n"
ADDED = '        self.cluster_event("NodeAdd", None, node)\n'
REGISTERED = "[plugin for plugin in self.plugins if event in plugin.events]"

LESSON_7: list[tuple[str, list[Change], str]] = [
    ("the hint is not asked", [(" and p.queueing_hint(info.pod, old, new)", "")], "wakes no pod"),
    ("the hint always says yes", [(HINT, "        return True\n")], "wakes no pod"),
    ("the hint always says no", [(HINT, "        return False\n")], "uncordoning"),
    (
        "only updates help",
        [(HINT, "        return old is not None and bool(old.spec.unschedulable) and not new.spec.unschedulable\n")],
        "new open node",
    ),
    ("only new nodes help", [(HINT, "        return old is None and not new.spec.unschedulable\n")], "uncordoning"),
    (
        "every new node helps",
        [(HINT, "        return old is None or bool(old.spec.unschedulable) and not new.spec.unschedulable\n")],
        "new node that is cordoned",
    ),
    ("a change of an open node helps", [(HINT, "        return not new.spec.unschedulable\n")], "was open before"),
    ("cordoning helps", [(HINT, HINT.replace("not new.spec", "new.spec"))], "wakes no pod"),
    (
        "old and new are mixed up",
        [("p.queueing_hint(info.pod, old, new)", "p.queueing_hint(info.pod, new, old or new)")],
        "uncordoning",
    ),
    (
        "no hint, but handlers that look at the node",
        [
            (" and p.queueing_hint(info.pod, old, new)", ""),
            (ADDED, "        if not node.spec.unschedulable:\n    " + ADDED),
            (
                '        self.cluster_event("NodeUpdate", old, new)\n',
                "        if old.spec.unschedulable and not new.spec.unschedulable:\n"
                '            self.cluster_event("NodeUpdate", old, new)\n',
            ),
        ],
        "the hint is the plugin's",
    ),
    (
        "NodeUnschedulable's hint for all",
        [("p.queueing_hint(info.pod, old, new)", "NodeUnschedulable().queueing_hint(info.pod, old, new)")],
        "the hint is the plugin's",
    ),
    ("plugins that refused nothing are asked too", [("p.name in info.refused_by and ", "")], "refused the pod"),
    ("unregistered events count", [(REGISTERED, "self.plugins")], "has registered"),
    ("without a hint no event helps", [(DEFAULT, DEFAULT.replace("return True", "return False"))], "without a hint"),
    ("without a hint the answer is None", [(DEFAULT, DEFAULT.replace("        return True\n", ""))], "without a hint"),
    (
        "only the first pod is woken",
        [("                self.wake(uid, event)\n", "                self.wake(uid, event)\n                break\n")],
        "every pod that it can help",
    ),
    ("all plugins have to say yes", [("return any(p.name", "return all(p.name")], "the hint is the plugin's"),
    (
        "the pod's five minutes are gone",
        [("            if helps(info):\n", "            if not self.active and helps(info):\n")],
        "every pod that it can help",
    ),
]

WRONG = {1: LESSON_1, 2: LESSON_2, 3: LESSON_3, 4: LESSON_4, 5: LESSON_5, 6: LESSON_6, 7: LESSON_7}

RIGHT: dict[int, list[tuple[str, list[Change]]]] = {
    1: [
        ("a loop", [(SELECTOR, LOOP)]),
        ("a subset of pairs", [(SELECTOR, "    return wanted.items() <= node.metadata.labels.items()\n")]),
        ("in place of any_node", [(PREDICATES, "[matches_node_selector]")]),
    ],
    2: [
        ("TaintToleration is asked first", [(TWO, "[TaintToleration(), NodeUnschedulable()]")]),
        ("a final refusal", [(REFUSES, REFUSES.replace('"Unschedulable"', '"UnschedulableAndUnresolvable"'))]),
    ],
    3: [
        ("negative scores", [(COUNT, "-sum(other.spec.node_name == node.metadata.name for other in self.pods)")]),
        ("a large weight", [("    weight = 10\n", "    weight = 1000\n")]),
        ("LeastPods is asked first", [(THREE, "[LeastPods(self.pods), NodeUnschedulable(), NodeNumber()]")]),
    ],
    4: [
        (
            "a loop",
            [
                (
                    SCORERS,
                    "        scorers = []\n"
                    "        for plugin in self.plugins:\n"
                    "            if plugin.pre_score(state, pod, feasible).code == 'Skip':\n"
                    "                continue\n"
                    "            scorers.append(plugin)\n",
                )
            ],
        ),
    ],
    5: [
        (
            "a timer that rejects",
            [
                (
                    WAITS,
                    "            loop = asyncio.get_running_loop()\n"
                    "            loop.call_later(5.0, waiting.reject, '', node, 'timeout after 5s')\n",
                ),
                (FOR_EACH, "            for plugin in ():\n"),
            ],
        ),
        (
            "wait_for with a shield",
            [
                (
                    WAITS,
                    "            with contextlib.suppress(TimeoutError):\n"
                    "                await asyncio.wait_for(asyncio.shield(waiting.verdict), 5.0)\n",
                )
            ],
        ),
    ],
    6: [
        (
            "a list that is searched",
            [
                ("heapq.heappush(self.active, info)", "self.active.append(info)"),
                (
                    "        info = heapq.heappop(self.active)\n",
                    "        info = min(self.active)\n        self.active.remove(info)\n",
                ),
                (HEAPIFY, ""),
            ],
        ),
        (
            "a list that is kept sorted",
            [
                ("heapq.heappush(self.active, info)", "self.active = sorted([*self.active, info])"),
                ("heapq.heappop(self.active)", "self.active.pop(0)"),
                (HEAPIFY, ""),
            ],
        ),
    ],
    7: [
        ("a hint in other words", [(HINT, OTHER_WORDS)]),
        ("two plugins ask", [(REGISTERED, "[one for one in self.plugins if event in one.events]")]),
    ],
}


def changed(number: int, changes: list[Change], tmp_path: Path) -> Path:
    source = lesson(number).solution
    for old, new in changes:
        assert source.count(old) >= 1, old
        source = source.replace(old, new, 1)
    file = tmp_path / "my_scheduler.py"
    file.write_text(source, encoding="utf-8")
    return file


def complaint(report: CheckReport) -> str:
    """What the learner reads: the first check that failed, or the problem."""
    failed = [result for result in report.results if result.missing]
    assert report.problem or failed
    return report.problem or failed[0].says


WRONG_ONES = [
    pytest.param(number, changes, want, id=f"lesson {number}: {name}")
    for number, table in WRONG.items()
    for name, changes, want in table
]


@pytest.mark.parametrize(("number", "changes", "want"), WRONG_ONES)
def test_a_wrong_solution_is_refused(number: int, changes: list[Change], want: str, tmp_path: Path) -> None:
    report = check_here(lesson(number), changed(number, changes, tmp_path))
    assert not report.is_solved
    assert want in complaint(report)
    assert all(result.hints for result in report.results if result.missing)


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        pytest.param(number, changes, id=f"lesson {number}: {name}")
        for number, table in RIGHT.items()
        for name, changes in table
    ],
)
def test_another_right_solution_is_accepted(number: int, changes: list[Change], tmp_path: Path) -> None:
    report = check_here(lesson(number), changed(number, changes, tmp_path))
    assert (report.problem, [result.missing for result in report.results if result.missing]) == ("", [])
    assert report.is_solved


@pytest.mark.parametrize("number", range(1, 8), ids=lambda n: f"lesson {n}")
def test_the_untouched_copy_passes_nothing(number: int) -> None:
    report = check_here(lesson(number), lesson(number).source)
    assert (report.problem, report.passed) == ("", 0)
    assert [result.was_run for result in report.results] == [True] + [False] * (len(report.results) - 1)


@pytest.mark.parametrize("number", range(1, 8), ids=lambda n: f"lesson {n}")
def test_every_check_has_hints_and_the_first_has_them_in_steps(number: int) -> None:
    checks = lesson(number).module("check").CHECKS
    assert all(check.hints for check in checks)
    assert len(checks[0].hints) > 1
