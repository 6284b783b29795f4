"""The order in which nodes are looked at: one of each zone, round and round."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, zip_longest

from mooring.api.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE

ZONE_LABELS = (BETA_ZONE, ZONE)
REGION_LABELS = (BETA_REGION, REGION)


def zone_key(labels: Mapping[str, str]) -> str:
    """Region and zone in one string; the deprecated labels win where both are there, as upstream has it."""
    zone = next((labels[key] for key in ZONE_LABELS if key in labels), "")
    region = next((labels[key] for key in REGION_LABELS if key in labels), "")
    return f"{region}:\x00:{zone}" if zone or region else ""


class NodeTree:
    """Zones in order of first appearance, nodes in each in order of arrival."""

    def __init__(self) -> None:
        self._zones: dict[str, dict[str, None]] = {}
        self._zone_of: dict[str, str] = {}

    def copy(self) -> NodeTree:
        copy = NodeTree()
        copy._zones = {zone: dict(names) for zone, names in self._zones.items()}
        copy._zone_of = dict(self._zone_of)
        return copy

    def __len__(self) -> int:
        return len(self._zone_of)

    def add(self, name: str, labels: Mapping[str, str]) -> None:
        zone = zone_key(labels)
        if self._zone_of.get(name) == zone:
            return
        self.remove(name)
        self._zones.setdefault(zone, {})[name] = None
        self._zone_of[name] = zone

    def remove(self, name: str) -> None:
        zone = self._zone_of.pop(name, None)
        if zone is None:
            return
        del self._zones[zone][name]
        if not self._zones[zone]:
            del self._zones[zone]

    def by_zone(self) -> list[str]:
        """Zone after zone: nodes that are added to an empty tree in this order give the same tree."""
        return list(chain.from_iterable(self._zones.values()))

    def names(self) -> list[str]:
        """First node of each zone, then the second of each, and so on."""
        rounds = zip_longest(*self._zones.values())
        return [name for name in chain.from_iterable(rounds) if name is not None]
