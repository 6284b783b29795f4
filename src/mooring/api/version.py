"""The version, for whoever inside the package needs it: the front door is for people outside."""

from __future__ import annotations

import re
from typing import TypeAlias

__version__ = "0.1.0"


# --------------------------------------------------------------------------------------------------------------------
# Releases of Kubernetes: major and minor version, as numbers to compare.

Release: TypeAlias = tuple[int, int]
UNKNOWN: Release = (0, 0)
_RELEASE = re.compile(r"v?(\d+)\.(\d+)")


def release_of(version: object) -> Release:
    """Major and minor of a version such as ``v1.37.0-rc.1``; UNKNOWN if it is none."""
    found = _RELEASE.match(version) if isinstance(version, str) else None
    return (int(found[1]), int(found[2])) if found else UNKNOWN
