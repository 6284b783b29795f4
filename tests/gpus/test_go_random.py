"""The numbers are those of Go programs."""

from __future__ import annotations

from mooring.gpus.go_random import GoRandom


def test_intn_draws_what_go_programs_print() -> None:
    rng = GoRandom(1)
    assert [rng.intn(100) for _ in range(10)] == [81, 87, 47, 59, 81, 18, 25, 40, 56, 0]


def test_the_first_number_of_seed_1_is_the_one_that_go_documents() -> None:
    assert GoRandom(1).int63() == 5577006791947779410


def test_perm_is_a_permutation_that_the_seed_decides() -> None:
    assert sorted(GoRandom(42).perm(100)) == list(range(100))
    assert GoRandom(42).perm(100) == GoRandom(42).perm(100) != GoRandom(43).perm(100)


def test_shuffle_keeps_the_items_and_uses_one_draw_for_each_but_the_first() -> None:
    items = list(range(50))
    rng, other = GoRandom(7), GoRandom(7)
    rng.shuffle(items)
    assert sorted(items) == list(range(50)) != items
    for _ in range(49):
        other.int63()
    assert rng.int63() == other.int63()


def test_seed_0_is_a_seed_of_its_own() -> None:
    assert GoRandom(0).int63() == GoRandom(89_482_311).int63()
