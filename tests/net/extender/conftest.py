"""What the extender tests share: certificates, a server with scripted answers, and recorded scenarios."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
