"""Each step of a workload does what it says, end to end, with a scheduler on the embedded control plane."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.bench.perf import targets
from mooring.bench.perf.definitions import PerfWorkload, load
from mooring.bench.perf.report import PerfResult
from mooring.bench.perf.runner import BenchProgress, RunOptions, features_of, run_workload
from mooring.bench.workloads import DIRECTORY
from mooring.controlplane.registry.catalog import NAMESPACES, NODES, PODS, by_resource
from mooring.controlplane.registry.verbs import Options as ApiOptions
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.faults import FaultRule, Faults
from mooring.controlplane.storage.store import ADDED, DELETED, Event
from mooring.core.config.load import default_config
from mooring.live.live_scheduler import LiveScheduler
from mooring.net.credentials import StaticCredentials
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient

WriteCase = Callable[..., PerfWorkload]
OPTIONS = RunOptions(stall_s=20.0, freezes_gc=False)


async def measured(workload: PerfWorkload, options: RunOptions = OPTIONS) -> PerfResult:
    (result,) = await run_workload(workload, options)
    assert not result.error
    return result


NODES_10 = "  - {opcode: createNodes, count: 10}"
MEASURED_20 = "  - {opcode: createPods, count: 20, collectMetrics: true}"


@pytest.mark.parametrize(
    ("steps", "pods"),
    [
        pytest.param("", 20, id="pods are made and waited for"),
        pytest.param("  - {opcode: createPods, count: 5, podTemplatePath: pod.yaml}", 20, id="others are not counted"),
        pytest.param("  - {opcode: sleep, duration: 1ms}", 20, id="sleep"),
        pytest.param("  - {opcode: createNamespaces, prefix: a, count: 2, namespaceTemplatePath: namespace.yaml}\n"
                     "  - {opcode: createPodSets, count: 2, namespacePrefix: a, createPodsOp: {count: 3}}", 20,
                     id="a set of pods in each namespace"),
        pytest.param("  - {opcode: createAny, templatePath: service.yaml, count: 2, namespace: services}", 20,
                     id="anything else"),
        pytest.param("  - {opcode: churn, mode: create, number: 2, templatePaths: [high-pod.yaml, service.yaml],"
                     " intervalMilliseconds: 1}\n  - {opcode: sleep, duration: 50ms}", 20, id="churn that creates"),
        pytest.param("  - {opcode: churn, mode: recreate, number: 1, templatePaths: [pod.yaml, small-node.yaml],"
                     " intervalMilliseconds: 1}\n  - {opcode: sleep, duration: 50ms}", 20, id="churn that recreates"),
        pytest.param("  - {opcode: createPods, count: 4, namespace: doomed, podTemplatePath: pod.yaml}\n"
                     "  - {opcode: deletePods, namespace: doomed, labelSelector: {type: waiting}}", 20,
                     id="pods deleted together"),
        pytest.param("  - {opcode: createPods, count: 4, namespace: doomed, podTemplatePath: pod.yaml}\n"
                     "  - {opcode: deletePods, namespace: doomed, deletePodsPerSecond: 500,"
                     " skipWaitToCompletion: true}",
                     20, id="pods deleted beside everything else"),
        pytest.param("  - {opcode: createPods, count: 5, persistentVolumeTemplatePath: pv.yaml,"
                     " persistentVolumeClaimTemplatePath: pvc.yaml}", 20, id="pods with bound volumes"),
    ],
)  # fmt: skip
async def test_steps_before_what_is_measured(write_case: WriteCase, steps: str, pods: int) -> None:
    result = await measured(write_case("\n".join(filter(None, [NODES_10, steps, MEASURED_20]))))
    assert result.pods == pods
    assert result.throughput.average > 0
    assert result.attempts_ms["scheduled"].count >= pods
    assert result.algorithm_ms is not None and result.algorithm_ms.count >= pods
    assert result.cpu_s_per_1000 is not None and result.cpu_includes_api_server
    assert result.peak_mib


async def test_a_barrier_waits_for_an_attempt_and_an_update_opens_the_way(write_case: WriteCase) -> None:
    workload = write_case("""
  - {opcode: createNodes, count: 2}
  - {opcode: startCollectingMetrics, name: gated, namespaces: [gated]}
  - {opcode: createPods, count: 5, namespace: gated, podTemplatePath: named-pod.yaml, skipWaitToCompletion: true}
  - {opcode: barrier, namespaces: [gated], stageRequirement: Attempted}
  - {opcode: updateAny, count: 5, templatePath: named-pod-opened.yaml, namespace: gated, updatePerSecond: 1000}
  - {opcode: barrier}
  - {opcode: stopCollectingMetrics}""")
    result = await measured(workload)
    assert (result.collector, result.pods) == ("gated", 5)


async def test_nodes_that_grow_take_the_pods_that_waited(write_case: WriteCase) -> None:
    workload = write_case("""
  - {opcode: createNodes, count: 2, nodeTemplatePath: small-node.yaml}
  - {opcode: startCollectingMetrics, labelSelector: {type: waiting}}
  - {opcode: createPods, count: 6, podTemplatePath: pod.yaml, skipWaitToCompletion: true}
  - {opcode: barrier, labelSelector: {type: waiting}, stageRequirement: Attempted}
  - {opcode: updateAny, count: 2, templatePath: grown-node.yaml}
  - {opcode: barrier, labelSelector: {type: waiting}}
  - {opcode: stopCollectingMetrics}""")
    result = await measured(workload)
    assert result.pods == 6
    assert result.attempts_ms["unschedulable"].count >= 1


async def test_pods_with_a_priority_take_the_place_of_others(write_case: WriteCase) -> None:
    workload = write_case("""
  - {opcode: createNodes, countParam: $nodes}
  - {opcode: createPods, count: 4, podTemplatePath: low-pod.yaml}
  - {opcode: createPods, count: 2, podTemplatePath: high-pod.yaml, collectMetrics: true}""", nodes=2)  # fmt: skip
    assert (await measured(workload)).pods == 2


async def test_a_steady_state_lasts_for_its_duration(write_case: WriteCase) -> None:
    workload = write_case(f"""
{NODES_10}
  - {{opcode: createPods, count: 4, steadyState: true, duration: 200ms, podTemplatePath: pod.yaml,
      collectMetrics: true}}""")
    assert (await measured(workload)).pods > 4


@pytest.mark.parametrize(
    "name",
    [
        "SchedulingWithResourceClaimTemplate/fast",
        "SchedulingWithResourceClaim/fast",
        "SteadyStateClusterResourceClaimTemplate/fast",
        "SchedulingCSIPVs/5Nodes",
        "SchedulingMigratedInTreePVs/5Nodes",
        "EventHandlingPodDelete/2Nodes_20Pods",
        "EventHandlingPodUpdate/1Node_10Pods",
        "EventHandlingNodeAdd/2Nodes_20Pods",
        "EventHandlingPodAdd/10Pods",
        "EventHandlingNodeUpdate/2Nodes_20Pods",
        "SchedulingDeletedPodsWithFinalizers/10Node_100DeletingPods",
        "SchedulingWithNodeInclusionPolicy/5Nodes",
        "SchedulingRequiredPodAffinityWithNSSelector/10Nodes",
    ],
)
async def test_workloads_of_our_own(name: str) -> None:
    (workload,) = load(DIRECTORY).select([name])
    assert (await measured(workload)).pods > 0


async def test_claims_stay_allocated_beside_a_controller_that_deallocates(
    write_case: WriteCase, tmp_path: Path
) -> None:
    """kube-controller-manager deallocates a claim as soon as it sees that the claim's last pod is gone."""
    for kind, spec in (
        ("DeviceClass", "{}"),
        ("ResourceClaim", "{devices: {requests: [{name: r, exactly: {deviceClassName: any}}]}}"),
    ):
        name = "any" if kind == "DeviceClass" else "claim-{{.Index}}"
        text = f"apiVersion: resource.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        (tmp_path / "topic" / f"{kind}.yaml").write_text(text)
    workload = write_case("""
  - {opcode: createNodes, count: 2}
  - {opcode: createResourceDriver, driverName: driver.example.com, nodes: "*", maxClaimsPerNode: 2}
  - {opcode: createAny, templatePath: DeviceClass.yaml}
  - {opcode: createAny, templatePath: ResourceClaim.yaml, count: 4, namespace: held}
  - {opcode: allocResourceClaims, namespace: held}
  - {opcode: createPods, count: 1, namespace: measured, collectMetrics: true}""")
    claims = by_resource("resourceclaims.resource.k8s.io")
    allocated: list[int] = []
    async with ControlPlane(kubeconfig_path=tmp_path / "kubeconfig") as plane:

        def deallocate(name: str) -> None:
            plane.api.modify(claims, "held", name, lambda claim: claim.update(status={}), subresource="status")

        def on_pod(event: Event) -> None:
            if event.entry.namespace == "measured" and event.type == ADDED:
                allocated.append(sum(b'"allocation"' in entry.raw for entry in plane.store.iterate(claims)))
            elif event.entry.namespace == "held" and event.type == DELETED:
                deallocate(event.entry.name.removeprefix("holder-of-"))

        def on_claim(event: Event) -> None:
            """Deallocate one claim again as soon as it is written: its pod's end was heard of late."""
            status = event.entry.object().get("status") or {}
            if not late and event.entry.name == "claim-0" and "allocation" in status and "reservedFor" not in status:
                late.append(event.entry.name)
                asyncio.get_running_loop().call_soon(deallocate, "claim-0")

        late: list[str] = []
        plane.store.subscribe(PODS, on_pod)
        plane.store.subscribe(claims, on_claim)
        await measured(workload, RunOptions(kubeconfig=str(tmp_path / "kubeconfig"), freezes_gc=False, stall_s=20.0))
    assert (allocated, late) == ([4], ["claim-0"])


