"""What we write is what kube-scheduler v1.36.4 wrote: the two files in data/ are its own words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.api import yaml
from mooring.api.errors import ConfigError
from mooring.core.config.load import config_from_dict, default_config, load_config
from mooring.core.config.profile import IN_TREE_POINTS
from mooring.core.config.wire import completed, to_wire

DATA = Path(__file__).parent / "data"


def test_the_default_configuration_is_what_write_config_to_writes() -> None:
    recorded = yaml.load((DATA / "default-config.yaml").read_text())
    ours = to_wire(config_from_dict({"clientConnection": {"kubeconfig": "/DIR/kubeconfig"}}))
    assert ours == recorded


def test_the_yaml_is_the_same_to_the_byte() -> None:
    ours = to_wire(config_from_dict({"clientConnection": {"kubeconfig": "/DIR/kubeconfig"}}))
    assert yaml.dump(ours) == (DATA / "default-config.yaml").read_text()


def test_configz_has_every_recorded_field() -> None:
    recorded = json.loads((DATA / "configz.json").read_text())["componentconfig"]
    said = {
        "clientConnection": {
            "acceptContentTypes": "application/json",
            "contentType": "application/json",
            "kubeconfig": "/DIR/scheduler-kubeconfig",
        },
        "leaderElection": {"leaderElect": False},
    }
    assert to_wire(completed(config_from_dict(said), IN_TREE_POINTS)) == recorded


@pytest.mark.parametrize("name", ["default-config.yaml", "configz.json"])
def test_what_kube_scheduler_wrote_loads_and_is_written_again(name: str) -> None:
    recorded = yaml.load((DATA / name).read_bytes())
    document = recorded.get("componentconfig", recorded)
    again = to_wire(load_config(json.dumps(document)).config)
    # The defaults are listed explicitly now, so they replace themselves in place.
    assert again == document


def _written(document: dict[str, Any]) -> dict[str, Any]:
    return to_wire(config_from_dict(document))


def test_an_extender_is_written_with_its_timeout_and_without_what_it_does_not_say() -> None:
    assert _written({"extenders": [{"urlPrefix": "http://x", "filterVerb": "filter", "httpTimeout": "1m"}]})[
        "extenders"
    ] == [{"urlPrefix": "http://x", "filterVerb": "filter", "httpTimeout": "1m0s"}]


def test_keys_are_written_as_base64_and_can_be_hidden() -> None:
    config = config_from_dict({"extenders": [{"urlPrefix": "https://x", "tlsConfig": {"keyData": "c2VjcmV0"}}]})
    assert to_wire(config)["extenders"][0]["tlsConfig"] == {"keyData": "c2VjcmV0"}
    assert to_wire(config, redact=True)["extenders"][0]["tlsConfig"] == {"keyData": "REDACTED"}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        pytest.param("https://me:secret@x/ext", "https://me:***@x/ext", id="a password"),
        pytest.param("https://secret@x/ext", "https://***@x/ext", id="a user alone"),
        pytest.param("https://x/ext?token=secret", "https://x/ext?token=***", id="a query"),
    ],
)
def test_an_extenders_secrets_can_be_hidden(url: str, shown: str) -> None:
    """/configz, records and the page show the configuration in this form."""
    config = config_from_dict({"extenders": [{"urlPrefix": url}]})
    assert to_wire(config)["extenders"][0]["urlPrefix"] == url
    assert to_wire(config, redact=True)["extenders"][0]["urlPrefix"] == shown


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"weight": -1, "prioritizeVerb": "p"}, id="a value"),
        pytest.param({"wieght": 1}, id="a field that does not exist"),
        pytest.param({"filterVerb": 5}, id="a type"),
        pytest.param({"httpTimeout": "soon"}, id="a duration"),
        pytest.param({"managedResources": [{"name": "cpu"}, {"name": "cpu"}]}, id="resources"),
        pytest.param({"bindVerb": "b", "urlPrefix": "https://y?token=secret"}, id="two that bind"),
    ],
)
def test_a_mistake_in_an_extender_is_reported_without_its_secrets(wrong: dict[str, Any]) -> None:
    entry = {"urlPrefix": "https://secret@x/?token=secret", "bindVerb": "b"}
    with pytest.raises(ConfigError) as caught:
        config_from_dict({"extenders": [entry, {**entry, **wrong}]})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(
            {
                "name": "NodeResourcesFit",
                "args": {
                    "ignoredResources": ["example.com/fpga"],
                    "scoringStrategy": {
                        "type": "RequestedToCapacityRatio",
                        "resources": [{"name": "cpu", "weight": 3}],
                        "requestedToCapacityRatio": {
                            "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                        },
                    },
                },
            },
            id="a scoring strategy with a shape",
        ),
        pytest.param(
            {
                "name": "NodeAffinity",
                "args": {
                    "addedAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
                            ]
                        }
                    }
                },
            },
            id="added affinity",
        ),
        pytest.param(
            {
                "name": "PodTopologySpread",
                "args": {
                    "defaultingType": "List",
                    "defaultConstraints": [
                        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
                    ],
                },
            },
            id="default constraints",
        ),
        pytest.param({"name": "Mine", "args": {"any": ["thing"]}}, id="a stranger's arguments"),
    ],
)
def test_arguments_survive_the_round_trip(args: dict[str, Any]) -> None:
    written = _written({"profiles": [{"pluginConfig": [args]}]})["profiles"][0]["pluginConfig"][0]
    kept = {k: v for k, v in written["args"].items() if k not in ("apiVersion", "kind")}
    assert {"name": written["name"], "args": kept} == args


def test_only_arguments_of_plugins_in_use_are_reported_in_the_end() -> None:
    config = config_from_dict({"profiles": [{"pluginConfig": [{"name": "Mine", "args": {}}]}]})
    names = [e.name for e in completed(config, IN_TREE_POINTS).profiles[0].plugin_config]
    assert names == sorted(e.name for e in default_config().profiles[0].plugin_config)
