"""The catalogue of kinds: it is complete, and each kind is described without contradiction."""

from __future__ import annotations

import pkgutil

import pytest

from mooring.controlplane.registry import catalog
from mooring.controlplane.registry.catalog import KINDS, by_group_kind, by_path, by_resource
from mooring.controlplane.registry.groups import __path__
from mooring.controlplane.types import schema
from mooring.controlplane.types.kind import Kind

EVERY_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource)


def test_every_module_of_the_groups_is_in_the_catalogue() -> None:
    modules = {module.name for module in pkgutil.iter_modules(__path__)}
    assert {module.__name__.rpartition(".")[2] for module in catalog.GROUPS} == modules


def test_kinds_come_in_the_order_of_their_groups_and_names() -> None:
    places = [(kind.group, kind.version, kind.plural) for kind in KINDS]
    assert places == sorted(set(places))


@EVERY_KIND
def test_a_kind_is_found_by_path_by_resource_and_by_kind(kind: Kind) -> None:
    assert by_path(kind.group, kind.version, kind.plural) is kind
    assert by_resource(kind.resource) is kind
    assert by_group_kind(kind.group, kind.kind) is kind


def test_kinds_of_versions_other_than_v1_are_found_by_resource() -> None:
    assert by_resource("podgroups.scheduling.x-k8s.io").version == "v1alpha1"


def test_a_resource_that_is_not_served_is_named() -> None:
    with pytest.raises(KeyError, match="gadgets"):
        by_resource("gadgets")


@EVERY_KIND
def test_the_type_of_a_kind_is_known(kind: Kind) -> None:
    described = schema.types()[kind.type_name]
    assert {"apiVersion", "kind", "metadata"} <= described.fields.keys()
    assert ("status" in described.fields) or not kind.has_status


@EVERY_KIND
def test_the_fields_of_an_empty_object_are_those_that_can_be_selected(kind: Kind) -> None:
    if kind.fields is not None:
        assert kind.fields.extract({"metadata": {}}).keys() <= set(kind.fields.names)
        assert set(kind.fields.names) <= kind.field_names()


@EVERY_KIND
def test_columns_have_names_of_their_own(kind: Kind) -> None:
    names = [column.name for column in kind.columns]
    assert len(set(names)) == len(names)


@EVERY_KIND
def test_a_view_shows_what_it_stores(kind: Kind) -> None:
    obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {"name": "a"}, "reason": "Scheduled"}
    stored = kind.stored(dict(obj))
    assert stored["apiVersion"] == kind.storage.api_version
    assert kind.shown(stored).items() >= obj.items()
    assert kind.is_stored == (kind.storage is kind and "list" in kind.verbs)
