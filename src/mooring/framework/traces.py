"""Where in a plugin's code something went wrong: file and line, for messages that people read."""

from __future__ import annotations

import os
import traceback
from collections.abc import Collection


def place_of(error: BaseException, modules: Collection[str]) -> str:
    """`` (quiet_hours.py:27)``: the last line that ran in one of these modules or in a plugin of mooring's own.

    Empty if no such line was running.
    """
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        module = frame.f_globals.get("__name__", "")
        if module in modules or module.startswith("mooring.plugins."):
            return f" ({os.path.basename(frame.f_code.co_filename)}:{line})"
    return ""
