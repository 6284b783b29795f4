"""A cluster that tells a shadow what an informer would tell it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from mooring.api.clock import VirtualClock
from mooring.api.core import Pod
from mooring.api.meta import Condition, Object
from mooring.ask.shadow.judge import Judge, ShadowVerdict
from mooring.ask.shadow.scene import Scene
from mooring.ask.shadow.shadow import SETTLE_S, Shadow
from mooring.core.config.features import DEFAULT_FEATURES
from mooring.core.config.load import config_from_dict
from mooring.testing import bound


class Stage:
    """Objects come, change and go, a hundredth of a second apart; verdicts are in ``verdicts``."""

    def __init__(
        self,
        *objects: Object,
        config: Mapping[str, Any] | None = None,
        compared: Mapping[str, Any] | None = None,
        names: tuple[str, ...] = ("default-scheduler",),
    ) -> None:
        self.clock = VirtualClock(1_000.0)
        self.verdicts: list[ShadowVerdict] = []
        self._version = 100
        self._there: dict[tuple[type[Object], str], Object] = {}
        scene = Scene()
        theirs = Judge(scene, config_from_dict(config, DEFAULT_FEATURES), DEFAULT_FEATURES, self.clock)
        ours = None
        if compared is not None:
            ours = Judge(scene, config_from_dict(compared, DEFAULT_FEATURES), DEFAULT_FEATURES, self.clock)
        self.shadow = Shadow(scene, theirs, ours, names, self.clock.now, tell=self.verdicts.append)
        self.put(*objects)
        self.shadow.is_synced = True

    def put(self, *objects: Object, version: int = 0) -> None:
        for obj in objects:
            self.clock.advance(0.01)
            self._version += 1
            new, key = deepcopy(obj), (type(obj), obj.key)
            new.metadata.resource_version = str(version or self._version)
            old = self._there.get(key)
            self._there[key] = new
            if old is None:
                self.shadow.put(new)
            else:
                self.shadow.update(old, new)

    def delete(self, obj: Object) -> None:
        self.clock.advance(0.01)
        self.shadow.delete(self._there.pop((type(obj), obj.key)))

    def bind(self, pod: Pod, node: str) -> None:
        """The scheduler binds a waiting pod."""
        self.put(bound(self._there[Pod, pod.key], node))  # type: ignore[arg-type]

    def refuse(self, pod: Pod, message: str, nominated: str = "", reason: str = "Unschedulable") -> None:
        """The scheduler says why a pod has no node."""
        changed = deepcopy(self._there[Pod, pod.key])
        assert isinstance(changed, Pod)
        changed.status.conditions = [Condition(type="PodScheduled", status="False", reason=reason, message=message)]
        changed.status.nominated_node_name = nominated
        self.put(changed)

    def verdict(self) -> ShadowVerdict:
        """The only one, after all that wait have been given."""
        self.clock.advance(SETTLE_S)
        self.shadow.settle()
        (found,) = self.verdicts
        return found
