"""Moments of a record that lie near each other: a step to the next decision does not begin at a keyframe.

The first question opens the record some attempts before the one that is asked for, and remembers what happened from
there on. Neighbours are forks of the moments that were kept on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mooring.record.entries import Attempt, Happened
from mooring.record.moment import Moment
from mooring.record.reader import Record

BEFORE = 64  # attempts before the first one that is asked for
AHEAD = 1_000  # attempts that are played rather than opened
EVERY = 32  # attempts between two moments that are kept
MOST = 2_048  # attempts that are remembered


class Moments:
    """Gives the moments of attempts of one record, which it keeps open. Not for two threads at once."""

    def __init__(self, opener: Callable[[], Record]) -> None:
        self._opener = opener
        self._record: Record | None = None
        self._rest: Iterator[tuple[float, Happened]] = iter(())
        self._front: Moment | None = None  # everything that is remembered has happened to it
        self._past: list[tuple[float, Happened]] = []
        self._places: dict[int, int] = {}  # number of an attempt -> its place in the past
        self._kept: dict[int, Moment] = {}  # just before these attempts

    def close(self) -> None:
        if self._record is not None:
            self._record.close()

    def has(self, number: int) -> bool:
        """Whether this attempt is near the others, and in the record as it was when it was opened."""
        if self._record is None or number > self._record.num_attempts:
            return False
        last = max(self._places, default=0)
        return number in self._places or last < number <= last + AHEAD

    def at(self, number: int) -> Moment:
        """The moment just before this attempt: a fork, with the attempt in it."""
        if not self.has(number):
            self._open(number)
        while number not in self._places:
            self._go_on(number)
        base = max(each for each in self._kept if each <= number)
        moment = self._kept[base].fork()
        place = self._places[number]
        for time, entry in self._past[self._places[base] : place]:
            moment.apply(time, entry)
        moment.time, entry = self._past[place]
        assert isinstance(entry, Attempt)
        moment.attempt = entry
        if moment.unreserved and self._record is not None:  # volumes or devices are promised, which forks do not hold
            return self._record.attempt(number)
        return moment

    def _open(self, number: int) -> None:
        self.close()
        self._record = self._opener()
        first = max(self._record.attempts_before + 1, number - BEFORE)
        self._front, self._rest = self._record.from_attempt(min(first, number))
        self._past, self._places, self._kept = [], {}, {}

    def _go_on(self, number: int) -> None:
        """Let the next thing happen."""
        assert self._front is not None and self._record is not None
        following = next(self._rest, None)
        if following is None:
            self._record.attempt(number)  # which says that there is no such attempt
            return
        time, entry = following
        if isinstance(entry, Attempt):
            if len(self._places) % EVERY == 0:
                self._kept[entry.number] = self._front.fork()
            self._places[entry.number] = len(self._past)
        self._past.append(following)
        self._front.apply(time, entry)
        if len(self._places) > MOST:
            self._forget()

    def _forget(self) -> None:
        """Drop the older half."""
        begin = sorted(self._kept)[len(self._kept) // 2]
        cut = self._places[begin]
        self._past = self._past[cut:]
        self._places = {each: place - cut for each, place in self._places.items() if each >= begin}
        self._kept = {each: moment for each, moment in self._kept.items() if each >= begin}
