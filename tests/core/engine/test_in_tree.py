"""The plugins that come with mooring are registered without a look at their declarations. Here they are looked at."""

from __future__ import annotations

from mooring.core.engine.in_tree import IN_TREE, OPTIONAL, in_tree_registry
from mooring.core.framework.registry import Registry


def test_plugins_that_come_with_mooring_keep_the_contract() -> None:
    checked = Registry((*IN_TREE, *OPTIONAL))

    assert in_tree_registry().points() == checked.points()
    assert [*in_tree_registry()] == [*checked]
