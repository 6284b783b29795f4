"""The documentation builds without a warning, its generated pages say what the code says, and names what exists."""

from __future__ import annotations

import asyncio
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.server import ControlPlane

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = runpy.run_path(str(ROOT / "scripts" / "docs_pages.py"))["PAGES"]  # from the code
OTHERS = ("learn/", "parity.md", "performance.md", *MADE)  # tested where they are written
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
OWN = [page for page in sorted(DOCS.rglob("*.md")) if not str(page.relative_to(DOCS)).startswith(OTHERS)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    pytest.importorskip("material", reason="the documentation's tools come with the extra [docs]")
    pytest.importorskip("mkdocstrings", reason="the documentation's tools come with the extra [docs]")
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "REPOSITORY_URL": "https://git.example/mooring"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, env=environment)
    warnings = [line for line in done.stderr.splitlines() if "WARNING" in line]
    assert (done.returncode, warnings) == (0, []), done.stderr
    return folder


@pytest.mark.e2e
class TestSite:
    def test_has_every_kind_of_page(self, site):
        pages = {str(path.relative_to(site)) for path in site.rglob("*.html")}
        assert pages >= {"index.html", "run/index.html", "reference/cli.html", "architecture/kept.html", "install.html"}
        assert pages >= {f"decisions/{path.stem}.html" for path in (ROOT / "decisions").glob("*.md")}
        assert "mooring bench decide" in (site / "reference" / "cli.html").read_text()
        assert "pre_bind_pre_flight" in (site / "reference" / "extension-points.html").read_text()

    def test_sections_are_the_four_kinds_and_languages_are_behind_the_switch(self, site):
        page = (site / "index.html").read_text()
        tabs = re.search(r'class="md-tabs__list">(.*?)</ul>', page, re.DOTALL)
        titles = [title.strip() for title in re.findall(r"<a[^>]*md-tabs__link[^>]*>\s*([^<]*?)\s*</a>", tabs.group(1))]
        assert titles == ["Home", "Tutorials", "How-to guides", "Reference", "Explanation"]
        assert list(dict.fromkeys(re.findall(r'hreflang="(\w+)"', page))) == ["en", "ja", "zh"]

    def test_the_switch_leads_to_the_same_lesson(self, site):
        lesson = (site / "learn" / "3-score.html").read_text()
        assert 'href="ja/3-score.html" hreflang="ja"' in lesson
        translated = (site / "learn" / "ja" / "3-score.html").read_text()
        assert 'href="../3-score.html" hreflang="en"' in translated and '<html lang="ja"' in translated

    def test_pages_lead_to_the_next_one_and_to_the_repository(self, site):
        page = (site / "extend" / "plugins.html").read_text()
        assert "md-footer__link--next" in page and "md-footer__link--prev" in page
        assert "https://git.example/mooring" in page
        plugins = (site / "reference" / "plugins.html").read_text()
        assert "https://git.example/mooring/tree/HEAD/src/mooring/core/plugins" in plugins

    def test_loads_nothing_from_elsewhere(self, site):
        for page in site.rglob("*.html"):
            loaded = re.findall(
                r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"?(https?://[^\" >]+)", page.read_text()
            )
            assert loaded == [], page

    def test_api_pages_are_made_from_docstrings(self, site):
        import mooring
        from mooring import sdk, testing

        for name, module in (("sdk", sdk), ("testing", testing), ("python", mooring)):
            page = (site / "reference" / f"{name}.html").read_text()
            names = [each for each in module.__all__ if not each.startswith("_")]
            assert [each for each in names if f">{each}<" not in page and f"{each} " not in page] == []
            assert not re.search(r":(class|mod|func|meth):", page)

    def test_a_reader_copies_commands_without_prompt_and_output(self, site):
        assert '<span class="gp">$ </span>' in (site / "explain.html").read_text()
        rules = (site / "images" / "site.css").read_text()
        assert "[data-md-copying] .gp, [data-md-copying] .go { display: none; }" in rules


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: make() for name, make in MADE.items()}


def test_every_plugin_is_described_in_two_sentences(pages):
    from mooring.core.engine.in_tree import IN_TREE, OPTIONAL

    rows = dict(re.findall(r"^### (\w+)\n\n(.*)$", pages["reference/plugins.md"], re.MULTILINE))
    assert list(rows) == [plugin.__name__ for plugin in (*IN_TREE, *OPTIONAL)]
    for name, text in rows.items():
        sentences = re.split(r"(?<=[.!?)]) (?=[A-Z`])", text)
        assert len(sentences) == 2, f"{name}: {text}"


