"""What a scheduler process gets from its machine: time, chance, connections, a second thread.

`mooring run` takes the machine's own. A soak in virtual time gives each replica clocks, a network and threads that it
can break; the scheduler is the same.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mooring.client.kubeconfig import ClientConfig
from mooring.client.rest import Transport
from mooring.clock import Clock, SystemClock, UnstoppableClock
from mooring.framework.extender import Extender
from mooring.scheduler.lifeline import Lifeline
from mooring.scheduler.time_limits import TimeLimits


def _build_extenders(*arguments: Any, **named: Any) -> Sequence[Extender]:
    """Few schedulers have extenders: their client is loaded when it is needed."""
    from mooring.extender.client import build_extenders

    return build_extenders(*arguments, **named)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The defaults are the machine's own."""

    clock: Clock = field(default_factory=SystemClock)
    lease_clock: Clock = field(default_factory=UnstoppableClock)
    make_rng: Callable[[], random.Random] = random.Random
    hostname: str = field(default_factory=socket.gethostname)
    identity: str = ""  # who holds the lease; empty: the host's name and a random suffix
    make_transport: Callable[[ClientConfig], Transport] = Transport
    make_lifeline: Callable[[], Lifeline] = Lifeline
    make_limits: Callable[[], TimeLimits] = TimeLimits
    make_extenders: Callable[..., Sequence[Extender]] = _build_extenders
    tunes_gc: bool = True  # whether the garbage collector belongs to this process alone

    def reflector(self) -> dict[str, Any]:
        """What every informer is given."""
        return {"clock": self.clock, "rng": self.make_rng()}
