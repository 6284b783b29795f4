"""Settings from flags and files, plugins by users, and the reload of a file."""

from __future__ import annotations

import logging

import pytest
import yaml
from msgspec.structs import replace

from mooring.api.errors import ConfigError, UsageError
from mooring.core.config.load import default_config
from mooring.live.flags import parse_flags
from mooring.live.settings import ConfigReloader, load_registry, load_settings

CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(path)

    return write


def test_without_a_file_the_deprecated_flags_count():
    settings = load_settings(parse_flags(["--kubeconfig=x", "--kube-api-qps=7", "--profiling=false"]))
    connection = settings.config.client_connection
    assert (connection.kubeconfig, connection.qps, settings.config.enable_profiling) == ("x", 7.0, False)


def test_with_a_file_they_do_not(write):
    path = write("c.yaml", {**CONFIG, "clientConnection": {"kubeconfig": "of-the-file"}})
    settings = load_settings(parse_flags(["--config", path, "--kubeconfig=x", "--kube-api-qps=7"]))
    connection = settings.config.client_connection
    assert (connection.kubeconfig, connection.qps) == ("of-the-file", 50.0)


def test_a_file_that_names_no_kubeconfig_leaves_that_to_the_flag(write):
    settings = load_settings(parse_flags(["--config", write("c.yaml", CONFIG), "--kubeconfig=x"]))
    assert settings.config.client_connection.kubeconfig == "x" and settings.warnings == ()


def test_a_flag_that_the_file_overrules_is_warned_of(write):
    path = write("c.yaml", {**CONFIG, "clientConnection": {"kubeconfig": "of-the-file"}})
    (warning,) = load_settings(parse_flags(["--config", path, "--kubeconfig=x"])).warnings
    assert warning == (
        "--kubeconfig=x is ignored: the configuration file names of-the-file in clientConnection.kubeconfig"
    )
    assert load_settings(parse_flags(["--config", path, "--kubeconfig=of-the-file"])).warnings == ()


def test_a_plugin_of_ones_own_is_enabled_where_there_is_no_file(write):
    settings = load_settings(parse_flags(["--plugin", write("a.py", PLUGIN)]))
    (profile,) = settings.config.profiles
    assert "Mine" in [plugin.name for plugin in profile.plugins.multi_point.enabled]
    assert settings.warnings == ()


def test_a_plugin_that_no_profile_of_the_file_enables_is_warned_of(write):
    path, plugin = write("c.yaml", CONFIG), write("a.py", PLUGIN)
    (warning,) = load_settings(parse_flags(["--config", path, "--plugin", plugin])).warnings
    assert warning == f"{path}: no profile enables the plugin Mine, so it does nothing"


@pytest.mark.parametrize(
    ("flags", "asks"),
    [
        pytest.param(["--authentication-kubeconfig", "FILE"], True, id="the file that is given"),
        pytest.param(["--kubeconfig", "FILE"], True, id="the cluster that is scheduled for"),
        pytest.param(["--kubeconfig", "FILE", "--authentication-kubeconfig="], False, id="none, by flag"),
        pytest.param([], False, id="none, without a cluster"),
    ],
)
def test_whom_to_ask_about_visitors(write, monkeypatch, flags, asks):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path = write("kubeconfig", kubeconfig)
    settings = load_settings(parse_flags([path if flag == "FILE" else flag for flag in flags]))
    assert (settings.review_config("authentication-kubeconfig") is not None) is asks


def test_flags_of_leader_election_overrule_the_file_only_when_given(write):
    path = write("c.yaml", {**CONFIG, "leaderElection": {"leaseDuration": "30s", "resourceName": "mine"}})
    election = load_settings(parse_flags(["--config", path, "--leader-elect-renew-deadline=20s"])).leader_election
    assert (election.lease_duration_s, election.renew_deadline_s, election.name) == (30.0, 20.0, "mine")
    assert load_settings(parse_flags(["--config", path, "--leader-elect=false"])).leader_election is None


