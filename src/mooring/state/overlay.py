"""A dictionary and a list laid over others that do not change: a fork's nodes by name and by row."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, TypeVar

V = TypeVar("V")


class Overlay(MutableMapping[str, V]):
    """Own entries hide those below. Look-ups copy nothing; whatever needs all entries takes them over first."""

    __slots__ = ("_below", "_own")

    def __init__(self, below: MutableMapping[str, V]) -> None:
        self._below = below
        self._own: dict[str, V] = {}

    def _all(self) -> dict[str, V]:
        if self._below:
            self._own = {**self._below, **self._own}
            self._below = {}
        return self._own

    def __getitem__(self, key: str) -> V:
        own = self._own
        return own[key] if key in own else self._below[key]

    def get(self, key: str, default: Any = None) -> Any:
        own = self._own
        return own[key] if key in own else self._below.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._own or key in self._below

    def __setitem__(self, key: str, value: V) -> None:
        self._own[key] = value

    def __delitem__(self, key: str) -> None:
        del self._all()[key]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())


class OverlayList(Sequence[V]):
    """Some entries of a list replaced; its length is fixed."""

    __slots__ = ("_below", "_own")

    def __init__(self, below: Sequence[V]) -> None:
        self._below = below
        self._own: dict[int, V] = {}

    def __getitem__(self, i: Any) -> Any:
        own = self._own
        return own[i] if i in own else self._below[i]

    def __setitem__(self, i: int, value: V) -> None:
        self._own[i] = value

    def __len__(self) -> int:
        return len(self._below)