def test_every_command_is_described(pages):
    from mooring.cli.main import cli

    for name in cli.list_commands(None):
        assert f"## mooring {name}\n" in pages["reference/cli.md"]
    assert "--leader-elect-lease-duration" in pages["reference/cli.md"]


def test_every_field_of_the_configuration_is_described(pages):
    import msgspec

    from mooring.core.config import types

    text = pages["reference/configuration.md"]
    for kind in (types.KubeSchedulerConfiguration, types.Extender, *types.ARGS_TYPES.values()):
        assert f"# {kind.__name__}\n" in text
        for field in msgspec.structs.fields(kind):
            assert f"`{field.encode_name}`" in text
    assert "| `leaseDuration` | duration | `15s` | When a leader" in text
    assert "| `scoringStrategy` | [ScoringStrategy](#scoringstrategy) |" in text


def test_no_text_describes_a_field_that_is_gone():
    import msgspec

    from mooring.core.config import types

    texts = runpy.run_path(str(ROOT / "scripts" / "docs_pages.py"))["configuration_texts"]()
    for name, fields in texts.items():
        known = {field.encode_name for field in msgspec.structs.fields(getattr(types, name))}
        assert fields.keys() == known, name


def test_every_metric_is_described(pages):
    from mooring.live.metrics import SchedulerMetrics

    for name in SchedulerMetrics().registry.names():
        assert f"`{name}`" in pages["reference/metrics.md"]


