"""preempt: with which victims an author's function agrees."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from mooring.api.core import Pod
from mooring.errors import PluginError
from mooring.extender.calls import Answerer, Facts, HandlerError
from mooring.extender.offered import pod_key
from mooring.extender.requests import Body, PreemptionArgs, prepare, read_object, read_pod, read_request
from mooring.extender.sdk import Victims
from mooring.extender.signatures import called, pod_type_of


def preempt_verb(function: Callable[..., Any], where: str) -> Answerer:
    names = list(inspect.signature(function).parameters)
    if len(names) != 2:
        raise PluginError(f"{where}({', '.join(names)}): its parameters should be (pod, victims)")
    pod_type = pod_type_of(function, names[0], where)
    prepare(Pod)  # for the victims
    run = called(function)

    def answer(body: Body) -> tuple[bytes, Facts]:
        args: PreemptionArgs = read_request(PreemptionArgs, body)
        pod = read_pod(args.Pod, pod_type)
        victims = _victims(args)
        kept = run(pod, victims)
        if not isinstance(kept, Mapping):
            raise HandlerError(f"preempt returned {kept!r}; expected a mapping from node name to victims")
        meta = {str(node): _meta_victims(str(node), found, victims) for node, found in kept.items()}
        return msgspec.json.encode({"NodeNameToMetaVictims": meta}), Facts(pod_key(args.Pod), len(victims), len(meta))

    return answer


def _victims(args: PreemptionArgs) -> dict[str, Victims]:
    if args.NodeNameToVictims is not None:
        found = {}
        for node, victims in args.NodeNameToVictims.items():
            pods = [
                read_object(Pod, raw, f"NodeNameToVictims[{node}].Pods[{i}]")
                for i, raw in enumerate(victims.Pods or ())
            ]
            found[node] = Victims(pods, [pod.metadata.uid for pod in pods], victims.NumPDBViolations)
        return found
    return {
        node: Victims([], [pod.UID for pod in meta.Pods or ()], meta.NumPDBViolations)
        for node, meta in (args.NodeNameToMetaVictims or {}).items()
    }


def _meta_victims(node: str, found: Any, offered: Mapping[str, Victims]) -> dict[str, Any]:
    violations = offered[node].pdb_violations if node in offered else 0
    if isinstance(found, Victims):
        uids: Iterable[Any] = found.uids
        violations = found.pdb_violations
        if found.pods and len(found.pods) != len(found.uids):
            uids = [pod.metadata.uid for pod in found.pods]
    elif isinstance(found, str) or not isinstance(found, Iterable):
        raise HandlerError(f"preempt gives {node!r} {found!r}; expected Victims or uids")
    else:
        uids = [pod.metadata.uid if isinstance(pod, Pod) else pod for pod in found]
    return {"Pods": [{"UID": str(uid)} for uid in uids], "NumPDBViolations": violations}
