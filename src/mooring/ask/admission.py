"""Admission of Jobs by Kueue's queues: whether a Job is admitted, which workloads it preempts, and whether its pods
fit.

The quotas and workloads are those of a dump or a live cluster. Admission cycles run on a copy until nothing changes;
preempted workloads leave immediately. Then the pods of the Job are placed, as the scheduler would place them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console
from rich.markup import escape

from mooring.api.codec import from_plain
from mooring.api.core import Namespace, Pod, PodSpec
from mooring.api.errors import ApiError, InputError
from mooring.api.manifests import Manifests, load_manifests
from mooring.api.tables import print_table, printed
from mooring.api.text import count_of, nearest
from mooring.api.times import format_time
from mooring.controlplane.quotas.preemption import Victim
from mooring.controlplane.quotas.reading import (
    GROUP,
    KINDS,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    Queues,
    is_of_kueue,
    queues_of,
)
from mooring.controlplane.quotas.shapes import checked
from mooring.controlplane.quotas.workloads import Flavor, Workload
from mooring.core.session import Session
from mooring.core.state.requests import written

if TYPE_CHECKING:
    from mooring.net.rest import RestClient

Plain = Mapping[str, Any]
_ASKED = "asked"  # the uid of the workload in question


@dataclass(slots=True)
class Admission:
    """Outcome for a Job in its queue. Printed, it reads as ``mooring admission`` shows it."""

    job: str
    queue: str  # the ClusterQueue
    is_admitted: bool = False
    flavors: dict[str, str] = field(default_factory=dict)  # by resource
    preempted: list[Victim] = field(default_factory=list)
    message: str = ""  # why it waits
    before: list[str] = field(default_factory=list)  # other pending workloads that are admitted first
    until: list[str] = field(default_factory=list)  # if these end, the oldest first, it is admitted
    pods: int = 0
    placed: int = 0
    refusal: str = ""  # why the scheduler has no place for the next pod
    usage: list[tuple[str, str, int, int]] = field(default_factory=list)  # flavor, resource, used, quota

    @property
    def runs(self) -> bool:
        """Report whether it is admitted and all its pods have a place."""
        return self.is_admitted and self.placed == self.pods

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values in camelCase, as ``-o json`` prints it."""
        return {
            "job": self.job,
            "clusterQueue": self.queue,
            "isAdmitted": self.is_admitted,
            "flavors": self.flavors,
            "preempted": [
                {"workload": each.workload.key, "clusterQueue": each.workload.queue, "reason": each.reason}
                for each in self.preempted
            ],
            "message": self.message,
            "admittedBefore": self.before,
            "waitsUntilEnded": self.until,
            "pods": self.pods,
            "placed": self.placed,
            "refusal": self.refusal,
            "quota": [
                {"flavor": flavor, "resource": name, "used": written(name, used), "nominal": written(name, quota)}
                for flavor, name, used, quota in self.usage
            ],
        }

    def __repr__(self) -> str:
        return printed(lambda to: draw(to, self))


