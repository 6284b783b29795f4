"""Templates: what is calculated, what is spelled anew, and what a mistake says."""

from __future__ import annotations

import pytest

from mooring.api.errors import InputError
from mooring.bench.perf.templates import Template, render_text


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("{{.Index}}", "7", id="the index"),
        pytest.param("{{ .Count }}", "20", id="the count, with spaces"),
        pytest.param("a-{{- .Index -}}-b", "a-7-b", id="dashes that trim"),
        pytest.param("8{{ Mod .Index 5 }}", "82", id="a remainder"),
        pytest.param("{{Mod (SubtractInt 0 7) 5}}", "-2", id="a remainder has the sign of what is divided, as in Go"),
        pytest.param("{{DivideInt 30000 .Count}}Mi", "1500Mi", id="integers divided"),
        pytest.param("{{DivideInt (SubtractInt 0 7) 2}}", "-3", id="cut towards zero, as in Go"),
        pytest.param("{{AddInt (MultiplyInt .Index 10) 1}}", "71", id="a call in a call"),
        pytest.param("{{DivideFloat .Index 2}}", "3.5", id="floats divided"),
        pytest.param("{{.Index}}/{{.Count}}", "7/20", id="two in a line"),
        pytest.param("nothing", "nothing", id="nothing to replace"),
    ],
)
def test_a_template_calculates(text: str, want: str) -> None:
    assert render_text(text, 7, 20) == want


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("a\n{{.Name}}", "file.yaml: line 2: {{.Name}}: '.Name' is not known", id="an unknown field"),
        pytest.param("{{Mod .Index}}", "Mod takes two values, found 1", id="too few values"),
        pytest.param("{{Mod .Index 0}}", "file.yaml: line 1: {{Mod .Index 0}}", id="a division by zero"),
        pytest.param("{{(Mod .Index 2}}", "parentheses do not match", id="an open parenthesis"),
        pytest.param("{{}}", "expected one value", id="nothing in it"),
    ],
)
def test_a_mistake_in_a_template_says_where(text: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        render_text(text, 1, 2, "file.yaml")
    assert complaint in str(caught.value)


def test_field_names_are_read_in_any_case_and_keys_of_maps_are_left_alone() -> None:
    template = Template(
        "apiVersion: v1\nkind: Pod\nmetadata: {Labels: {NodeName: x}}\n"
        "spec: {NodeSelector: {DISK: ssd}, topologySpreadConstraints: [{NodeTaintsPolicy: Honor}]}"
    )
    pod = template.render()
    assert pod["metadata"] == {"labels": {"NodeName": "x"}}
    assert pod["spec"]["nodeSelector"] == {"DISK": "ssd"}
    assert pod["spec"]["topologySpreadConstraints"] == [{"nodeTaintsPolicy": "Honor"}]


def test_a_rendered_object_is_ones_own() -> None:
    template = Template("apiVersion: v1\nkind: Pod\nmetadata: {labels: {a: b}}")
    template.render()["metadata"]["labels"]["a"] = "changed"
    assert template.is_static
    assert template.render()["metadata"]["labels"] == {"a": "b"}


def test_the_last_beta_of_a_kind_is_read_as_its_final_version() -> None:
    template = Template("apiVersion: resource.k8s.io/v1beta2\nkind: DeviceClass\nmetadata: {name: a}")
    assert template.kind().api_version == "resource.k8s.io/v1"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("- a", "no object in it", id="a list"),
        pytest.param("kind: Ship\napiVersion: v1", "unknown kind", id="an unknown kind"),
        pytest.param("kind: Pod\napiVersion: v2", "unknown kind", id="an unknown version"),
    ],
)
def test_what_is_no_object_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Template(text, "file.yaml").kind()
