"""What the extender tests share: certificates, a server that says what it is told to, and recorded scenarios."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
