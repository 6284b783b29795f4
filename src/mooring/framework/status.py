"""Verdicts: how a plugin says yes, no, never, later or "I failed"."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Code(IntEnum):
    """What a status means; the numbers are upstream's."""

    SUCCESS = 0
    ERROR = 1  # something broke: the attempt fails and is retried with backoff
    UNSCHEDULABLE = 2  # no, but removing pods might change it
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3  # no, and removing pods cannot change it
    WAIT = 4  # Permit only
    SKIP = 5  # "this does not concern me": PreFilter, PreScore, PreBindPreFlight, Bind
    PENDING = 6  # no, and the pod need not do penance in backoff


CODE_NAMES = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.SKIP: "Skip",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.PENDING: "Pending",
}
"""How metrics and texts call the codes."""

REJECTED = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING))


@dataclass(frozen=True, slots=True)
class Status:
    """A code, the reasons that users will read, and the plugin that spoke."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_success(self) -> bool:
        return self.code is Code.SUCCESS

    @property
    def is_skip(self) -> bool:
        return self.code is Code.SKIP

    @property
    def is_rejected(self) -> bool:
        return self.code in REJECTED

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same verdict, signed; a plugin may sign for another one."""
        return self if self.plugin else Status(self.code, self.reasons, plugin)

    @staticmethod
    def unschedulable(*reasons: str) -> Status:
        return Status(Code.UNSCHEDULABLE, reasons)

    @staticmethod
    def unresolvable(*reasons: str) -> Status:
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)

    @staticmethod
    def error(*reasons: str) -> Status:
        return Status(Code.ERROR, reasons)

    @staticmethod
    def wait(*reasons: str) -> Status:
        return Status(Code.WAIT, reasons)

    @staticmethod
    def pending(*reasons: str) -> Status:
        return Status(Code.PENDING, reasons)


SUCCESS = Status()
SKIP = Status(Code.SKIP)

# PreFilter and PreScore may answer for the pod's whole template, if they look at nothing but its shape and leave
# nothing in the attempt's state. They are then not asked again about other pods of that shape.
SUCCESS_FOR_TEMPLATE = Status()
SKIP_FOR_TEMPLATE = Status(Code.SKIP)
