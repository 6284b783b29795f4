"""How many of a pod's terms match a pod: counted for all kinds of pods together, not term by term for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mooring.api.selectors import Requirement
from mooring.core.state.pod_info import AffinityTerm, PodClass

Mask = NDArray[np.bool_]

Places = list[int] | NDArray[np.int64]

MANY = 64  # places in a list; an array of them is read faster
FEW = 1024  # up to this many comparisons are faster one by one than in a batch


class TermSum:
    """Some of a pod's terms, resolved: no labels of namespaces are asked for. Each counts once, or by its weight."""

    def __init__(self, terms: tuple[AffinityTerm, ...], weights: tuple[int, ...] = ()) -> None:
        self.terms = terms
        self.weights = weights or (1,) * len(terms)

    @cached_property
    def _by_label(self) -> dict[tuple[str, str] | None, list[tuple[AffinityTerm, int]]]:
        """By a label that a pod must carry to be meant: few of thousands are compared with one pod."""
        found: dict[tuple[str, str] | None, list[tuple[AffinityTerm, int]]] = {}
        for term, weight in zip(self.terms, self.weights, strict=True):
            found.setdefault(term.selector.exact[0] if term.selector.exact else None, []).append((term, weight))
        return found

    def count(self, cls: PodClass) -> int:
        """How many of the terms mean a pod of this class."""
        return sum(self._matching(cls.namespace, cls.labels))

    def count_all(self, classes: Sequence[PodClass]) -> list[int]:
        """The same for each of these classes."""
        if len(classes) * len(self.terms) <= FEW:
            return [self.count(cls) for cls in classes]
        total = np.zeros(len(classes), np.int64)
        by_label = _ClassesByLabel(classes)
        for term, weight in zip(self.terms, self.weights, strict=True):
            meant = by_label.classes_matching(term)
            if meant is not None:
                total += meant if weight == 1 else weight * meant
        found: list[int] = total.tolist()
        return found

    def holds(self, cls: PodClass) -> bool:
        """Report whether all of the terms mean a pod of this class."""
        return all(term.matches(cls.namespace, cls.labels, {}) for term in self.terms)

    def hold_all(self, classes: Sequence[PodClass]) -> list[bool]:
        """The same for each of these classes."""
        return [count == len(self.terms) for count in self.count_all(classes)]

    def _matching(self, namespace: str, labels: Mapping[str, str]) -> Iterator[int]:
        for label in (None, *labels.items()):
            for term, weight in self._by_label.get(label, ()):
                if term.matches(namespace, labels, {}):
                    yield weight


class _ClassesByLabel:
    """The classes that carry each label: a requirement is a mask over all classes."""

    def __init__(self, classes: Sequence[PodClass]) -> None:
        self._namespaces = [cls.namespace for cls in classes]
        carriers: dict[str, dict[str, list[int]]] = {}  # by key and value
        for i, cls in enumerate(classes):
            for key, value in cls.labels.items():
                carriers.setdefault(key, {}).setdefault(value, []).append(i)
        self._carriers: dict[str, dict[str, Places]] = {
            key: {value: np.array(places) if len(places) > MANY else places for value, places in by_value.items()}
            for key, by_value in carriers.items()
        }
        self._have: dict[str, Mask] = {}  # by key
        self._inside: dict[frozenset[str], Mask] = {}

    def classes_matching(self, term: AffinityTerm) -> Mask | None:
        """Which classes a term means; None where it means none."""
        if term.selector.matches_nothing:
            return None
        masks = []
        for requirement in term.selector.requirements:
            mask = self._meet(requirement)
            if mask is None:
                return None
            masks.append(mask)
        if not term.namespace_selector.matches({}):
            masks.append(self._are_inside(term.namespaces))
        if not masks:
            return np.ones(len(self._namespaces), np.bool_)
        return masks[0] if len(masks) == 1 else np.logical_and.reduce(masks)

    def _meet(self, requirement: Requirement) -> Mask | None:
        match requirement.operator:
            case "In":
                return self._carry(requirement)
            case "NotIn":
                found = self._carry(requirement)
                return np.ones(len(self._namespaces), np.bool_) if found is None else ~found
            case "Exists":
                return self._having(requirement.key)
            case _:  # DoesNotExist; a selector of pods has no other operators
                return ~self._having(requirement.key)

    def _carry(self, requirement: Requirement) -> Mask | None:
        """Which classes have one of the values; None where none has."""
        by_value = self._carriers.get(requirement.key, {})
        found = [by_value[value] for value in requirement.values if value in by_value]
        return self._mask(found) if found else None

    def _having(self, key: str) -> Mask:
        mask = self._have.get(key)
        if mask is None:
            mask = self._have[key] = self._mask(self._carriers.get(key, {}).values())
        return mask

    def _are_inside(self, namespaces: frozenset[str]) -> Mask:
        mask = self._inside.get(namespaces)
        if mask is None:
            mask = self._inside[namespaces] = np.array([name in namespaces for name in self._namespaces], np.bool_)
        return mask

    def _mask(self, places: Iterable[Places]) -> Mask:
        mask = np.zeros(len(self._namespaces), np.bool_)
        for each in places:
            mask[each] = True
        return mask
