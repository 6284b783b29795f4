"""The story of a soak: what happens and when, as steps of a scenario file.

A plan becomes a story, a story is played, and a story that goes wrong is printed: what was played stands in the file.
Its steps are those of every scenario, and ``fault``. The file's ``soak`` says how many replicas there are and what they
are started with. Times are whole milliseconds, so that the file's ``advance`` steps add up to them exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from mooring.api import yaml
from mooring.api.errors import InputError, MooringError
from mooring.api.text import hint
from mooring.api.well_known import HOSTNAME, ZONE
from mooring.sim.backend import Ref, kind_of
from mooring.sim.scenario_file import named_nodes
from mooring.sim.step_fields import described, fields_of, mapping, seconds, texts
from tests.faults import loads
from tests.faults.plan import FAULTS, QPS, REPLICAS, Plan, Step

HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
NODE = {"cpu": "4", "memory": "16Gi", "pods": "12"}
MAX_TITLE = 100
_FAULTS = sorted(set(FAULTS) - {"cordon-node"})  # which every scenario has


@dataclass(frozen=True, slots=True)
class Moment:
    """A step of a scenario, and when it is taken."""

    at_s: float
    verb: str
    value: Any


@dataclass(frozen=True, slots=True)
class Story:
    """A whole run. The seed decides latencies and dice; the moments decide what happens."""

    seed: int
    seconds: float
    replicas: int = REPLICAS
    extender: bool = False
    plugin: bool = False
    decision_log: str = ""
    qps: int = QPS
    load: str = ""
    page_size: int = 0
    mixed: bool = False
    moments: tuple[Moment, ...] = ()


def story_of(plan: Plan) -> Story:
    """What a plan means: a cluster in the beginning, and then what happens to it."""
    nodes = {"count": plan.nodes, "name": "node-{i}", "from": 0, **NODE, "zones": ["a", "b", "c"]}
    moments = [Moment(0.0, "create", HIGH), Moment(0.0, "nodes", nodes)]
    moments += [Moment(0.0, "create", each) for each in loads.set_up(plan.load, plan.nodes)]
    for step in plan.steps:
        moments += _moments(step, plan.seconds)
    moments.sort(key=lambda moment: moment.at_s)
    return Story(
        plan.seed,
        plan.seconds,
        plan.replicas,
        plan.extender,
        plan.plugin,
        plan.decision_log,
        plan.qps,
        plan.load,
        plan.page_size,
        plan.mixed,
        tuple(moments),
    )


def _moments(step: Step, end_s: float) -> Iterable[Moment]:
    until_s = round(step.at_s + step.for_s, 3)
    match step.what:
        case "pod":
            yield Moment(step.at_s, "create", _pod(step))
            if until_s < end_s:
                yield Moment(until_s, "delete", f"pod/{step.name}")
        case "gang":
            names = [f"{step.name}-{i}" for i in range(int(step.how))]
            yield Moment(step.at_s, "create", loads.gang(step.name, len(names)))
            for name in names:
                yield Moment(step.at_s, "create", _pod(replace(step, name=name), gang=step.name))
            if until_s < end_s:
                for name in names:
                    yield Moment(until_s, "delete", f"pod/{name}")
                yield Moment(until_s, "delete", f"podgroup/{step.name}")
        case "cordon-node":
            yield Moment(step.at_s, "cordon", step.name)
            if until_s < end_s:
                yield Moment(until_s, "uncordon", step.name)
        case _:
            yield Moment(step.at_s, "fault", step.fault())


def _pod(step: Step, gang: str = "") -> dict[str, Any]:
    labels = {"app": f"app-{int(step.amount)}"}
    requests = {"cpu": f"{int(step.amount)}m", "memory": "64Mi"}
    spec: dict[str, Any] = {"terminationGracePeriodSeconds": 0 if step.how == "brief" else 1}
    if step.how == "high":
        spec["priorityClassName"] = "high"
    elif step.how == "spread":
        soft = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
        spec["topologySpreadConstraints"] = [{**soft, "labelSelector": {"matchLabels": labels}}]
    elif step.how == "apart":
        term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}
        wish = {"weight": 10, "podAffinityTerm": term}
        spec["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    spec |= loads.wants(step.how)
    if gang:
        spec["schedulingGroup"] = {"podGroupName": gang}
    spec["containers"] = [{"name": "c", "image": "app", "resources": {"requests": requests}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": step.name, "labels": labels}, "spec": spec}


# ---- as a file -------------------------------------------------------------------------------------------------------

SHAPE = {
    "seed": "seed",
    "seconds": "seconds",
    "replicas": "replicas",
    "extender": "extender",
    "plugin": "plugin",
    "decisionLog": "decision_log",
    "kubeAPIQPS": "qps",
    "load": "load",
    "pageSize": "page_size",
    "mixed": "mixed",
}
_USUAL = {field.name: field.default for field in fields(Story)}


def to_text(story: Story, problems: list[str]) -> str:
    """The story as a scenario file, which `mooring scenario run --virtual-time FILE` plays again."""
    head = "".join(f"# {line}\n" for problem in problems[:3] for line in problem.splitlines())
    what = problems[0].splitlines()[0][:MAX_TITLE] if problems else "nothing went wrong"
    shape = asdict(story)
    soak = {name: shape[field] for name, field in SHAPE.items() if shape[field] != _USUAL[field]}
    lines = [yaml.dump({"title": f"A soak of seed {story.seed}: {what}", "soak": soak}, sort_keys=False), "steps:\n"]
    now_ms = 0
    for moment in story.moments:
        at_ms = round(moment.at_s * 1000)
        if at_ms > now_ms:
            lines.append(_line("advance", (at_ms - now_ms) / 1000))
            now_ms = at_ms
        lines.append(_line(moment.verb, moment.value))
    return head + "".join(lines)


def _line(verb: str, value: Any) -> str:
    return f"- {yaml.dump_line({verb: value})}\n"


def from_text(text: str | bytes, where: str) -> Story:
    """Read such a file."""
    return from_content(yaml.load(text, where), where)


def from_content(content: Any, where: str) -> Story:
    """The story in the content of a scenario file."""
    if not isinstance(content, Mapping) or "soak" not in content or not isinstance(content.get("steps"), list):
        raise InputError(f"{where}: not the story of a soak; expected soak and a list of steps")
    try:
        shape = _shape(content["soak"])
    except InputError as error:
        raise InputError(f"{where}: soak: {error}") from None
    moments, now_ms = [], 0
    for number, step in enumerate(content["steps"]):
        try:
            verb, value = _checked(step)
            if verb == "advance":
                now_ms += round(seconds(value) * 1000)
            elif verb != "say":
                moments.append(Moment(now_ms / 1000, verb, value))
        except MooringError as error:
            raise InputError(f"{where}: steps[{number}]: {error}") from None
    shape.setdefault("seconds", now_ms / 1000)
    return Story(**shape, moments=tuple(moments))


def _shape(value: Any) -> dict[str, Any]:
    shape = {}
    for name, found in fields_of(value, set(SHAPE), required=("seed",)).items():
        field = SHAPE[name]
        usual = _USUAL[field] if field not in ("seed", "seconds") else 0
        if field == "seconds":
            found = seconds(found)
        elif type(found) is not type(usual):
            raise InputError(f"{name}: expected a value such as {usual!r}, found {described(found)}")
        shape[field] = found
    if shape.get("load", "") not in ("", *loads.LOADS):
        raise InputError(f"load: expected one of {', '.join(loads.LOADS)}, found {shape['load']!r}")
    if not 1 <= shape.get("replicas", 1) <= 9:
        raise InputError(f"replicas: expected 1 to 9, found {shape['replicas']}")
    return shape


def _checked(step: Any) -> tuple[str, Any]:
    """A step's verb and value; a mistake is found before the story begins."""
    if not isinstance(step, Mapping) or len(step) != 1:
        raise InputError(f"expected one of {', '.join(_CHECKS)}, found {described(step)}")
    verb, value = next(iter(step.items()))
    if verb not in _CHECKS:
        raise InputError(f"no step {verb!r} in a story with faults; {hint(verb, _CHECKS)}")
    _CHECKS[verb](value)
    return verb, value


