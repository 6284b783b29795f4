"""Who shares data with whom, and when one may write in place."""

from __future__ import annotations

import gc

from mooring.state.sharing import Forkable, stamps

PARTS = 3


class Thing(Forkable):
    def fork(self) -> Thing:
        fork = Thing()
        self.share_with(fork, PARTS)
        return fork


def test_what_was_never_forked_shares_nothing() -> None:
    thing = Thing()
    assert thing.shared == 0 and not thing.has_relatives() and thing.is_alone()


def test_a_fork_and_its_parent_share_all_parts() -> None:
    parent = Thing()
    fork = parent.fork()
    assert parent.shared == fork.shared == PARTS
    assert parent.has_relatives() and fork.has_relatives()
    assert not parent.is_alone() and parent.shared == PARTS, "asking changes nothing while the other is there"


def test_once_the_fork_is_gone_the_parent_is_alone() -> None:
    parent = Thing()
    fork = parent.fork()
    del fork
    gc.collect()
    assert parent.is_alone() and parent.shared == 0


def test_a_fork_that_leaves_is_as_good_as_gone() -> None:
    parent = Thing()
    fork = parent.fork()
    fork.leave()
    assert parent.is_alone()


def test_a_fork_of_a_fork_is_family_of_the_first() -> None:
    parent = Thing()
    child = parent.fork()
    grandchild = child.fork()
    del child
    gc.collect()
    assert not parent.is_alone() and grandchild.has_relatives()


def test_stamps_never_come_twice() -> None:
    assert next(stamps) != next(stamps)
