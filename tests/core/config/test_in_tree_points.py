"""The table of extension points and the plugins themselves say the same."""

from __future__ import annotations

import pytest

from mooring.core.config.defaults import default_plugins
from mooring.core.config.profile import IN_TREE_POINTS
from mooring.core.engine.in_tree import IN_TREE
from mooring.core.framework.extension_points import points_of


@pytest.mark.parametrize("plugin", IN_TREE, ids=lambda plugin: plugin.name)
def test_a_plugin_runs_where_the_table_says(plugin: type) -> None:
    assert points_of(plugin) == IN_TREE_POINTS[plugin.name]  # type: ignore[attr-defined]


def test_every_default_plugin_is_there() -> None:
    assert {plugin.name for plugin in default_plugins()} <= {plugin.name for plugin in IN_TREE}  # type: ignore[attr-defined]