def _check_object(value: Any) -> None:
    if not mapping(value, "create") or not mapping(value.get("metadata"), "metadata").get("name"):
        raise InputError("create: expected one object with a name")
    kind_of(value)


def _check_fault(value: Any) -> None:
    fault_step(0.0, value)


_CHECKS: dict[str, Callable[[Any], object]] = {
    "advance": seconds,
    "cordon": lambda value: texts(value, "cordon"),
    "create": _check_object,
    "delete": lambda value: Ref.parse(str(value)),
    "fault": _check_fault,
    "nodes": named_nodes,
    "say": str,
    "uncordon": lambda value: texts(value, "uncordon"),
}


def fault_step(at_s: float, value: Any) -> Step:
    """What a ``fault`` says."""
    found = fields_of(value, {"what", "name", "for", "amount", "how"}, required=("what",))
    if found["what"] not in _FAULTS:
        raise InputError(f"fault: no fault {found['what']!r}; {hint(found['what'], _FAULTS)}")
    for_s = seconds(found.pop("for", 0.0))
    amount = found.get("amount", 0.0)
    if not isinstance(amount, int | float) or isinstance(amount, bool):
        raise InputError(f"amount: expected a number, found {described(amount)}")
    return Step(at_s, str(found["what"]), str(found.get("name", "")), for_s, amount, str(found.get("how", "")))
