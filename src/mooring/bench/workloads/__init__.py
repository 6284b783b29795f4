"""Our own definitions of Kubernetes' scheduler_perf workloads, in the same format and under the same names."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).parent
