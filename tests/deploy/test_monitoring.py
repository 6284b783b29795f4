"""Dashboards and alerts ask only for metrics and labels that the scheduler has."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
import yaml

from mooring.live.metrics import SchedulerMetrics

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "deploy" / "monitoring" / "dashboard.json"
RULES = ROOT / "deploy" / "components" / "monitoring" / "prometheus-rule.yaml"
METRIC = re.compile(r"\b(?:scheduler|rest_client|leader_election|kube_pod|kubernetes|mooring)_[a-z_]+\b")
ADDED_BY_PROMETHEUS = {"job", "le", "pod", "instance", "namespace"}


def _families() -> dict[str, set[str]]:
    registry = SchedulerMetrics().registry
    return {family.name: set(family.label_names) for family in registry._families.values()}


def _expressions() -> list[tuple[str, str]]:
    dashboard = json.loads(DASHBOARD.read_text())
    found = [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]
    (group,) = yaml.safe_load(RULES.read_text())["spec"]["groups"]
    return found + [(rule["alert"], rule["expr"]) for rule in group["rules"]]


@pytest.mark.parametrize(("title", "expression"), _expressions(), ids=lambda value: value[:40])
def test_an_expression_asks_for_what_there_is(title, expression):
    families = _families()
    used = set(METRIC.findall(expression))
    assert used, expression
    labels = set(ADDED_BY_PROMETHEUS)
    for name in used:
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        assert family in families, f"{title}: there is no metric {name}"
        labels |= families[family]
    asked = set(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', expression))
    asked |= {word for group in re.findall(r"by \(([^)]*)\)", expression) for word in re.findall(r"\w+", group)}
    assert asked <= labels, f"{title}: no such labels"
    assert expression.count("(") == expression.count(")")


def test_the_dashboard_is_what_its_script_writes():
    made = runpy.run_path(str(ROOT / "scripts" / "dashboard.py"))["dashboard"]()
    assert json.loads(DASHBOARD.read_text()) == json.loads(json.dumps(made))


def test_every_alert_leads_to_a_page():
    (group,) = yaml.safe_load(RULES.read_text())["spec"]["groups"]
    for rule in group["rules"]:
        assert (ROOT / rule["annotations"]["runbook"]).is_file(), rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
