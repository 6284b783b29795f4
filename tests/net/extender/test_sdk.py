"""What extender authors import."""

from __future__ import annotations

from mooring.net.extender import sdk


def test_every_name_that_is_offered_is_there() -> None:
    assert all(hasattr(sdk, name) for name in sdk.__all__)


def test_the_same_refusal_is_one_object() -> None:
    assert sdk.refuse("no disk") is sdk.refuse("no disk")
    assert sdk.refuse("no disk") != sdk.refuse("no disk", for_good=True)
    assert sdk.refuse() == sdk.Refusal("", False)


def test_an_extender_has_the_defaults_of_kube_scheduler() -> None:
    made = sdk.Extender()
    assert (made.weight, made.ignorable, made.http_timeout, tuple(made.managed_resources)) == (1, False, "", ())
