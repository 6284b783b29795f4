"""The version of mooring, and releases of Kubernetes as numbers to compare.

The front door imports this module first, so it imports nothing heavy itself.
"""

from __future__ import annotations

__version__ = "0.1.0"

Release = tuple[int, int]
"""Major and minor version."""
UNKNOWN: Release = (0, 0)


def release_of(version: object) -> Release:
    """Return major and minor of a version such as ``v1.37.0-rc.1``; UNKNOWN if it is invalid."""
    import re  # rarely needed

    found = re.match(r"v?(\d+)\.(\d+)", version) if isinstance(version, str) else None
    return (int(found[1]), int(found[2])) if found else UNKNOWN