def admission(found: Manifests, session: Session, job: str, *, queue: str = "", is_fair: bool = False) -> Admission:
    """Decide about a Job: a file with its manifest, or the name of a pending one.

    ``found`` has all objects of the cluster, Kueue's among them; ``session`` is a scheduler for the same cluster.
    """
    objects: list[Plain] = [checked(obj) for obj in found.other if is_of_kueue(obj)]
    if not any(obj["kind"] == "ClusterQueue" for obj in objects):
        raise InputError("the cluster has no ClusterQueue; expected a dump with Kueue's objects, see docs/quotas.md")
    namespaces = {each.name: each.metadata.labels for each in found.of(Namespace)}
    objects, asked = _asked(objects, found, job, queue)
    read = _read(objects, namespaces, is_fair)
    workload = read.workloads.get(asked)
    if workload is None:
        raise InputError(f"{job}: the workload has finished or is not active")
    answer = Admission(_shown(workload, found), workload.queue, pods=sum(each.count for each in workload.pod_sets))
    if asked in read.problems:
        answer.message = read.problems[asked]
        return answer
    before = {key for key, each in read.workloads.items() if each.assignment is not None}
    if workload.assignment is None:
        answer.preempted = _settle(read, workload)
    answer.is_admitted = workload.assignment is not None
    admitted = [each for each in read.workloads.values() if each.assignment is not None and each.key not in before]
    answer.before = sorted(each.key for each in admitted if each is not workload)
    node = read.quotas.queues[workload.queue].node
    answer.usage = [(*of, node.usage.get(of, 0), quota.nominal) for of, quota in node.quotas.items()]
    if workload.assignment is None:
        answer.message = workload.message
        answer.until = _until(objects, namespaces, is_fair, asked)
    else:
        answer.flavors = {name: flavor for each in workload.assignment.flavors for name, flavor in each.items()}
        _place(answer, workload, read, found, session)
    return answer


async def read_queues(kubeconfig: str, context: str, *, give: str) -> list[Plain]:
    """Return all Kueue objects in a live cluster, including its Jobs' Workloads; nothing is written."""
    from mooring.net.kubeconfig import find_config
    from mooring.net.rest import RestClient, user_agent

    client = RestClient(find_config(kubeconfig, context=context, give=give), agent=user_agent("mooring", "admission"))
    found: list[Plain] = []
    try:
        version = await _served_version(client)
        for kind in KINDS if version else ():
            plural = f"{kind.lower()}es" if kind.endswith("s") else f"{kind.lower()}s"
            listed = msgspec.json.decode((await client.get(f"/apis/{GROUP}/{version}/{plural}")).body)
            found += [{"apiVersion": f"{GROUP}/{version}", "kind": kind, **item} for item in listed.get("items") or ()]
    finally:
        await client.close()
    return found


async def _served_version(client: RestClient) -> str:
    """Return the newest supported version of Kueue's API; "" if Kueue is not installed."""
    try:
        group = msgspec.json.decode((await client.get(f"/apis/{GROUP}")).body)
    except ApiError as error:
        if error.code == 404:
            return ""
        raise
    served = {each.get("version") for each in group.get("versions") or ()}
    return next((version for version in ("v1beta2", "v1beta1") if version in served), "")


def _read(objects: Iterable[Plain], namespaces: Mapping[str, Mapping[str, str]], is_fair: bool) -> Queues:
    read = queues_of(objects, namespaces)
    read.quotas.is_fair = is_fair
    return read


def _settle(read: Queues, asked: Workload) -> list[Victim]:
    """Run cycles until nothing changes; return the victims of the requested workload."""
    found: dict[str, Victim] = {}
    while True:
        preempted = [pair for done in read.quotas.run(0.0) for pair in done.preempted]
        for by, victim in preempted:
            if by is asked:
                found[victim.workload.key] = victim
        leaving = [each for each in read.workloads.values() if each.is_evicted and each.assignment is not None]
        if not leaving or asked.assignment is not None:
            return list(found.values())
        for each in leaving:
            read.quotas.released(each)


def _until(
    objects: Sequence[Plain], namespaces: Mapping[str, Mapping[str, str]], is_fair: bool, asked: str
) -> list[str]:
    """Return the admitted workloads that must end, the oldest first, before the requested one is admitted; empty if it
    never is.
    """
    first = _read(objects, namespaces, is_fair)
    running = sorted((each for each in first.workloads.values() if each.assignment), key=lambda each: each.reserved)
    for count in range(1, len(running) + 1):
        read = _read(objects, namespaces, is_fair)
        for each in running[:count]:
            read.quotas.remove(read.workloads.pop(each.key))
        _settle(read, read.workloads[asked])
        if read.workloads[asked].assignment is not None:
            return [each.key for each in running[:count]]
    return []


# --------------------------------------------------------------------------------------------------------------------
# The asked Job as a Workload


