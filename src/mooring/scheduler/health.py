"""Health checks: named questions behind /healthz, /livez and /readyz, with upstream's texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mooring.metrics import Registry
from mooring.observe.logs import get_logger

log = get_logger("mooring.scheduler.serving")

Check = Callable[[], str | None]
"""Returns what is wrong, or None."""


@dataclass(frozen=True, slots=True)
class Verdict:
    status: int
    body: str


def ping() -> str | None:
    """Being able to answer is the answer."""
    return None


class HealthChecks:
    """The checks of one process by path: ``healthz``, ``livez``, ``readyz``; each is counted for /metrics/slis."""

    def __init__(self) -> None:
        self._checks: dict[str, dict[str, Check]] = {"healthz": {}, "livez": {}, "readyz": {}}
        self.registry = Registry()
        self._results = self.registry.gauge(
            "kubernetes_healthcheck",
            "[STABLE] This metric records the result of a single healthcheck.",
            ("type", "name"),
        )
        self._counts = self.registry.counter(
            "kubernetes_healthchecks_total",
            "[STABLE] This metric records the results of all healthcheck.",
            ("type", "name", "status"),
        )

    def add(self, name: str, check: Check, *paths: str) -> None:
        """Add a check to some of the paths."""
        for path in paths:
            self._checks[path][name] = check

    def names(self, path: str) -> list[str]:
        return list(self._checks[path])

    def run(self, path: str, *, verbose: bool = False, exclude: Sequence[str] = ()) -> Verdict:
        """Ask all checks of a path."""
        lines: list[str] = []
        failed: list[str] = []
        unknown = [name for name in exclude if name not in self._checks[path]]
        for name in self._checks[path]:
            if name in exclude:
                lines.append(f"[+]{name} excluded: ok\n")
                continue
            problem = self._ask(path, name)
            if problem is None:
                lines.append(f"[+]{name} ok\n")
            else:
                failed.append(f"{name}: {problem}")
                lines.append(f"[-]{name} failed: reason withheld\n")
        if unknown:
            quoted = ", ".join(f'"{name}"' for name in sorted(unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}\n")
        if failed:
            log.info(f"{path} check failed", checks="; ".join(failed))
            return Verdict(500, f"{''.join(lines)}{path} check failed\n")
        if not verbose:
            return Verdict(200, "ok")
        return Verdict(200, f"{''.join(lines)}{path} check passed\n")

    def run_one(self, path: str, name: str) -> Verdict | None:
        """Ask one check; None if there is no such check."""
        if name not in self._checks.get(path, {}):
            return None
        problem = self._ask(path, name)
        return Verdict(200, "ok") if problem is None else Verdict(500, f"internal server error: {problem}\n")

    def _ask(self, path: str, name: str) -> str | None:
        try:
            problem = self._checks[path][name]()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        self._results.labels(path, name).set(float(problem is None))
        self._counts.labels(path, name, "success" if problem is None else "error").inc()
        return problem

    def render_slis(self) -> bytes:
        """Write what the checks have said so far, for /metrics/slis."""
        return self.registry.render().encode()
