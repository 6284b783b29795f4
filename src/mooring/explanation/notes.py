"""What else is worth knowing: the facts behind refusals, and the pod's claims and volumes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.api.wording import expression_text
from mooring.engine.decision import Decision
from mooring.explanation.refusers import signers
from mooring.framework.runtime import Profile
from mooring.state.cluster import Cluster
from mooring.state.pod_info import PodInfo


def facts(decision: Decision, profile: Profile, cluster: Cluster) -> list[str]:
    """What plugins say that the cluster has where the pod asks for something else, most refused nodes first."""
    if not decision.num_nodes:
        return ["the cluster has no Node objects"]
    refused: dict[str, list[int]] = {}
    for status, rows in decision.statuses.groups() if decision.statuses is not None else ():
        for name in signers(status, decision):
            refused.setdefault(name, []).extend(rows.tolist())
    found: list[str] = []
    for name, mine in sorted(refused.items(), key=lambda entry: -len(entry[1])):
        plugin = profile.plugins.get(name)
        if plugin is None or plugin.facts is None:
            continue
        nodes = cluster.nodes().subset(np.array(sorted(mine), np.int64))
        try:
            found += plugin.facts(decision.state, decision.pod, nodes)
        except Exception as error:  # a user's plugin must not cost the whole explanation
            found.append(f"plugin {name} could not state facts: {type(error).__name__}: {error}")
    return list(dict.fromkeys(found))


def volume_notes(pod: PodInfo, cluster: Cluster) -> Iterator[str]:
    """What is known of the pod's claims and where their volumes can be reached."""
    for name in dict.fromkeys(pod.shape.claim_names):
        key = f"{pod.pod.namespace}/{name}"
        claim = cluster.objects.get(PersistentVolumeClaim, key)
        if claim is None:
            yield f"claim {key} does not exist"
        elif not claim.spec.volume_name:
            kind = claim.spec.storage_class_name
            yield f"claim {key} is not bound yet" + (f" (storage class {kind})" if kind else "")
        else:
            volume = cluster.objects.get(PersistentVolume, claim.spec.volume_name)
            yield f"claim {key} is bound to volume {claim.spec.volume_name}" + _reachable(volume)


def _reachable(volume: PersistentVolume | None) -> str:
    if volume is None:
        return ", which does not exist"
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return ""
    terms = [
        " and ".join(expression_text(e.key, e.operator, e.values) for e in term.match_expressions)
        for term in affinity.required.node_selector_terms
    ]
    return f", reachable from nodes with {' or '.join(terms)}"