def _asked(objects: list[Plain], found: Manifests, job: str, queue: str) -> tuple[list[Plain], str]:
    """Return the objects with the requested Workload, and its key."""
    if Path(job).exists() or job.endswith((".yaml", ".yml", ".json")):
        jobs = [value for _, value in load_manifests([job]).workloads if value["kind"] == "Job"]
        if len(jobs) != 1:
            raise InputError(f"{job}: found {count_of(len(jobs), 'Job')}; expected one")
        workload = _workload_of(checked(jobs[0]), job, objects, found, queue)
        return [*objects, workload], f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
    key = job if "/" in job else f"default/{job}"
    names: dict[str, str] = {}
    for obj in objects:
        if obj["kind"] == "Workload":
            metadata = obj["metadata"]
            namespace = metadata.get("namespace", "default")
            for owner in metadata.get("ownerReferences") or ():
                names[f"{namespace}/{owner.get('name')}"] = f"{namespace}/{metadata['name']}"
            names[f"{namespace}/{metadata['name']}"] = f"{namespace}/{metadata['name']}"
    if key not in names:
        near = nearest(key, names, cutoff=0.8)
        raise InputError(
            f"{job}: no such file, and no Workload or Job of that name in a queue"
            + (f"; did you mean {near}?" if near else "")
        )
    return objects, names[key]


def _workload_of(job: Plain, where: str, objects: Iterable[Plain], found: Manifests, queue: str) -> dict[str, Any]:
    """Return the Workload that Kueue would create for a Job, the last in its queue."""
    metadata, spec = job.get("metadata") or {}, job.get("spec") or {}
    labels = metadata.get("labels") or {}
    name = queue or labels.get(QUEUE_LABEL, "")
    if not name:
        raise InputError(f"{where}: metadata.labels: no {QUEUE_LABEL}; expected the name of a LocalQueue, or --queue")
    template = spec.get("template")
    if not template:
        raise InputError(f"{where}: spec.template: found none; expected the template of a pod")
    class_name = labels.get(PRIORITY_LABEL) or (template.get("spec") or {}).get("priorityClassName", "")
    kind = "WorkloadPriorityClass" if labels.get(PRIORITY_LABEL) else "PriorityClass"
    values = {obj["metadata"]["name"]: obj.get("value", 0) for obj in objects if obj["kind"] == kind}
    if kind == "PriorityClass":
        values = {each.name: getattr(each, "value", 0) for each in found.objects if each.kind == kind}
    if class_name and class_name not in values:
        raise InputError(f"{where}: there is no {kind} {class_name!r}")
    parallelism = spec.get("parallelism", 1)
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": f"job-{metadata.get('name', 'asked')}",
            "namespace": metadata.get("namespace", "default"),
            "uid": _ASKED,
            "creationTimestamp": format_time(1 << 32),  # after all others
            "ownerReferences": [{"kind": "Job", "name": metadata.get("name", "asked")}],
        },
        "spec": {
            "queueName": name,
            "priority": values.get(class_name, 0),
            "podSets": [
                {
                    "name": "main",
                    "count": min(parallelism, spec.get("completions") or parallelism),
                    "template": template,
                }
            ],
        },
    }


def _shown(workload: Workload, found: Manifests) -> str:
    """Return the name of the Job, or of the Workload if it has no owner."""
    for obj in (checked(each) for each in found.other if is_of_kueue(each)):
        if obj["kind"] == "Workload":
            key = f"{obj['metadata'].get('namespace', 'default')}/{obj['metadata']['name']}"
            owners = obj["metadata"].get("ownerReferences") or ()
            if key == workload.key and owners:
                return f"{obj['metadata'].get('namespace', 'default')}/{owners[0].get('name', '')}"
    return workload.key.replace("/job-", "/", 1) if workload.uid == _ASKED else workload.key


# --------------------------------------------------------------------------------------------------------------------
# Its pods