def test_the_picture_shows_what_the_command_prints():
    command = [sys.executable, str(ROOT / "scripts" / "picture.py"), "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.e2e
def test_a_measured_row_fits_the_table():
    command = [sys.executable, str(ROOT / "scripts" / "size.py"), "--nodes", "3", "--pods", "30", "--burst", "5"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (heading,) = re.findall(r"^\| API server .*$", (DOCS / "run" / "sizing.md").read_text(), re.MULTILINE)
    row = [cell.strip() for cell in done.stdout.strip().strip("|").split("|")]
    assert row[:3] == ["embedded", "3", "30"] and len(row) == heading.count("|") - 1


@pytest.mark.e2e
async def test_the_last_resort_binds_a_schedulers_pod_by_hand(tmp_path):
    """When no scheduler is left to place the scheduler: the commands in replace.md, with the real kubectl."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    text = (DOCS / "run" / "replace.md").read_text()
    (script,) = [
        block for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if "Binding" in block
    ]
    async with ControlPlane(kubeconfig_path=tmp_path / "kubeconfig") as plane:
        plane.api.create(NODES, "", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1"}})
        metadata = {"name": "mooring-x", "labels": {"app.kubernetes.io/name": "mooring"}}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        plane.api.create(PODS, "kube-system", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        environment = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "kubeconfig")}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec("bash", "-ec", script, env=environment, stdout=pipe, stderr=pipe)
        _, errors = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, errors.decode()
        assert plane.api.get(PODS, "kube-system", "mooring-x").object()["spec"]["nodeName"] == "worker-1"


@pytest.mark.parametrize("page", OWN, ids=lambda page: str(page.relative_to(DOCS)))
def test_files_that_a_page_names_exist(page):
    """Paths in code spans and in shell blocks, from the top of the repository."""
    text = page.read_text()
    named = re.findall(r"(?<![\w/.])((?:deploy|scripts|examples|tests|decisions|docs|src)/[\w./-]*[\w/])", text)
    for path in named:
        assert (ROOT / path).exists(), f"{page.name} names {path}"


# Every page that tells a reader to type something, also those whose commands are run elsewhere or cannot be run here.
TYPED = [
    *(page for page in sorted(DOCS.rglob("*.md")) if not str(page.relative_to(DOCS)).startswith(("learn/", *MADE))),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]


def _typed(page: Path, program: str) -> list[list[str]]:
    """What a reader may type that begins with ``program``: in blocks for the shell, and in code marks."""
    text = page.read_text()
    lines = [line.strip().removeprefix("$ ") for kind, block in BLOCK.findall(text) if kind in ("sh", "console")
             for line in block.splitlines()]  # fmt: skip
    lines += re.findall(r"`([^`]+)`", BLOCK.sub("", text))
    lines = [re.split(r"  #| > | \|| &", line.replace("\n", " "))[0] for line in lines]
    return [shlex.split(line)[1:] for line in lines if re.match(rf"{program} [\w-]", line)]


@pytest.mark.parametrize("page", TYPED, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_flags_that_a_page_names_exist(page):
    import click

    from mooring.cli.main import cli
    from mooring.live.flags import parse_flags

    for words in _typed(page, "mooring"):
        command: click.Command = cli
        rest = list(words)
        while rest and isinstance(command, click.Group) and re.fullmatch(r"[a-z]+", rest[0]):
            found = command.get_command(click.Context(command), rest[0])
            if found is None and isinstance(command, click.Group) and command.invoke_without_command:
                break  # mooring learn 1
            assert found is not None, f"mooring {' '.join(words)}: there is no {rest[0]}"
            command, rest = found, rest[1:]
        if words[0] == "run":  # it reads its flags by itself
            is_cut = rest and rest[-1] == "--config"  # as in "mooring run --config takes this"
            parse_flags([*rest, "FILE"] if is_cut else rest)
            continue
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for word in rest:
            option = word.partition("=")[0]
            assert not word.startswith("-") or option in known | {"--help", "--version"}, " ".join(words)


@pytest.mark.parametrize("page", TYPED, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_that_a_page_names_exist(page):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for words in _typed(page, "make"):
        assert {word for word in words if "=" not in word} <= targets, f"make {' '.join(words)}"


def _scripts(page: str) -> list[str]:
    return [block for kind, block in BLOCK.findall((DOCS / page).read_text()) if kind == "sh" and "kubectl" in block]


@pytest.mark.e2e
async def test_installing_and_upgrading_as_the_pages_say(tmp_path):
    """The shell blocks with kubectl of two pages, on a cluster whose pods are only told to run."""
    from mooring.controlplane.cluster.kubelet import Kubelets
    from mooring.controlplane.cluster.manager import ControllerManager
    from mooring.controlplane.registry.catalog import by_resource
    from mooring.controlplane.registry.subresources import bind
    from mooring.controlplane.registry.verbs import Options

    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    apply, ask = _scripts("run/index.md")
    upgrade, downgrade = _scripts("run/runbook/upgrade.md")
    (divide,) = _scripts("run/beside.md")
    async with ControlPlane(kubeconfig_path=tmp_path / "kubeconfig") as plane:
        loop = asyncio.get_running_loop()
        kubelets, controllers = Kubelets(plane.api, loop), ControllerManager(plane.api, loop)
        kubelets.start()
        controllers.start()
        labels = {"kubernetes.io/os": "linux", "pool": "mooring"}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1", "labels": labels}}
        plane.api.create(NODES, "", node)
        environment = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "kubeconfig")}

        async def type_in(script: str) -> str:
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(
                "bash", "-exc", script, env=environment, cwd=tmp_path, stdout=pipe, stderr=asyncio.subprocess.STDOUT
            )
            output = (await asyncio.wait_for(process.communicate(), 60))[0].decode()
            assert process.returncode == 0, output
            return output

        async def bind_all() -> None:
            """The part of the scheduler that was there before."""
            while True:
                for pod in plane.api.objects(PODS, "kube-system"):
                    if not pod["spec"].get("nodeName"):
                        target = {"kind": "Node", "name": "worker-1"}
                        body = json.dumps({"metadata": {"name": pod["metadata"]["name"]}, "target": target}).encode()
                        bind(plane.api, "kube-system", pod["metadata"]["name"], body, Options())
                await asyncio.sleep(0.05)

        lease = {"metadata": {"name": "mooring"}, "apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        plane.api.create(by_resource("leases.coordination.k8s.io"), "kube-system", lease)
        binder = asyncio.create_task(bind_all())
        try:
            applied = await type_in(apply)
            assert "successfully rolled out" in applied
            running = plane.api.objects(PODS, "kube-system")
            assert {pod["spec"]["containers"][0]["image"] for pod in running} == {"registry.example.com/mooring:0.1.0"}
            assert "pod/hello created" in await type_in(ask)
            await type_in("kubectl -n kube-system set env deployment/mooring NEW=1")
            assert "successfully rolled out" in await type_in(upgrade)
            assert "rolled back" in await type_in(downgrade)
            assert "node/worker-1 tainted" in await type_in(divide)
        finally:
            binder.cancel()
            controllers.stop()
            kubelets.stop()
