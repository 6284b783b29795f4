"""Entry point of processes: Ctrl-C during the import of the command line causes no traceback."""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Import the command line and run it."""
    # NumPy's linear algebra would start a thread for each core, and all of them spin for a while. It is hardly used.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # nothing that is imported is garbage
    try:
        from mooring.cli.main import main as command_line
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        gc.enable()
    command_line()
