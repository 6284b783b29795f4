"""The assume cache: what is expected, until the API server has spoken."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mooring.api.meta import ObjectMeta
from mooring.api.storage import PersistentVolumeClaim
from mooring.core.plugins.volumes.free_volumes import AssumeCache, OutOfSync
from mooring.core.state.cluster import Objects

NAMES = ["a", "b"]


def claim(name: str, version: str, **annotations: str) -> PersistentVolumeClaim:
    meta = ObjectMeta(name=name, namespace="ns", resource_version=version, annotations=annotations)
    return PersistentVolumeClaim(metadata=meta)


class AssumeMachine(RuleBasedStateMachine):
    """A model beside the cache: per name what is stored, and what is assumed on top of which version."""

    def __init__(self) -> None:
        super().__init__()
        self.objects = Objects()
        self.cache = AssumeCache(PersistentVolumeClaim, self.objects, "persistentvolumeclaims")
        self.version = 0
        self.stored: dict[str, PersistentVolumeClaim] = {}
        self.assumed: dict[str, PersistentVolumeClaim] = {}

    @rule(name=st.sampled_from(NAMES))
    def the_api_server_says_something_new(self, name: str) -> None:
        self.version += 1
        self.stored[name] = claim(name, str(self.version))
        self.objects.put(self.stored[name])
        self.assumed.pop(name, None)

    @rule(name=st.sampled_from(NAMES))
    def a_relist_brings_the_same_version(self, name: str) -> None:
        if name in self.stored:
            self.stored[name] = msgspec.convert(msgspec.to_builtins(self.stored[name]), PersistentVolumeClaim)
            self.objects.put(self.stored[name])

    @rule(name=st.sampled_from(NAMES))
    def it_is_deleted(self, name: str) -> None:
        self.objects.remove(PersistentVolumeClaim, f"ns/{name}")
        self.stored.pop(name, None)
        self.assumed.pop(name, None)

    @rule(name=st.sampled_from(NAMES), behind=st.integers(0, 1), note=st.text("xy", min_size=1, max_size=2))
    def something_is_assumed(self, name: str, behind: int, note: str) -> None:
        stored = self.stored.get(name)
        version = "0" if stored is None else str(int(stored.metadata.resource_version) - behind)
        wish = claim(name, version, note=note)
        if stored is not None and behind == 0:
            self.cache.assume(wish)
            self.assumed[name] = wish
        else:
            with pytest.raises(OutOfSync):
                self.cache.assume(wish)

    @rule(name=st.sampled_from(NAMES), behind=st.integers(0, 1))
    def it_is_restored(self, name: str, behind: int) -> None:
        assumed = self.assumed.get(name)
        current = 0 if assumed is None else int(assumed.metadata.resource_version)
        self.cache.restore(claim(name, str(current - behind)))
        if behind == 0:
            self.assumed.pop(name, None)

    @invariant()
    def later_decisions_see_what_is_assumed_or_else_what_is_stored(self) -> None:
        for name in NAMES:
            assert self.cache.get(f"ns/{name}") is self.assumed.get(name, self.stored.get(name))
            assert self.cache.stored(f"ns/{name}") is self.stored.get(name)


TestAssumeCache = AssumeMachine.TestCase


def test_objects_without_versions_are_distinguished_by_identity() -> None:
    """A simulation may leave versions empty: then any new object ends the assumption."""
    objects = Objects()
    cache = AssumeCache(PersistentVolumeClaim, objects, "persistentvolumeclaims")
    objects.put(claim("a", ""))
    wish = claim("a", "", note="x")
    cache.assume(wish)
    assert cache.get("ns/a") is wish
    fresh = claim("a", "")
    objects.put(fresh)
    assert cache.get("ns/a") is fresh


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        (None, 'persistentvolumeclaims "ns/a" not found'),
        ("7", '"ns/a" is out of sync (stored: 7, assume: 6)'),
    ],
    ids=["it is gone", "it is newer"],
)
def test_the_words_for_a_wish_that_comes_too_late(stored: str | None, text: str) -> None:
    objects = Objects()
    if stored is not None:
        objects.put(claim("a", stored))
    with pytest.raises(OutOfSync) as raised:
        AssumeCache(PersistentVolumeClaim, objects, "persistentvolumeclaims").assume(claim("a", "6"))
    assert str(raised.value) == text


def test_followers_of_the_cache_learn_what_changed() -> None:
    objects = Objects()
    cache = AssumeCache(PersistentVolumeClaim, objects, "persistentvolumeclaims")
    objects.put(claim("a", "1"))
    cache.assume(claim("a", "1"))
    assert cache.touched == {"ns/a"}
    cache.touched.clear()
    cache.restore(claim("a", "1"))
    assert cache.touched == {"ns/a"}
