"""The roles in deploy/ are enough for everything a scheduler does, and for nothing else.

The scheduler runs as its service account against an API server that enforces exactly the rendered roles, and does all
it can do: bind, preempt, bind volumes, allocate and create claims, hold the lease, write events, check who asks for
metrics. Whatever it asked for is written down.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import yaml

from mooring.controlplane.cluster.kubelet import Kubelets
from mooring.controlplane.cluster.manager import ControllerManager
from mooring.controlplane.registry.catalog import by_resource
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.access import ApiUser, Attributes, write_kubeconfig
from mooring.controlplane.serving.faults import FaultRule, Faults
from mooring.controlplane.types.status import StatusError
from mooring.live.flags import parse_flags
from mooring.live.process import SchedulerProcess
from mooring.live.settings import load_settings
from mooring.live.writer import AGAIN_S, PATCH_TRIES
from tests.controlplane.rbac import Rbac

pytestmark = pytest.mark.e2e

ACCOUNT = ApiUser(
    "system:serviceaccount:kube-system:mooring",
    groups=("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)
RBAC_KINDS = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
READ = {"get", "list", "watch"}
RBAC_GROUP, LEASES = "rbac.authorization.k8s.io", "coordination.k8s.io"
# Not asked for here: a permission that a real API server wants beside the patch of resourceclaims/status, and counting
# up an event in the core group, which takes a lease that changes hands twice.
NOT_ASKED_HERE = {
    ("patch", "resource.k8s.io", "resourceclaims/binding"),
    ("patch", "", "events"),
}
Object = dict[str, Any]


@dataclass
class Recorder:
    """Asks RBAC, and remembers what the scheduler asked for."""

    rbac: Rbac
    allowed: set[tuple[str, str, str]] = field(default_factory=set)
    refused: list[Attributes] = field(default_factory=list)

    def __call__(self, asked: Attributes) -> bool:
        is_allowed = self.rbac(asked)
        if asked.user == ACCOUNT.name and asked.resource:
            resource = asked.resource + (f"/{asked.subresource}" if asked.subresource else "")
            if is_allowed:
                self.allowed.add((asked.verb, asked.group, resource))
            else:
                self.refused.append(asked)
        return is_allowed


@dataclass
class Cluster:
    plane: ControlPlane
    recorder: Recorder
    port: int
    token: str

    def create(self, resource: str, obj: Object, namespace: str = "") -> Object:
        kind = by_resource(resource)
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
        return self.plane.api.create(kind, namespace, body).object()

    def get(self, resource: str, name: str, namespace: str = "default") -> Object:
        return self.plane.api.get(by_resource(resource), namespace, name).object()

    def node(self, name: str) -> None:
        amounts = {"cpu": "2", "memory": "8Gi", "pods": "20"}
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        self.create("nodes", {"metadata": metadata, "status": {"capacity": amounts, "allocatable": amounts}})

    def pod(self, name: str, requests: dict[str, str] | None = None, **spec: Any) -> None:
        resources = {"requests": requests or {"cpu": "100m"}}
        if requests and any("/" in key for key in requests):
            resources["limits"] = requests
        container = {"name": "c", "image": "app", "resources": resources}
        body = {"schedulerName": "mooring", "terminationGracePeriodSeconds": 0, "containers": [container], **spec}
        self.create("pods", {"metadata": {"name": name}, "spec": body}, "default")

    async def until(self, what: str, check: Callable[[], Any]) -> Any:
        found: Any = None
        for _ in range(15_000):
            with contextlib.suppress(StatusError):
                found = check()
                if found:
                    return found
            await asyncio.sleep(0.02)
        pytest.fail(f"{what}: not within 300 s; refused: {self.recorder.refused[:3]}")

    async def bound(self, name: str) -> str:
        return await self.until(f"pod {name} is bound", lambda: self.get("pods", name)["spec"].get("nodeName"))

    def events(self, pod: str, reason: str) -> list[Object]:
        found = self.plane.api.objects(by_resource("events.events.k8s.io"), "default")
        return [e for e in found if e["regarding"]["name"] == pod and e["reason"] == reason]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.asynccontextmanager
async def running(objects: list[Object], faults: Faults, folder: Any) -> AsyncIterator[Cluster]:
    """A cluster that enforces these objects' roles, and the scheduler process at work under its service account."""
    recorders: list[Recorder] = []

    def authorizer(api: Api) -> Recorder:
        recorders.append(Recorder(Rbac(api)))
        return recorders[0]

    async with ControlPlane(authorizer=authorizer, faults=faults) as plane:
        for obj in objects:
            if obj["kind"] in RBAC_KINDS:
                kind = by_resource(f"{obj['kind'].lower()}s.{RBAC_GROUP}")
                plane.api.create(kind, obj["metadata"].get("namespace", ""), obj)
        plane.api.create(
            by_resource("configmaps"),
            "kube-system",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "extension-apiserver-authentication"},
                "data": {},
            },
        )
        loop = asyncio.get_running_loop()
        kubelets, controllers = Kubelets(plane.api, loop), ControllerManager(plane.api, loop)
        kubelets.start()
        controllers.start()
        token = plane.access.issue(ACCOUNT)
        kubeconfig, config = folder / "kubeconfig", folder / "scheduler.yaml"
        write_kubeconfig(kubeconfig, plane.url, token, plane.certificate)
        text = next(o for o in objects if o["kind"] == "ConfigMap")["data"]["scheduler.yaml"]
        config.write_text(yaml.safe_dump({**yaml.safe_load(text), "clientConnection": {"kubeconfig": str(kubeconfig)}}))
        port = _free_port()
        flags = [
            f"--config={config}",
            f"--secure-port={port}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--kubernetes-version=1.37",  # it watches more than 1.36
        ]
        settings = load_settings(parse_flags(flags))
        process = SchedulerProcess(settings, settings.client_config)
        task = asyncio.create_task(process.run(signals=False))
        try:
            ready = asyncio.ensure_future(process.ready.wait())
            await asyncio.wait({task, ready}, timeout=300, return_when=asyncio.FIRST_COMPLETED)
            assert process.ready.is_set(), recorders[0].refused[:3]
            yield Cluster(plane, recorders[0], port, token)
        finally:
            process.stop()
            assert await asyncio.wait_for(task, 60) == 0
            controllers.stop()
            kubelets.stop()


