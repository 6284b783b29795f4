"""Which clusters share data, and when one may write in place."""

from __future__ import annotations

import gc

from mooring.core.state.sharing import Forkable, stamps

ONE, TWO = 1, 2
BOTH = ONE | TWO


class Thing(Forkable):
    def fork(self) -> Thing:
        fork = Thing()
        self.share_with(fork, BOTH)
        return fork


def test_what_was_never_forked_shares_nothing() -> None:
    thing = Thing()
    assert not (thing.shared or thing.is_fork or thing.has_forks() or thing.must_copy(ONE))


def test_a_fork_and_its_parent_copy_before_they_write_each_part_once() -> None:
    parent = Thing()
    fork = parent.fork()
    assert parent.shared == fork.shared == BOTH and fork.is_fork and parent.has_forks()
    assert parent.must_copy(ONE) and not parent.must_copy(ONE), "it is its own then"
    assert parent.shared == TWO and parent.must_copy(TWO)
    assert fork.must_copy(ONE), "the fork cannot know that it is the only holder left"
    assert not fork.must_copy(ONE)


def test_once_the_fork_is_gone_the_parent_writes_in_place() -> None:
    parent = Thing()
    fork = parent.fork()
    del fork
    gc.collect()
    assert not parent.must_copy(ONE) and parent.shared == 0


def test_a_fork_of_a_fork_keeps_the_first_from_writing_in_place() -> None:
    parent = Thing()
    child = parent.fork()
    grandchild = child.fork()
    del child
    gc.collect()
    assert parent.must_copy(ONE), "what the grandchild has is still the parent's"
    assert grandchild.must_copy(ONE)


def test_a_fork_writes_in_place_again_when_its_own_fork_is_gone() -> None:
    parent = Thing()
    child = parent.fork()
    child.must_copy(ONE)
    grandchild = child.fork()
    del grandchild
    gc.collect()
    assert not child.must_copy(ONE) and child.must_copy(TWO)


def test_a_later_fork_shares_again() -> None:
    parent = Thing()
    first = parent.fork()
    parent.must_copy(ONE)
    second = parent.fork()
    assert parent.must_copy(ONE) and first.must_copy(ONE) and second.must_copy(ONE)


def test_stamps_never_come_twice() -> None:
    assert next(stamps) != next(stamps)
