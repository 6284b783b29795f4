"""Every rule: a manifest that makes the mistake, with its line, and one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api import yaml
from mooring.api.errors import UsageError
from mooring.ask.lint.findings import Finding
from mooring.ask.lint.lint import all_rules, lint
from mooring.ask.scheduler import Scheduler
from mooring.core.cluster import Cluster
from mooring.core.config.versions import VERSIONS
from mooring.testing import make_node, make_object, make_pod

DAEMON = {"ownerReferences": [{"kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}]}


def cluster() -> Cluster:
    """Two zones; a tainted node for GPUs; an agent on every node takes one of four cores."""
    return Cluster(
        make_node("a", zone="north", labels={"disk": "ssd"}),
        make_node("b", zone="south", labels={"disk": "hdd"}),
        make_node("g", zone="south", labels={"gpu": "true"}, taints=["dedicated=gpu:NoSchedule"], cpu="8"),
        *(make_pod(f"agent-{name}", node=name, cpu="1", metadata=DAEMON) for name in "abg"),
        make_pod("web-0", node="a", cpu="2", labels={"app": "old"}),
        make_object("PriorityClass", "customers", value=1000),
        make_object("PriorityClass", "batch", value=10),
        make_object(
            "StorageClass",
            "west",
            allowedTopologies=[{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["west"]}]}],
        ),
        make_object("StorageClass", "anywhere"),
        make_object("PersistentVolumeClaim", "west-data", "default", spec={"storageClassName": "west"}),
    )


def found(text: str, path: Path, rule: str = "", **options: Any) -> list[Finding]:
    file = path / "manifest.yaml"
    file.write_text(text)
    options.setdefault("cluster", cluster())
    return [each for each in lint(file, **options) if not rule or each.rule == rule]


def pod(spec: str, labels: str = "{app: web}") -> str:
    """A pod whose spec begins in line 4 with these lines, each indented by two."""
    lines = "\n".join(f"  {line}" for line in spec.strip().splitlines())
    head = f"kind: Pod\nmetadata: {{name: web, labels: {labels}}}\nspec:\n"
    return f"{head}{lines}\n  containers: [{{name: main, image: x}}]\n"


def deployment(replicas: int, spec: str) -> str:
    lines = "\n".join(f"      {line}" for line in spec.strip().splitlines())
    return (
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: {replicas}\n"
        "  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n"
        f"{lines}\n      containers: [{{name: main, image: x}}]\n"
    )


def asking(**amounts: str) -> str:
    requests = ", ".join(f"{name}: {amount!r}" for name, amount in amounts.items())
    return (
        "kind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n"
        f"  - {{name: main, image: x, resources: {{requests: {{{requests}}}}}}}\n"
    )


ANTI = """affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}"""
SPREAD = """topologySpreadConstraints:
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: DoNotSchedule
  labelSelector: {matchLabels: {app: web}}"""


def budget(spec: str, app: str = "web") -> str:
    return (
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec:\n"
        f"  {spec}\n  selector: {{matchLabels: {{app: {app}}}}}\n---\n"
        + deployment(3, "terminationGracePeriodSeconds: 1")
    )


def priority(name: str, value: int) -> str:
    return f"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: {value}\n"


def claim(spec: str) -> str:
    return f"kind: PersistentVolumeClaim\nmetadata: {{name: data}}\nspec:\n  accessModes: [ReadWriteOnce]\n  {spec}\n"


@pytest.mark.parametrize(
    ("rule", "text", "line", "message"),
    [
        pytest.param("invalid-manifest", "kind: ]", 1, "not valid YAML", id="no YAML"),
        pytest.param(
            "invalid-manifest", asking(cpu="many"), 5, "containers[0].resources.requests[cpu]", id="no quantity"
        ),
        pytest.param(
            "unknown-field",
            pod("nodeSelectr: {disk: ssd}"),
            4,
            'unknown field "spec.nodeSelectr"',
            id="a misspelt field",
        ),
        pytest.param(
            "no-matching-node", pod("nodeSelector:\n  disk: sdd"), 4, "disk is ssd on 1 node, hdd on 1", id="a value"
        ),
        pytest.param(
            "no-matching-node",
            pod(
                "affinity:\n  nodeAffinity:\n    requiredDuringSchedulingIgnoredDuringExecution:\n"
                "      nodeSelectorTerms: [{matchExpressions: [{key: rack, operator: Exists}]}]"
            ),
            6,
            "no node has the label rack",
            id="an affinity",
        ),
        pytest.param(
            "untolerated-taint",
            pod("nodeSelector: {gpu: 'true'}"),
            3,
            "the 1 node that it may go to have taints that it does not tolerate, such as dedicated=gpu:NoSchedule",
            id="a selector that leads to a tainted node",
        ),
        pytest.param(
            "request-too-large",
            asking(cpu="3500m"),
            4,
            "asks for 3500m of cpu; an empty node has at most 3 (a)",
            id="a core goes to the DaemonSet, and the large node is tainted",
        ),
        pytest.param(
            "request-too-large",
            asking(**{"example.com/gpu": "1"}),
            4,
            "asks for 1 of example.com/gpu; no node that it may go to has any",
            id="a resource that no node has",
        ),
        pytest.param(
            "unknown-toleration",
            pod("tolerations:\n- {key: dedicatd, operator: Exists}"),
            5,
            "no node has a taint that dedicatd tolerates",
            id="a misspelt key",
        ),
        pytest.param(
            "unknown-toleration",
            pod("tolerations:\n- {key: dedicated, value: cpu}"),
            5,
            "no node has a taint that dedicated=cpu tolerates",
            id="another value",
        ),
        pytest.param(
            "unknown-topology-key",
            pod(SPREAD.replace("/zone", "/zoone")),
            6,
            "no node has the label topology.kubernetes.io/zoone",
            id="a misspelt topology key",
        ),
        pytest.param(
            "spread-cannot-hold",
            deployment(3, ANTI),
            5,
            "anti-affinity over kubernetes.io/hostname leaves room for 2 pods of 3",
            id="more replicas than nodes",
        ),
        pytest.param(
            "spread-misses-own-pods",
            pod(SPREAD, labels="{app: wbe}"),
            5,
            "it counts app=web, and the pod itself is not among them",
            id="another label",
        ),
        pytest.param("budget-blocks-drain", budget("maxUnavailable: 0"), 5, "allows no eviction", id="none may go"),
        pytest.param("budget-blocks-drain", budget("maxUnavailable: 0%"), 5, "allows no eviction", id="0 % may go"),
        pytest.param(
            "budget-blocks-drain", budget("minAvailable: 3"), 5, "minAvailable: 3 of 3 pods", id="all must stay"
        ),
        pytest.param(
            "budget-blocks-drain", budget("minAvailable: 67%"), 5, "minAvailable: 67% of 3 pods", id="rounded up to all"
        ),
        pytest.param(
            "budget-selects-nothing", budget("minAvailable: 1", app="wbe"), 6, "app=wbe selects no pod", id="no pods"
        ),
        pytest.param(
            "unknown-priority-class",
            pod("priorityClassName: custmers"),
            4,
            "there is no PriorityClass custmers",
            id="a class that is not there",
        ),
        pytest.param(
            "priority-order",
            priority("batch", 2000),
            4,
            "batch was 10 and becomes 2000, above customers (1000)",
            id="over",
        ),
        pytest.param(
            "priority-order",
            priority("high", 5) + "---\n" + priority("low", 50),
            4,
            "high (5) is lower than low (50), against their names",
            id="names",
        ),
        pytest.param(
            "claim-out-of-reach",
            claim("storageClassName: west"),
            5,
            "no node is where the class west can be used: topology.kubernetes.io/zone is south on 2 nodes, north on 1",
            id="a class of another zone",
        ),
        pytest.param(
            "claim-out-of-reach",
            "kind: PersistentVolume\nmetadata: {name: disk-1}\nspec:\n  nodeAffinity:\n    required:\n"
            "      nodeSelectorTerms:\n      - matchExpressions:\n"
            "        - {key: topology.kubernetes.io/zone, operator: In, values: [west]}\n",
            4,
            "no node is where the volume disk-1 can be used",
            id="a volume of another zone",
        ),
        pytest.param(
            "claim-out-of-reach",
            pod("volumes:\n- {name: data, persistentVolumeClaim: {claimName: west-data}}"),
            5,
            "no node is where the class west can be used",
            id="a pod with a claim of another zone",
        ),
        pytest.param(
            "claim-out-of-reach",
            "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec:\n  volumeClaimTemplates:\n"
            "  - metadata: {name: data}\n    spec:\n      storageClassName: west\n  template:\n"
            "    metadata: {labels: {app: db}}\n    spec: {containers: [{name: db, image: x}]}\n",
            8,
            "no node is where the class west can be used",
            id="a StatefulSet with claims of another zone",
        ),
    ],
)
def test_a_mistake_is_found_where_it_is(rule: str, text: str, line: int, message: str, tmp_path: Path) -> None:
    (finding, *more) = found(text, tmp_path, rule)
    assert (finding.line, more) == (line, [])
    assert message in finding.message
    assert finding.fix


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(pod("nodeSelector: {disk: ssd}"), id="a label that a node has"),
        pytest.param(
            pod("nodeSelector: {gpu: 'true'}\ntolerations:\n- {key: dedicated, value: gpu}"), id="a tolerated taint"
        ),
        pytest.param(asking(cpu="3"), id="all that is left beside the DaemonSet"),
        pytest.param(pod("tolerations: [{operator: Exists}]"), id="a toleration of everything"),
        pytest.param(
            pod("tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}]"),
            id="a taint that comes and goes",
        ),
        pytest.param(deployment(2, ANTI), id="as many replicas as nodes"),
        pytest.param(deployment(2, SPREAD), id="spreading over two zones"),
        pytest.param(budget("maxUnavailable: 1"), id="one may go"),
        pytest.param(budget("minAvailable: 2"), id="two of three must stay"),
        pytest.param(pod("priorityClassName: customers"), id="a class of the cluster"),
        pytest.param(pod("priorityClassName: system-node-critical"), id="a class that every cluster has"),
        pytest.param(priority("mine", 5) + "---\n" + pod("priorityClassName: mine"), id="a class of the manifests"),
        pytest.param(priority("batch", 20), id="a value that changes no order"),
        pytest.param(claim("storageClassName: anywhere"), id="a class without zones"),
        pytest.param("kind: Application\napiVersion: argoproj.io/v1alpha1\nspec: {x: 1}\n", id="a kind of others"),
        pytest.param(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: load-}\nspec: {template: {spec: "
            "{containers: [{name: a, image: b}], restartPolicy: Never}}}\n",
            id="a name that the server makes",
        ),
    ],
)
def test_what_is_right_is_let_be(text: str, tmp_path: Path) -> None:
    assert found(text, tmp_path) == []


def test_demands_that_are_met_only_one_by_one(tmp_path: Path) -> None:
    """A host port that an agent has on the only node of its zone."""
    ports = [{"containerPort": 80, "hostPort": 80}]
    agent = make_pod("agent-b", node="b", metadata=DAEMON, spec={"containers": [{"name": "a", "ports": ports}]})
    text = (
        "kind: Pod\nmetadata: {name: web}\nspec:\n  nodeSelector: {disk: hdd}\n  containers: [{name: a, ports: %s}]\n"
    )
    everything = cluster()
    everything.remove("pod/agent-b")
    everything.add(agent)
    (finding,) = found(text % ports, tmp_path, cluster=everything)
    assert finding.rule == "fits-nowhere"
    assert finding.message.startswith("0/3 nodes are available: 1 node(s) didn't have free ports")


def daemon_set(name: str) -> str:
    return (
        f"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: {name}}}\nspec:\n"
        "  selector: {matchLabels: {app: x}}\n"
        "  template:\n    metadata: {labels: {app: x}}\n    spec:\n"
        "      containers: [{name: main, image: x, resources: {requests: {cpu: 500m}}}]\n"
    )


def test_a_daemon_set_of_the_manifests_takes_its_share(tmp_path: Path) -> None:
    """Three cores are left beside the agent; another DaemonSet takes half a core more. One that runs counts once."""
    text = asking(cpu="3") + "---\n" + daemon_set("more")
    (finding,) = found(text, tmp_path)
    assert finding.message == "asks for 3 of cpu; an empty node has at most 2500m (a)"
    assert found(asking(cpu="2500m") + "---\n" + daemon_set("more"), tmp_path) == []
    assert found(asking(cpu="3") + "---\n" + daemon_set("agent"), tmp_path) == []


def test_rules_are_switched_off_one_by_one(tmp_path: Path) -> None:
    text = pod("nodeSelector: {disk: sdd}\npriorityClassName: none")
    assert {each.rule for each in found(text, tmp_path)} == {"no-matching-node", "unknown-priority-class"}
    assert {each.rule for each in found(text, tmp_path, disable=["no-matching-node"])} == {"unknown-priority-class"}
    mine = text.replace("labels: {app: web}", "annotations: {mooring/lint-ignore: 'no-matching-node, unknown-field'}")
    assert {each.rule for each in found(mine, tmp_path)} == {"unknown-priority-class"}


def test_without_a_cluster_rules_about_nodes_are_not_asked(tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(pod("nodeSelector: {disk: sdd}") + "---\n" + budget("maxUnavailable: 0"))
    findings = lint(file)
    assert [each.rule for each in findings] == ["budget-blocks-drain"]
    assert "no-matching-node" in findings.without_cluster and "no-matching-node" not in findings.rules
    assert sorted((*findings.rules, *findings.without_cluster)) == sorted(rule.name for rule in all_rules())


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_a_rule_says_what_it_finds_and_what_to_do(rule: Any) -> None:
    assert rule.title and len(rule.title) < 100 and not rule.title.endswith(".")
    assert len(rule.text) > 100


# ---- against placing one by one ----------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    zones=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    replicas=st.integers(2, 7),
    skew=st.integers(1, 2),
    domains=st.sampled_from([None, 1, 3]),
    anti=st.sampled_from([None, "kubernetes.io/hostname", "topology.kubernetes.io/zone"]),
)
def test_spreading_holds_exactly_where_all_replicas_can_be_placed(
    zones: list[int], replicas: int, skew: int, domains: int | None, anti: str | None, tmp_path_factory: Any
) -> None:
    nodes = [make_node(f"n{z}{i}", zone=f"z{z}") for z, count in enumerate(zones) for i in range(count)]
    own = {"matchLabels": {"app": "web"}}
    constraint = {"maxSkew": skew, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "x"}],
        "topologySpreadConstraints": [
            {**constraint, "labelSelector": own, **({"minDomains": domains} if domains else {})}
        ],
    }
    if anti:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": anti, "labelSelector": own}]}
        spec["affinity"] = {"podAntiAffinity": required}
    everything = Cluster(*nodes)
    file = tmp_path_factory.mktemp("lint") / "web.yaml"
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    file.write_text(yaml.dump({**workload, "spec": {"replicas": replicas, "selector": own, "template": template}}))
    said = [each for each in lint(file, cluster=everything) if each.rule == "spread-cannot-hold"]
    pods = [make_pod(f"web-{i}", labels={"app": "web"}, spec=spec) for i in range(replicas)]
    for each in pods:
        each.spec.scheduler_name = "default-scheduler"
    placed = sum(decision.node is not None for decision in Scheduler(everything).place(pods))
    assert bool(said) == (placed < replicas)
    if said:
        assert f"leaves room for {placed} pod" in said[0].message


def test_what_fits_is_judged_as_the_version_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}\n"
    )
    cluster = Cluster().take_over([make_node("a")])
    with pytest.raises(UsageError, match=f"kubernetes_version: found '1.2', expected one of {', '.join(VERSIONS)}"):
        lint(tmp_path, cluster=cluster, kubernetes_version="1.2")