def _place(answer: Admission, workload: Workload, read: Queues, found: Manifests, session: Session) -> None:
    """Place the pods without those of the victims; a running Job has its pods."""
    fork = session.fork()
    gone = {victim.workload.key for victim in answer.preempted}
    jobs = {_shown(each, found) for key, each in read.workloads.items() if key in gone}
    mine = _shown(workload, found)
    for info in list(fork.state.pods()):
        owner = info.pod.metadata.controller()
        if owner is not None and owner.kind == "Job" and f"{info.pod.namespace}/{owner.name}" in jobs:
            fork.state.remove_pod(info.uid)
        elif owner is not None and f"{info.pod.namespace}/{owner.name}" == mine and info.pod.spec.node_name:
            answer.placed += 1
    assert workload.assignment is not None
    for pod_set, chosen in zip(workload.pod_sets, workload.assignment.flavors, strict=True):
        flavors = [read.quotas.flavors[name] for name in dict.fromkeys(chosen.values()) if name in read.quotas.flavors]
        for number in range(pod_set.count):
            if answer.placed >= answer.pods:
                return
            pod: Pod = from_plain(
                Pod, {"metadata": {"name": f"{workload.key.partition('/')[2]}-{pod_set.name}-{number}"}}
            )
            pod.metadata.namespace = workload.key.partition("/")[0]
            pod.metadata.uid = f"{_ASKED}-{pod_set.name}-{number}"
            pod.spec = _on(pod_set.spec, flavors)
            decision = fork.place(fork.info(pod))
            if decision.node is None:
                answer.refusal = decision.message
                return
            answer.placed += 1


def _on(spec: PodSpec, flavors: Iterable[Flavor]) -> PodSpec:
    """Return the pod's spec restricted to the nodes of its flavors."""
    made = copy(spec)
    for flavor in flavors:
        made.node_selector = {**(made.node_selector or {}), **flavor.labels}
        made.tolerations = [*made.tolerations, *flavor.tolerations]
    return made


# --------------------------------------------------------------------------------------------------------------------
# How it looks in print


def draw(to: Console, found: Admission) -> None:
    """Print whether the Job is admitted, after which workloads, by which preemptions, and what its pods do then."""
    colour = "green" if found.runs else "red"
    to.print(f"[{colour}]{escape(headline(found))}[/{colour}]")
    if found.message:
        to.print(escape(found.message))
    if found.before:
        to.print(f"Admitted before it: {escape(', '.join(found.before))}")
    if found.until:
        to.print(f"Admitted when these end, the oldest first: {escape(', '.join(found.until))}")
    if found.refusal:
        to.print(escape(found.refusal))
    if found.preempted:
        to.print()
        rows = [(each.workload.key, each.workload.queue, each.reason) for each in found.preempted]
        print_table(to, ["PREEMPTED", "CLUSTERQUEUE", "REASON"], rows)
    if found.usage:
        to.print()
        usage = [
            (flavor, name, written(name, used), written(name, quota), written(name, max(0, used - quota)))
            for flavor, name, used, quota in found.usage
        ]
        print_table(to, ["FLAVOR", "RESOURCE", "USED THEN", "QUOTA", "BORROWED"], usage)


def headline(found: Admission) -> str:
    """Return one line: whether it is admitted, and whether its pods fit."""
    if not found.is_admitted:
        return f"{found.job} waits for quota" + (f" in ClusterQueue {found.queue}" if found.queue else "")
    flavors = ", ".join(dict.fromkeys(found.flavors.values()))
    after = f" after the preemption of {count_of(len(found.preempted), 'workload')}" if found.preempted else ""
    head = f"{found.job} is admitted by ClusterQueue {found.queue}{after}, in {flavors}"
    if found.placed == found.pods:
        return f"{head}; {'its pod has' if found.pods == 1 else f'all {found.pods} pods have'} a node"
    return f"{head}, but only {found.placed} of {count_of(found.pods, 'pod')} fit"
