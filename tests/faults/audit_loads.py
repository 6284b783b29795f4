"""What must hold of volumes and devices at every write, by any client.

Only what a write touches is looked at: a volume's claim, a claim's devices, and what a pod uses when it is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.registry.groups.scheduling import RESOURCE_CLAIMS
from mooring.controlplane.registry.groups.volumes import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.controlplane.storage.store import DELETED, Event, Store, StoredEntry

Device = tuple[str, str, str]  # driver, pool, name


class LoadAudit:
    """Follows one store."""

    def __init__(self, store: Store, tell: Callable[[str], None]) -> None:
        self._store, self._tell = store, tell
        self._holders: dict[Device, str] = {}  # the claim's uid
        self._devices: dict[str, list[Device]] = {}  # of each claim, by uid
        for entry in store.iterate(RESOURCE_CLAIMS):
            self._take(entry)
        store.subscribe(PERSISTENT_VOLUMES, self._volume)
        store.subscribe(RESOURCE_CLAIMS, self._claim)

    # ---- volumes -----------------------------------------------------------------------------------------------

    def _volume(self, event: Event) -> None:
        """A volume that has a claim must not be given to another one while the first is bound to it."""
        before = event.previous
        if before is None or event.type == DELETED or before.uid != event.entry.uid:
            return
        old = before.object()["spec"].get("claimRef") or {}
        new = event.entry.object()["spec"].get("claimRef") or {}
        if old.get("uid") and new.get("uid") and old["uid"] != new["uid"]:
            claim = self._store.get(PERSISTENT_VOLUME_CLAIMS, old["namespace"], old["name"])
            if claim is not None and claim.uid == old["uid"]:
                name = event.entry.name
                self._tell(f"volume {name} of claim {old['name']} was given to claim {new['name']}")

    def _check_volumes(self, entry: StoredEntry, pod: dict[str, Any], node: StoredEntry | None) -> None:
        for volume in pod["spec"].get("volumes") or ():
            if "ephemeral" not in volume:
                continue
            claim = self._store.get(PERSISTENT_VOLUME_CLAIMS, entry.namespace, f"{entry.name}-{volume['name']}")
            if claim is None:
                self._tell(f"pod {entry.key} was bound although its claim {volume['name']} is gone")
                continue
            name = claim.object()["spec"].get("volumeName", "")
            found = self._store.get(PERSISTENT_VOLUMES, "", name) if name else None
            if found is None:
                self._tell(f"pod {entry.key} was bound although its claim has no volume")
                continue
            spec = found.object()["spec"]
            if (spec.get("claimRef") or {}).get("uid") != claim.uid:
                self._tell(f"pod {entry.key} was bound although its volume {name} is another claim's")
            if node is not None and not _reaches(spec, node):
                self._tell(f"pod {entry.key} was bound to {node.name}, from where its volume {name} cannot be reached")

    # ---- devices -----------------------------------------------------------------------------------------------

    def _claim(self, event: Event) -> None:
        self._give_back(event.entry.uid)
        if event.type != DELETED:
            self._take(event.entry)

    def _give_back(self, uid: str) -> None:
        for device in self._devices.pop(uid, ()):
            if self._holders.get(device) == uid:
                del self._holders[device]

    def _take(self, entry: StoredEntry) -> None:
        devices = [_device(result) for result in _results(entry)]
        if not devices:
            return
        self._devices[entry.uid] = devices
        for device in devices:
            holder = self._holders.setdefault(device, entry.uid)
            if holder != entry.uid:
                self._tell(f"device {'/'.join(device)} was given to {entry.key} while another claim has it")

    def _check_devices(self, entry: StoredEntry, pod: dict[str, Any], node: StoredEntry | None) -> None:
        if not pod["spec"].get("resourceClaims"):
            return
        for made in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
            claim = self._store.get(RESOURCE_CLAIMS, entry.namespace, made["resourceClaimName"])
            status = {} if claim is None else claim.object().get("status") or {}
            if not any(user.get("uid") == entry.uid for user in status.get("reservedFor") or ()):
                self._tell(f"pod {entry.key} was bound although its claim is not reserved for it")
            elif claim is not None and node is not None:
                pools = {_device(result)[1] for result in _results(claim)}
                if pools != {node.name}:
                    self._tell(f"pod {entry.key} was bound to {node.name}, and its devices are on {sorted(pools)}")

    # ---- pods --------------------------------------------------------------------------------------------------

    def bound(self, event: Event) -> None:
        """A pod has just been bound."""
        entry = event.entry
        pod = entry.object()
        if "volumes" not in pod["spec"] and "resourceClaims" not in pod["spec"]:
            return
        node = self._store.get(NODES, "", pod["spec"]["nodeName"])
        self._check_volumes(entry, pod, node)
        self._check_devices(entry, pod, node)


def half_bound(store: Store, namespace: str) -> list[str]:
    """Gangs of which some pods are on nodes and others wait."""
    gangs: dict[str, set[bool]] = {}
    for entry in store.iterate(PODS, namespace):
        if b'"schedulingGroup"' in entry.raw:
            spec = entry.object()["spec"]
            gangs.setdefault(spec["schedulingGroup"]["podGroupName"], set()).add(bool(spec.get("nodeName")))
    return [f"gang {name} is bound by half" for name, are_bound in sorted(gangs.items()) if len(are_bound) == 2]


def _results(entry: StoredEntry) -> list[dict[str, Any]]:
    if b'"allocation"' not in entry.raw:
        return []
    allocation = (entry.object().get("status") or {}).get("allocation") or {}
    results: list[dict[str, Any]] = (allocation.get("devices") or {}).get("results") or []
    return results


def _device(result: dict[str, Any]) -> Device:
    return result["driver"], result["pool"], result["device"]


def _reaches(spec: dict[str, Any], node: StoredEntry) -> bool:
    """Whether the volume can be reached from a node; the terms of these volumes have one expression with In."""
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    return not terms or any(
        all(node.labels.get(each["key"]) in each["values"] for each in term["matchExpressions"]) for term in terms
    )
