"""What an extender says about itself."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mooring.api.errors import PluginError
from mooring.net.extender.sdk import Extender
from mooring.net.extender.server import ExtenderSettings, settings_of


class Plain(Extender):
    pass


class Chosen(Extender):
    name = "chosen"
    weight = 3
    ignorable = True
    http_timeout = "1m30s"
    managed_resources = ("example.com/gpu",)
    ignored_by_scheduler = True


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param(Plain(), ExtenderSettings("Plain"), id="nothing"),
        pytest.param(
            Chosen(),
            ExtenderSettings("chosen", 3, True, "1m30s", ("example.com/gpu",), True),
            id="everything",
        ),
        pytest.param(ModuleType("package.mine"), ExtenderSettings("mine"), id="a module's name"),
        pytest.param(SimpleNamespace(name=7), ExtenderSettings("SimpleNamespace"), id="a name that is no text"),
        pytest.param(
            SimpleNamespace(managed_resources=["a", "b"]),
            ExtenderSettings("SimpleNamespace", managed_resources=("a", "b")),
            id="a list of resources",
        ),
    ],
)
def test_what_is_read(source: Any, want: ExtenderSettings) -> None:
    assert settings_of(source, "my_ext.py") == want


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        pytest.param({"weight": 0}, "weight is 0; expected a number above 0", id="no weight"),
        pytest.param({"weight": True}, "weight is True; expected a number above 0", id="a truth as weight"),
        pytest.param({"weight": "3"}, "weight is '3'; expected a number above 0", id="a text as weight"),
        pytest.param({"ignorable": "yes"}, "ignorable is 'yes'; expected True or False", id="a word for yes"),
        pytest.param(
            {"ignored_by_scheduler": 1}, "ignored_by_scheduler is 1; expected True or False", id="a number for yes"
        ),
        pytest.param({"http_timeout": 2}, "http_timeout is 2; expected a duration", id="seconds without a unit"),
        pytest.param(
            {"http_timeout": "2"}, "http_timeout is '2'; expected a duration such as \"2s\"", id="a text without a unit"
        ),
        pytest.param({"http_timeout": "0s"}, "http_timeout is '0s'; expected a duration", id="no time"),
        pytest.param({"http_timeout": "-2s"}, "http_timeout is '-2s'; expected a duration", id="a time before now"),
        pytest.param({"managed_resources": "gpu"}, "managed_resources is 'gpu'; expected a list", id="one resource"),
        pytest.param(
            {"managed_resources": [1]}, "managed_resources is [1]; expected a list", id="numbers as resources"
        ),
    ],
)
def test_what_makes_no_sense(attributes: dict[str, Any], said: str) -> None:
    with pytest.raises(PluginError) as caught:
        settings_of(SimpleNamespace(**attributes), "my_ext.py")
    assert str(caught.value).startswith(f"my_ext.py: {said}")
