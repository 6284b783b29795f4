"""Feature gates and ungated changes of the emulated Kubernetes version.

:class:`Features` answers for both by name. :mod:`mooring.core.config.versions` lists them by version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mooring.api.errors import UsageError
from mooring.api.text import nearest
from mooring.core.config.versions import CHANGES, DEFAULT_VERSION, VERSIONS, KubernetesVersion, Stage

UNSUPPORTED: Mapping[str, str] = {
    "DRAPartitionableDevices": "devices that share counters are always understood",
    "DRAConsumableCapacity": "devices that several claims share are always understood",
    "DRADeviceBindingConditions": "binding conditions of devices are always waited for",
    "DRAResourceClaimDeviceStatus": "the status of devices is always read",
    "DRAListTypeAttributes": "attributes of devices that are lists are not understood",
    "DRANodeAllocatableResources": "devices are not counted as a node's resources",
    "CoordinatedLeaderElection": "leaders are elected by leases alone",
    "CompositePodGroup": "trees of pod groups are not understood",
    "InPlacePodVerticalScalingSchedulerPreemption": "nothing is evicted for a pod that waits to be resized",
    "DRADerivedAttributes": "attributes of devices that follow from others are not understood",
    "DRADeviceCompatibilityGroups": "groups of compatible devices are not understood",
}
"""Gates that are accepted only with their default in any version, and why; a version adds its own.

All others are honoured or have no effect here: writes never block a decision, with SchedulerAsyncAPICalls or without
it, and ClearingNominatedNodeNameAfterBinding and MatchLabelKeysInPodTopologySpreadSelectorMerge concern only the API
server.
"""

_ALL = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}


class Features(Mapping[str, bool]):
    """The state of gates and changes in one version: ``features["NodeDeclaredFeatures"]``; immutable and hashable.

    It iterates over the version's gates. It also answers for the names in :data:`CHANGES`, which cannot be set, and for
    gates that only other versions have: a gate that was merged into another follows that one, others are off.
    """

    __slots__ = ("_on", "version")

    def __init__(self, version: KubernetesVersion = DEFAULT_VERSION, /, **overrides: bool) -> None:
        for name in overrides:
            if name not in version.gates:
                raise KeyError(name)
        self.version = version
        self._on = {name: overrides.get(name, gate.default) for name, gate in version.gates.items()}

    def __getitem__(self, name: str) -> bool:
        on = self._on.get(name)
        if on is not None:
            return on
        if name in self.version.merged:
            return self._on[self.version.merged[name]]
        if name in CHANGES:
            return name in self.version.changes
        if any(name in version.gates for version in VERSIONS.values()):
            return False
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in self._on

    def __iter__(self) -> Iterator[str]:
        return iter(self._on)

    def __len__(self) -> int:
        return len(self._on)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Features) and self.version is other.version and self._on == other._on

    def __hash__(self) -> int:
        return hash((self.version.minor, frozenset(name for name, on in self._on.items() if on)))

    def __repr__(self) -> str:
        return f"Features({', '.join((str(self.version), *(f'{n}={on}' for n, on in self.changed().items())))})"

    def changed(self) -> dict[str, bool]:
        """Return the gates that differ from their defaults."""
        return {name: on for name, on in self._on.items() if on != self.version.gates[name].default}


DEFAULT_FEATURES = Features()


def parse_feature_gates(texts: Iterable[str], version: KubernetesVersion = DEFAULT_VERSION) -> Features:
    """Parse ``--feature-gates`` values, each ``[kube:]Name=true|false,…``; the last value of a gate wins."""
    wanted: dict[str, bool] = {}
    groups: dict[Stage, bool] = {}
    for text in texts:
        for pair in filter(None, (p.strip() for p in text.split(","))):
            name, equals, value = pair.partition("=")
            component, colon, bare = name.partition(":")
            name = (bare if colon else name).strip()
            if not equals:
                raise UsageError(f"--feature-gates: missing bool value for {name}; write {name}=true or {name}=false")
            if colon and component.strip() != "kube":
                raise UsageError(f'--feature-gates: component not registered: {component.strip()}; only "kube" is')
            on = _bool(name, value.strip())
            if name in _ALL:
                groups[_ALL[name]] = on
            elif name in version.gates:
                gate = version.gates[name]
                if gate.locked and on != gate.default:
                    raise UsageError(
                        f"--feature-gates: cannot set feature gate {name} to {str(on).lower()}, "
                        f"feature is locked to {str(gate.default).lower()}"
                    )
                wanted[name] = on
            elif name not in version.elsewhere:
                raise UsageError(f"--feature-gates: unrecognized feature gate: {name}{_suggest(name, version)}")
    # AllAlpha and AllBeta apply only to gates that are not named.
    named_by_stage = {g.name: groups[g.stage] for g in version.gates.values() if g.stage in groups and not g.locked}
    features = Features(version, **{**named_by_stage, **wanted})
    _check_dependencies(features)
    return features


def check_supported(features: Features) -> None:
    """Reject gates that this scheduler cannot honour: its decisions would differ from what the operator expects."""
    unsupported = {**UNSUPPORTED, **features.version.unsupported}
    problems = [
        f"{name}={str(on).lower()} is not supported: {unsupported[name]}"
        for name, on in features.changed().items()
        if name in unsupported
    ]
    if problems:
        raise UsageError(f"--feature-gates: {'; '.join(problems)}")


def _check_dependencies(features: Features) -> None:
    if not features["GatesHaveDependencies"]:
        return
    for name, dependencies in features.version.depends_on.items():
        disabled = [dependency for dependency in dependencies if not features[dependency]]
        if features[name] and disabled:
            raise UsageError(
                f"--feature-gates: {name} is enabled, but depends on features that are disabled: [{' '.join(disabled)}]"
            )


def _bool(name: str, value: str) -> bool:
    # The spellings of Go's strconv.ParseBool.
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if value in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise UsageError(f'--feature-gates: invalid value of {name}={value}, found "{value}", want true or false')


def _suggest(name: str, version: KubernetesVersion) -> str:
    others = [str(other) for other in VERSIONS.values() if name in other.gates]
    if others:
        return f"; Kubernetes {', '.join(others)} {'have' if others[1:] else 'has'} it, {version} has not"
    near = nearest(name, [*version.gates, *_ALL])
    return f"; did you mean {near}?" if near else ""