async def test_strategies_prepare_nodes(write_case: WriteCase) -> None:
    from mooring.bench.perf.collect import Collector, PodBoard
    from mooring.bench.perf.opcodes import Executor
    from mooring.bench.perf.targets import EmbeddedTarget

    workload = write_case("""
  - {opcode: createNodes, count: 3, labelNodePrepareStrategy: {labelKey: zone, labelValues: [a, b]}}
  - {opcode: createNodes, count: 2, uniqueNodeLabelStrategy: {labelKey: only}}
  - opcode: createNodes
    count: 1
    nodeAllocatableStrategy:
      nodeAllocatable: {example.com/disks: "7"}
      csiNodeAllocatable: {csi.example.com: {count: 7}}
      migratedPlugins: [kubernetes.io/aws-ebs]""")

    async def nothing(nodes: int) -> None:
        return None

    target = EmbeddedTarget(PodBoard())
    async with target:
        executor = Executor(
            workload, target, lambda name, matches: Collector(name, matches, None, None), settled=nothing
        )
        await executor.run()
        api = target.plane.api
        nodes = [entry.object() for entry in api.store.iterate(NODES)]
        csi_nodes = [entry.object() for entry in api.store.iterate(by_resource("csinodes.storage.k8s.io"))]
    labels = [node["metadata"]["labels"] for node in nodes]
    assert [label.get("zone") for label in labels] == ["a", "b", "a", None, None, None]
    assert len({label["only"] for label in labels if "only" in label}) == 2
    assert all(node["metadata"]["labels"]["kubernetes.io/hostname"] == node["metadata"]["name"] for node in nodes)
    assert nodes[-1]["status"]["allocatable"]["example.com/disks"] == "7"
    (csi_node,) = csi_nodes
    assert csi_node["metadata"]["name"] == nodes[-1]["metadata"]["name"]
    assert csi_node["spec"]["drivers"][0]["allocatable"] == {"count": 7}
    assert csi_node["metadata"]["annotations"] == {
        "storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"
    }