async def _everything(cluster: Cluster, faults: Faults) -> None:
    """All that makes a scheduler write."""
    cluster.create("priorityclasses.scheduling.k8s.io", {"metadata": {"name": "high"}, "value": 1000})
    cluster.node("a")
    # A pod is bound; another says twice why it is not.
    for i in range(4):
        cluster.pod(f"plain-{i}")
        assert await cluster.bound(f"plain-{i}") == "a"
    cluster.pod("big", {"cpu": "99"})
    await cluster.until("big says why", lambda: cluster.events("big", "FailedScheduling"))
    leaving = iter(range(4))

    def says_it_again() -> bool:
        """Each pod that goes is a reason to try again; from the third time on, the same event is counted up."""
        told = cluster.events("big", "FailedScheduling")
        if any(event.get("series") for event in told):
            return True
        if len(told) > len(seen) and (i := next(leaving, None)) is not None:
            cluster.plane.api.delete(by_resource("pods"), "default", f"plain-{i}")
            seen[:] = told
        return False

    seen: list[Object] = []
    await cluster.until("big says it again", says_it_again)
    # A more important one takes a place.
    cluster.pod("low", {"cpu": "1500m"})
    await cluster.bound("low")
    cluster.pod("high", {"cpu": "1500m"}, priorityClassName="high")
    assert await cluster.bound("high") == "a"
    await cluster.until("an event says so", lambda: cluster.events("low", "Preempted"))
    # Volumes: one that is there, one that is to be made.
    cluster.node("b")
    await _volumes(cluster)
    # Claims: one made by a user, one that represents an extended resource and whose first binding fails.
    await _claims(cluster, faults)