def test_durations_that_do_not_fit_together_are_refused():
    with pytest.raises(ConfigError):
        load_settings(parse_flags(["--leader-elect-lease-duration=1s"]))


def test_a_certificate_is_made_once_where_there_is_none(tmp_path):
    settings = load_settings(parse_flags(["--cert-dir", str(tmp_path / "certs")]))
    files = settings.tls_files()
    made = (tmp_path / "certs" / "kube-scheduler.crt").read_bytes()
    assert files.certificate_file.endswith("kube-scheduler.crt") and b"BEGIN CERTIFICATE" in made
    assert (tmp_path / "certs" / "kube-scheduler.key").stat().st_mode & 0o077 == 0
    settings.tls_files()
    assert (tmp_path / "certs" / "kube-scheduler.crt").read_bytes() == made


PLUGIN = """
from mooring.core.framework.status import SUCCESS

class Mine:
    name = "Mine"
    def __init__(self, args, handle): ...
    def pre_enqueue(self, pod): return SUCCESS

class NotAPlugin:
    name = "NotAPlugin"
"""


def test_plugins_of_a_file_join_those_that_come_with_mooring(write):
    registry, own, problems = load_registry([write("a.py", PLUGIN)])
    assert "Mine" in registry and own == ["Mine"]
    assert "NodeName" in registry
    assert "NotAPlugin" not in registry
    assert problems == []


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        pytest.param("gone.py", "there is no file gone.py", id="no file"),
        pytest.param("no_such_module:X", "no_such_module", id="no module"),
        pytest.param("json:Nothing", "Nothing", id="no class"),
    ],
)
def test_a_plugin_that_is_not_there_is_one_line(reference, text):
    with pytest.raises(UsageError) as caught:
        load_registry([reference])
    assert str(caught.value).startswith("--plugin: ")
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_that_is_taken(write):
    with pytest.raises(UsageError, match="NodeName"):
        load_registry([write("c.py", PLUGIN.replace('"Mine"', '"NodeName"') + "\n") + ":Mine"])


@pytest.mark.parametrize(
    ("failure", "stays"),
    [
        pytest.param(None, False, id="a good file is taken up"),
        pytest.param(ConfigError("profiles: none"), True, id="a bad one is not"),
    ],
)
def test_reload(write, caplog, failure, stays):
    applied = []

    def load():
        if failure:
            raise failure
        return default_config()

    reloader = ConfigReloader(write("c.yaml", CONFIG), load, applied.append, default_config())
    with caplog.at_level(logging.INFO):
        assert reloader.reload() is not stays
    assert bool(applied) is not stays
    problems = [record.values.get("err") for record in caplog.records if "keeping the old one" in record.getMessage()]
    assert problems == ["profiles: none"] * stays


def test_a_change_that_needs_a_restart_is_logged_once_and_its_reversal_is_not(write, caplog):
    in_force = default_config()
    other = replace(in_force, leader_election=replace(in_force.leader_election, leader_elect=False))
    loaded = iter((other, other, in_force))
    reloader = ConfigReloader(write("c.yaml", CONFIG), lambda: next(loaded), lambda config: None, in_force)
    for _ in range(3):
        reloader.reload()
    warnings = [record.values for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [{"field": "leader_election"}]


async def test_a_changed_file_is_noticed_and_an_unchanged_one_is_not(write, tmp_path):
    import asyncio

    applied = asyncio.Queue()
    path = write("c.yaml", CONFIG)
    reloader = ConfigReloader(path, default_config, applied.put_nowait, default_config())
    task = asyncio.create_task(reloader.run(every_s=0.01))
    try:
        await asyncio.sleep(0.05)
        assert applied.empty()
        write("c.yaml", {**CONFIG, "parallelism": 8})
        await asyncio.wait_for(applied.get(), 5)
        (tmp_path / "c.yaml").unlink()
        await asyncio.sleep(0.03)
        assert applied.empty()
        reloader.ask()
        await asyncio.wait_for(applied.get(), 5)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
