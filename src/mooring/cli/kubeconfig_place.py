"""The kubeconfig file of a cluster that lives only as long as its command."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def kubeconfig_place(wanted: Path | None) -> Iterator[Path]:
    """The path that the user wants, or one in a new directory. A file that was there before is not removed."""
    if wanted is not None:
        existed = wanted.exists()
        try:
            yield wanted
        finally:
            if not existed:
                wanted.unlink(missing_ok=True)
        return
    temporary = Path(tempfile.mkdtemp(prefix="mooring-"))
    try:
        yield temporary / "kubeconfig"
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