async def _volumes(cluster: Cluster) -> None:
    late = {"volumeBindingMode": "WaitForFirstConsumer"}
    classes = "storageclasses.storage.k8s.io"
    cluster.create(classes, {"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner", **late})
    cluster.create(classes, {"metadata": {"name": "made"}, "provisioner": "csi.example.com", **late})
    on_b = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}
    cluster.create(
        "persistentvolumes",
        {
            "metadata": {"name": "pv-b"},
            "spec": {
                "capacity": {"storage": "5Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "local": {"path": "/mnt/b"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_b]}]}},
            },
        },
    )
    await cluster.until(
        "the volume is there",
        lambda: cluster.get("persistentvolumes", "pv-b", "")["status"].get("phase") == "Available",
    )
    for name in ("local", "made"):
        cluster.create(
            "persistentvolumeclaims",
            {
                "metadata": {"name": name},
                "spec": {
                    "storageClassName": name,
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
            "default",
        )
        cluster.pod(f"with-{name}", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": name}}])
    assert await cluster.bound("with-local") == "b"
    await cluster.bound("with-made")
    assert cluster.get("persistentvolumes", "pv-b", "")["spec"]["claimRef"]["name"] == "local"


async def _claims(cluster: Cluster, faults: Faults) -> None:
    group = "resource.k8s.io"
    cluster.create(
        f"deviceclasses.{group}", {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    )
    cluster.create(
        f"resourceslices.{group}",
        {
            "metadata": {"name": "slice-b"},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "b",
                "pool": {"name": "b", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
            },
        },
    )
    request = {"name": "g", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    cluster.create(
        f"resourceclaims.{group}",
        {"metadata": {"name": "one"}, "spec": {"devices": {"requests": [request]}}},
        "default",
    )
    cluster.pod("train", resourceClaims=[{"name": "g", "resourceClaimName": "one"}])
    assert await cluster.bound("train") == "b"
    faults.add(FaultRule("error", "POST", r"/pods/extended/binding$", code=500, times=PATCH_TRIES * len(AGAIN_S)))
    cluster.pod("extended", {"cpu": "100m", "example.com/gpu": "1"})
    assert await cluster.bound("extended") == "b"


async def _metrics(cluster: Cluster) -> int:
    """Ask for /metrics with a token, as Prometheus does; the answer's status."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    headers = {
        "Authorization": f"Bearer {cluster.plane.access.issue(ApiUser('prometheus', groups=('system:authenticated',)))}"
    }
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{cluster.port}/metrics", headers=headers, ssl=context) as answer,
    ):
        return answer.status


def _rules(objects: list[Object], kind: str) -> list[Object]:
    return [rule for o in objects if o["kind"] == kind for rule in o["rules"]]


async def test_the_roles_are_enough_and_not_more(kustomize, tmp_path):
    objects = kustomize("overlays/second-scheduler")
    faults = Faults()
    async with running(objects, faults, tmp_path) as cluster:
        await _everything(cluster, faults)
        assert await _metrics(cluster) == 403  # a known user is not necessarily allowed
        reader = {"metadata": {"name": "metrics"}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}
        cluster.create(f"clusterroles.{RBAC_GROUP}", reader)
        bound = {
            "metadata": {"name": "metrics"},
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "metrics"},
            "subjects": [{"kind": "Group", "apiGroup": RBAC_GROUP, "name": "system:authenticated"}],
        }
        cluster.create(f"clusterrolebindings.{RBAC_GROUP}", bound)
        recorder = cluster.recorder
        lease = cluster.get("leases.coordination.k8s.io", "mooring", "kube-system")
    assert recorder.refused == []
    assert lease["spec"]["holderIdentity"]
    granted = {
        (verb, group, resource)
        for rule in _rules(objects, "ClusterRole") + _rules(objects, "Role")
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    writes = {entry for entry in granted if entry[0] not in READ} - NOT_ASKED_HERE
    assert writes - recorder.allowed == set(), "granted, and never used"
    read = {(group, resource) for verb, group, resource in granted if verb in READ}
    assert read - {(group, resource) for verb, group, resource in recorder.allowed if verb in READ} == set()


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(("get", "", "secrets", "", "kube-system"), id="read a secret"),
        pytest.param(("list", "", "secrets", "", ""), id="list secrets"),
        pytest.param(("get", "", "configmaps", "", "kube-system", "coredns"), id="read another ConfigMap"),
        pytest.param(("create", "", "pods", "", "default"), id="create a pod"),
        pytest.param(("update", "", "pods", "", "default"), id="change a pod"),
        pytest.param(("create", "", "pods", "exec", "default"), id="execute in a pod"),
        pytest.param(("create", "", "pods", "eviction", "default"), id="evict through the eviction API"),
        pytest.param(("deletecollection", "", "pods", "", "default"), id="delete a collection of pods"),
        pytest.param(("patch", "", "nodes", "", ""), id="change a node"),
        pytest.param(("delete", "", "nodes", "", ""), id="delete a node"),
        pytest.param(("delete", "", "persistentvolumes", "", ""), id="delete a volume"),
        pytest.param(("create", "", "serviceaccounts", "token", "kube-system"), id="make a token"),
        pytest.param(("update", LEASES, "leases", "", "kube-system", "kube-scheduler"), id="take another's lease"),
        pytest.param(("create", LEASES, "leases", "", "default"), id="make a lease elsewhere"),
        pytest.param(("bind", RBAC_GROUP, "clusterroles", "", ""), id="bind a role"),
        pytest.param(("impersonate", "", "users", "", ""), id="impersonate a user"),
    ],
)  # fmt: skip
async def test_a_stolen_token_is_of_little_use(kustomize, asked):
    recorder = await _authorizer(kustomize("overlays/second-scheduler"))
    verb, group, resource, subresource, namespace, *name = asked
    wanted = Attributes(ACCOUNT.name, ACCOUNT.groups, verb, group, resource, subresource, namespace, "".join(name))
    assert recorder(wanted) is False


async def test_instead_of_kube_scheduler_it_may_take_its_lease_and_no_other(kustomize):
    recorder = await _authorizer(kustomize("overlays/replacement"))

    def may(name: str) -> bool:
        lease = ("update", "coordination.k8s.io", "leases", "", "kube-system", name)
        return recorder(Attributes(ACCOUNT.name, ACCOUNT.groups, *lease))

    assert may("kube-scheduler")
    assert not may("mooring") and not may("kube-controller-manager")


async def _authorizer(objects: list[Object]) -> Rbac:
    plane = ControlPlane(authorizer=Rbac)
    for obj in objects:
        if obj["kind"] in RBAC_KINDS:
            kind = by_resource(f"{obj['kind'].lower()}s.{RBAC_GROUP}")
            plane.api.create(kind, obj["metadata"].get("namespace", ""), obj)
    return Rbac(plane.api)
