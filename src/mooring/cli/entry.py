"""Where a process of ours begins: Ctrl-C while the command line is still being imported is no traceback."""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Import the command line and run it."""
    gc.disable()  # nothing that is imported is garbage
    try:
        from mooring.cli.main import main as command_line
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        gc.enable()
    command_line()
