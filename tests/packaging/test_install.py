"""The built wheel in an empty environment: it brings what a scheduler needs, and schedules a pod."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

NO_LONGER_HERE = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONSTARTUP")


def _clean_environment(home: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in NO_LONGER_HERE}
    return {**kept, "HOME": str(home), "NO_COLOR": "1", "COLUMNS": "120"}


def _run(where: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(where / "bin" / "python"), "-W", "error", "-m", "mooring", *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=home,
        env=_clean_environment(home),
    )


def test_the_wheel_says_where_a_pod_goes(installed, tmp_path):
    done = _run(installed, tmp_path, "start", "--example")
    assert done.returncode == 0, done.stderr
    assert "default/web-2 goes to worker-3" in done.stdout


def test_the_wheel_schedules_a_pod_on_its_own_api_server(installed, tmp_path):
    done = _run(installed, tmp_path, "start", "--once")
    assert done.returncode == 0, done.stderr
    assert "pod1 to node10" in done.stdout


def test_the_command_is_on_the_path(installed, tmp_path):
    done = subprocess.run(
        [str(installed / "bin" / "mooring"), "--version"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("mooring ")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("run", "--help"), id="the scheduler"),
        pytest.param(("config", "defaults"), id="configuration"),
        pytest.param(("bench", "decide", "--nodes", "20", "--pods", "5", "--workload", "plain"), id="measurements"),
    ],
)
def test_commands_need_no_extras(installed, tmp_path, arguments):
    done = _run(installed, tmp_path, *arguments)
    assert done.returncode == 0, done.stderr


def test_every_module_imports_without_extras(installed, tmp_path):
    """A module that needs an extra says so when it is used, not when it is imported.

    One is for pytest's users only; others are subclasses of gymnasium's and OpenEnv's environment and of anywidget's
    widget, and what measures the environment.
    """
    code = (
        "import importlib, pkgutil, mooring\n"
        "for m in pkgutil.walk_packages(mooring.__path__, 'mooring.'):\n"
        "    if m.name not in ('mooring.__main__', 'mooring.testing_scenarios', 'mooring.sim.gym.environment',"
        " 'mooring.sim.gym.openenv', 'mooring.bench.environment', 'mooring.show.widget'):\n"
        "        importlib.import_module(m.name)\n"
    )
    done = subprocess.run(
        [str(installed / "bin" / "python"), "-W", "error", "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env=_clean_environment(tmp_path),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr


def test_device_selectors_work_without_extras(installed, tmp_path):
    code = (
        "import msgspec\n"
        "from mooring.core.plugins.devices.cel import CelSelectors\n"
        "device = msgspec.msgpack.encode(('gpu.example.com', None, {}, {}))\n"
        "print(CelSelectors().matches('device.driver.endsWith(\".example.com\")', device))\n"
    )
    done = subprocess.run(
        [str(installed / "bin" / "python"), "-W", "error", "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env=_clean_environment(tmp_path),
        cwd=tmp_path,
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_nothing_but_the_runtime_is_installed(installed):
    site = next((installed / "lib").glob("python3*/site-packages"))
    names = {path.name.split("-")[0].lower() for path in site.glob("*.dist-info")}
    assert "mooring" in names
    assert names.isdisjoint({"pytest", "kubernetes", "hypothesis", "mkdocs", "uvloop", "mypy", "ruff"})
