"""Every manifest is accepted: by the 1.36 schemas, by kubectl, and by mooring where it configures mooring."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from mooring.controlplane.server import ControlPlane
from mooring.core.config.load import load_config_file
from mooring.live.flags import parse_flags

ROOT = Path(__file__).parents[2]
OVERLAYS = ("overlays/second-scheduler", "overlays/replacement", "shadow")
FILES = ("sample-scheduler.yaml", "test-scheduler.yaml", "static-pod/mooring.yaml")
CUSTOM = {"ServiceMonitor", "PrometheusRule"}


@pytest.fixture(params=[*OVERLAYS, *FILES, "chart", "chart, all on", "components/monitoring"])
def objects(request, kustomize, render_chart, manifests) -> list[dict[str, Any]]:
    match request.param:
        case "chart":
            return render_chart()
        case "chart, all on":
            tolerations = [{"key": "dedicated", "operator": "Exists"}]
            values = {
                "serviceMonitor": {"enabled": True},
                "coscheduling": {"enabled": True},
                "shadow": {"enabled": True},
                "tolerations": tolerations,
                "extraArgs": ["--v=4"],
            }
            return render_chart(release="pods", namespace="scheduling", values=values)
        case "components/monitoring":
            return [
                o for name in ("metrics-reader", "service-monitor") for o in manifests(f"{request.param}/{name}.yaml")
            ]
        case path if path in FILES:
            return manifests(path)
        case path:
            return kustomize(path)


def _pod_spec(obj: dict[str, Any]) -> dict[str, Any] | None:
    match obj["kind"]:
        case "Pod":
            return obj["spec"]
        case "Deployment":
            return obj["spec"]["template"]["spec"]
    return None


def test_the_schemas_of_1_36_accept_it(objects):
    for obj in objects:
        if obj["kind"] not in CUSTOM:
            kubernetes_validate.validate(obj, "1.36", strict=True)


def test_nothing_is_there_twice(objects):
    keys = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects]
    assert len(keys) == len(set(keys))


def test_schedulers_run_with_flags_that_exist_and_without_privileges(objects):
    for obj in objects:
        spec = _pod_spec(obj)
        if spec is None or "mooring" not in spec["containers"][0]["image"]:
            continue
        (container,) = spec["containers"]
        assert container["args"][0] == "run"
        flags = parse_flags(container["args"][1:])
        assert list(flags.without_effect()) == []
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert ":" in container["image"] and not container["image"].endswith(":latest")
        assert any(mount["mountPath"] == "/tmp" for mount in container["volumeMounts"])


def test_configurations_are_valid(objects, tmp_path):
    for obj in objects:
        if obj["kind"] != "ConfigMap":
            continue
        file = tmp_path / "scheduler.yaml"
        file.write_text(obj["data"]["scheduler.yaml"])
        loaded = load_config_file(str(file))
        assert loaded.warnings == ()


@pytest.mark.parametrize(
    ("directory", "profile", "lease"),
    [
        ("overlays/second-scheduler", "mooring", "mooring"),
        ("overlays/replacement", "default-scheduler", "kube-scheduler"),
    ],
)
def test_the_role_names_the_lease_that_the_configuration_names(kustomize, directory, profile, lease, tmp_path):
    found = {o["kind"]: o for o in kustomize(directory)}
    file = tmp_path / "scheduler.yaml"
    file.write_text(found["ConfigMap"]["data"]["scheduler.yaml"])
    config = load_config_file(str(file)).config
    assert [p.scheduler_name for p in config.profiles] == [profile]
    assert (config.leader_election.leader_elect, config.leader_election.resource_name) == (True, lease)
    named = [rule for rule in found["Role"]["rules"] if rule["resources"] == ["leases"] and "resourceNames" in rule]
    assert [rule["resourceNames"] for rule in named] == [[lease]]


def test_selectors_select_the_deployment(kustomize):
    found = {o["kind"]: o for o in kustomize("overlays/second-scheduler")}
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    assert found["Service"]["spec"]["selector"].items() <= labels
    for kind, path in (
        ("PodDisruptionBudget", "selector"),
        ("NetworkPolicy", "podSelector"),
        ("Deployment", "selector"),
    ):
        assert found[kind]["spec"][path]["matchLabels"].items() <= labels, kind
    assert found["Deployment"]["spec"]["replicas"] == 2


def _plain(obj: dict[str, Any]) -> dict[str, Any]:
    """Without what only tells releases apart."""
    text = json.dumps(obj).replace(', "app.kubernetes.io/instance": "mooring"', "")
    plain = json.loads(text.replace(', "app.kubernetes.io/version": "0.1.0"', ""))
    return plain


def test_the_chart_and_the_overlay_agree(kustomize, render_chart):
    overlay = {(o["kind"], o["metadata"]["name"]): o for o in kustomize("overlays/second-scheduler")}
    chart = {(o["kind"], o["metadata"]["name"]): _plain(o) for o in render_chart()}
    extra = {("Role", "mooring-client-ca"), ("RoleBinding", "mooring-client-ca")}
    assert chart.keys() - extra == overlay.keys()
    rules = chart.pop(("Role", "mooring"))["rules"] + chart.pop(("Role", "mooring-client-ca"))["rules"]
    assert rules == overlay.pop(("Role", "mooring"))["rules"]
    for key, obj in overlay.items():
        if key[0] == "ConfigMap":
            texts = [o["data"]["scheduler.yaml"] for o in (obj, chart[key])]
            assert yaml.safe_load(texts[0]) == yaml.safe_load(texts[1])
        else:
            assert {**obj, "metadata": None} == {**chart[key], "metadata": None}


def test_the_kinds_that_a_plugin_adds_can_be_allowed(manifests, render_chart):
    """A profile with such a plugin waits for ever for a kind that it may not watch."""
    from mooring.net.kinds import EXTRA_KINDS

    needed = {
        ("get", "list", "watch", kind.group_version.partition("/")[0], kind.plural) for kind in EXTRA_KINDS.values()
    }
    chart = render_chart(values={"coscheduling": {"enabled": True}, "podGroups": {"enabled": True}})
    components = ("components/coscheduling/cluster-role.yaml", "components/pod-groups/cluster-role.yaml")
    for objects in (
        [*(o for component in components for o in manifests(component)), *manifests("base/cluster-role.yaml")],
        chart,
    ):
        rules = [rule for o in objects if o["kind"] == "ClusterRole" for rule in o["rules"]]
        allowed = {(*r["verbs"], group, name) for r in rules for group in r["apiGroups"] for name in r["resources"]}
        assert needed <= allowed
    for role, binding in map(manifests, components):
        assert binding["roleRef"]["name"] == role["metadata"]["name"]


def test_the_chart_can_be_installed_twice(render_chart):
    def names(release: str) -> set[tuple[str, str]]:
        return {(o["kind"], o["metadata"]["name"]) for o in render_chart(release=release)}

    assert names("a").isdisjoint(names("b"))


def test_the_charts_roles_follow_the_lease_that_its_configuration_names(render_chart):
    lease = {"resourceNamespace": "leases", "resourceName": "kube-scheduler"}
    found = render_chart(release="r", namespace="infra", values={"config": {"leaderElection": lease}})
    config = yaml.safe_load(next(o for o in found if o["kind"] == "ConfigMap")["data"]["scheduler.yaml"])
    assert config["leaderElection"] == {"leaderElect": True, **lease}
    role, binding = (next(o for o in found if o["kind"] == kind) for kind in ("Role", "RoleBinding"))
    assert (role["metadata"]["namespace"], binding["metadata"]["namespace"]) == ("leases", "leases")
    assert role["rules"][1]["resourceNames"] == ["kube-scheduler"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "r", "namespace": "infra"}]


VALUES: list[Any] = [
    pytest.param({}, id="as it comes"),
    pytest.param({"resources": {"requests": {"cpu": "1"}}, "networkPolicy": {"enabled": False}}, id="parts of maps"),
    pytest.param({"resources": {"limits": None}, "nodeSelector": {"pool": "a"}}, id="a value removed, a key added"),
    pytest.param(
        {
            "image": {"repository": "registry.example.com/a/mooring", "tag": "9"},
            "replicas": 3,
            "extraArgs": ["--plugin=/plugins/mine.py", '--feature-gates="A=true"'],
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "serviceMonitor": {"enabled": True},
            "coscheduling": {"enabled": True},
            "config": {"leaderElection": {"resourceName": "kube-scheduler"}, "profiles": [{"schedulerName": "x"}]},
        },
        id="everything else",
    ),
]


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
@pytest.mark.parametrize("values", VALUES)
def test_helm_renders_the_chart_as_we_do(render_chart, values, tmp_path):
    file, chart = tmp_path / "values.yaml", str(ROOT / "deploy" / "chart" / "mooring")
    file.write_text(yaml.safe_dump(values))
    options = ["--namespace", "infra", "--values", str(file), "--kube-version", "1.36.0"]
    environment = {**os.environ, "HOME": str(tmp_path)}
    for command in (["helm", "lint", "--strict", chart, *options], ["helm", "template", "r", chart, *options]):
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr

    def by_name(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
        return {(o["kind"], o["metadata"]["name"]): o for o in objects}

    helm = [o for o in yaml.safe_load_all(done.stdout) if o is not None]
    assert by_name(helm) == by_name(render_chart(release="r", namespace="infra", values=values))


def test_every_manifest_says_the_version_of_the_package():
    from mooring import __version__

    for path in (*ROOT.joinpath("deploy").rglob("*.yaml"), ROOT / "deploy" / "Dockerfile"):
        text = path.read_text()
        for key in ("mooring:", "newTag:", "appVersion:"):
            for line in (line for line in text.splitlines() if key in line and "0." in line):
                assert __version__ in line, f"{path.name}: {line}"


@pytest.mark.e2e
@pytest.mark.parametrize("path", [*OVERLAYS, *FILES, "chart"])
async def test_an_api_server_accepts_it_in_a_dry_run_and_for_real(path, kustomize, render_chart, manifests, tmp_path):
    import asyncio

    if path == "chart":
        objects = render_chart()
    else:
        objects = manifests(path) if path in FILES else kustomize(path)
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all(o for o in objects if o["kind"] not in CUSTOM))
    kubeconfig = tmp_path / "kubeconfig"
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    async with ControlPlane(kubeconfig_path=kubeconfig):
        environment = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": str(kubeconfig)}
        for how in (["--dry-run=server"], []):
            process = await asyncio.create_subprocess_exec(
                kubectl, "apply", *how, "-f", str(file),
                env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            output = (await asyncio.wait_for(process.communicate(), 60))[0].decode()
            assert process.returncode == 0, output
            assert "Warning" not in output
            created = [line for line in output.splitlines() if "created" in line]
            assert len(created) == len([o for o in objects if o["kind"] not in CUSTOM]), output
