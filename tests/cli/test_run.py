"""``mooring run``: what it says without running, and that a mistake is one line before anything begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring import __version__
from mooring.cli.main import run
from mooring.core.config.versions import VERSIONS


@pytest.fixture(autouse=True)
def _outside_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


def test_the_help_has_every_group_of_flags_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--help"]) == 0
    out = capsys.readouterr().out
    for flag in ("--config", "--kubeconfig", "--leader-elect", "--secure-port", "--feature-gates", "--plugin"):
        assert f"{flag} " in out
    assert "mooring run --kubeconfig ~/.kube/config" in out


def test_the_version_says_whose_decisions_it_makes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--version"]) == 0
    tags = ", ".join(version.tag for version in VERSIONS.values())
    assert capsys.readouterr().out == f"mooring {__version__} (decides as one of Kubernetes {tags})\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["--leader-elekt"], "leader-elekt", id="a misspelt flag"),
        pytest.param(["--leader-elect=maybe"], "leader-elect", id="a switch that is neither"),
        pytest.param(["--secure-port", "many"], "secure-port", id="a port that is no number"),
        pytest.param(["--config", "gone.yaml"], "gone.yaml: no such file", id="a configuration that is not there"),
        pytest.param(["--config", "broken.yaml"], "broken.yaml: ", id="a configuration that is none"),
        pytest.param(["--kubeconfig", "gone"], "gone", id="a kubeconfig that is not there"),
        pytest.param([], "--kubeconfig", id="no cluster at all"),
        pytest.param(["--plugin", "gone.py"], "there is no file gone.py", id="a plugin that is not there"),
        pytest.param(["--feature-gates", "Odd=true"], "Odd", id="an unknown gate"),
    ],
)
def test_a_mistake_is_one_line_and_2(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken.yaml").write_text("kind: [")
    assert run(["run", *arguments]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mooring: ")]
    assert len(lines) == 1 and says in lines[0]