@pytest.mark.parametrize(
    ("steps", "complaint"),
    [
        pytest.param("  - {opcode: stopCollectingMetrics}", "no metrics are being collected", id="a stop too many"),
        pytest.param("  - {opcode: startCollectingMetrics}\n  - {opcode: startCollectingMetrics}",
                     "being collected already", id="a start too many"),
        pytest.param("  - {opcode: updateAny, count: 1, templatePath: grown-node.yaml}", "not found",
                     id="an update of nothing"),
        pytest.param("  - {opcode: createResourceDriver, driverName: d, nodes: x-*, maxClaimsPerNode: 1}",
                     "no node is called x-*", id="a driver without nodes"),
        pytest.param("  - {opcode: createPods, count: 2, podTemplatePath: low-pod.yaml}",
                     "2 pods are not scheduled yet, namespace-0/low-0 for one", id="pods that never get a node"),
    ],
)  # fmt: skip
async def test_a_workload_that_cannot_be_run_says_why(write_case: WriteCase, steps: str, complaint: str) -> None:
    (result,) = await run_workload(write_case(steps), RunOptions(stall_s=1.0, freezes_gc=False))
    assert complaint in result.error
    assert result.is_passed is None


async def test_progress_is_reported_meanwhile(write_case: WriteCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.bench.perf.runner.TICK_S", 0.01)
    told: list[BenchProgress] = []
    workload = write_case(f"{NODES_10}\n{MEASURED_20}\n  - {{opcode: sleep, duration: 50ms}}")
    await run_workload(workload, OPTIONS, told.append)
    assert told[-1] == BenchProgress("Case/tiny", "sleep", 20, 20)


def test_gates_that_cannot_be_switched_are_noted(write_case: WriteCase) -> None:
    import dataclasses

    workload = dataclasses.replace(
        write_case(NODES_10),
        feature_gates={"SchedulerQueueingHints": False, "SchedulerAsyncPreemption": False, "MoonPhase": True},
    )
    features, notes = features_of(workload)
    assert not features["SchedulerAsyncPreemption"]
    assert notes == ["SchedulerQueueingHints cannot be off in this version", "feature gate MoonPhase is not known here"]


# ---- elsewhere -------------------------------------------------------------------------------------------------------


async def test_over_http(write_case: WriteCase) -> None:
    result = await measured(
        write_case(f"{NODES_10}\n{MEASURED_20}"), RunOptions(over_http=True, freezes_gc=False, stall_s=20.0)
    )
    assert result.pods == 20
    assert "HTTP" in result.target


async def test_on_a_cluster_that_was_there_before(write_case: WriteCase, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with ControlPlane(kubeconfig_path=kubeconfig):
        options = RunOptions(kubeconfig=str(kubeconfig), freezes_gc=False, stall_s=20.0)
        first = await measured(write_case(f"{NODES_10}\n{MEASURED_20}"), options)
        again = await measured(write_case(f"{NODES_10}\n{MEASURED_20}"), options)
        assert (first.pods, again.pods) == (20, 20)
        assert not first.cpu_includes_api_server


async def test_a_cluster_is_left_as_it_was_found(write_case: WriteCase, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    held = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, finalizers: [example.com/hold]}\n"
    (tmp_path / "topic" / "held.yaml").write_text(held)
    async with ControlPlane(kubeconfig_path=kubeconfig) as plane:
        api = plane.api
        api.create(NODES, "", api.decode(NODES, b'{"metadata":{"name":"mine"}}', ApiOptions()))
        options = RunOptions(kubeconfig=str(kubeconfig), freezes_gc=False, stall_s=20.0)
        held_step = "  - {opcode: createAny, templatePath: held.yaml, namespace: default}"
        await measured(write_case(f"{NODES_10}\n{held_step}\n{MEASURED_20}"), options)
        assert [entry.name for entry in plane.store.iterate(NODES)] == ["mine"]
        assert plane.store.count(PODS) == 0
        assert plane.store.get(by_resource("configmaps"), "default", "held") is None
        assert plane.store.get(NAMESPACES, "", "namespace-1") is None
        assert plane.store.get(NAMESPACES, "", "default") is not None


async def test_an_unreachable_cluster_fails_immediately(write_case: WriteCase, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with ControlPlane(kubeconfig_path=kubeconfig):
        pass
    async with asyncio.timeout(300):
        [failed] = await run_workload(write_case(f"{NODES_10}\n{MEASURED_20}"), RunOptions(kubeconfig=str(kubeconfig)))
    assert "connect" in failed.error


async def test_a_cluster_that_does_not_list_its_pods_is_given_up(
    write_case: WriteCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "LIST_S", 5.0)  # longer than a busy machine needs to be told why
    kubeconfig = tmp_path / "kubeconfig"
    faults = Faults([FaultRule("error", path="/pods", times=10**6, message="the disk is gone")])
    async with ControlPlane(kubeconfig_path=kubeconfig, faults=faults):
        options = RunOptions(kubeconfig=str(kubeconfig), with_scheduler=False)
        [failed] = await run_workload(write_case(f"{NODES_10}\n{MEASURED_20}"), options)
    assert failed.error.startswith("listing the cluster's pods has failed for 5 s: ")
    assert "the disk is gone" in failed.error


async def test_with_a_scheduler_that_runs_elsewhere(write_case: WriteCase, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with ControlPlane(kubeconfig_path=kubeconfig, also_plain=True) as plane:
        config = ClientConfig(plane.plain_url, StaticCredentials(f"Bearer {plane.token}"))
        async with RestClient(config, qps=-1) as client, LiveScheduler(client, default_config()):
            options = RunOptions(kubeconfig=str(kubeconfig), with_scheduler=False, stall_s=20.0)
            result = await measured(write_case(f"{NODES_10}\n{MEASURED_20}"), options)
        assert result.pods == 20
        assert result.cpu_s is None and result.algorithm_ms is None, "what is elsewhere cannot be measured here"
        assert all((entry.fields or {}).get("spec.nodeName") for entry in plane.store.iterate(PODS))
        await asyncio.sleep(0)
