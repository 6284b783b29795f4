"""What tests that drive a browser share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.async_api", reason="playwright comes with the extra [dev]")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-sync",
    "--disable-component-update",
]
# A busy machine is slow, and nothing here measures how slow. Developers of the page can set a shorter limit.
PATIENT_MS = int(os.environ.get("MOORING_PATIENT_MS", "180000"))


async def sees(page: Any, where: str, text: str) -> None:
    """Wait until a part of the page has this text."""
    await playwright.expect(page.locator(where).first).to_contain_text(text, timeout=PATIENT_MS)


AXE = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations.filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => `${each.id}: ${each.nodes.map((node) => node.target + " " + node.failureSummary).join("; ")}`);
}"""


async def violations(page: Any, folder: Path) -> list[str]:
    """What axe-core calls serious or critical."""
    source = (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    await page.evaluate(source)
    found: list[str] = await page.evaluate(AXE)
    return found
