"""Findings as SARIF 2.1.0, which code review tools show beside the lines."""

from __future__ import annotations

from typing import Any

from mooring.linting.findings import Finding, Findings, Severity
from mooring.linting.rules import RULES, Rule
from mooring.version import __version__

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def to_sarif(found: Findings) -> dict[str, Any]:
    """One run with the rules that were asked, and a result for each finding."""
    rules = [RULES[name] for name in found.rules]
    index = {rule.name: i for i, rule in enumerate(rules)}
    driver = {"name": "mooring lint", "version": __version__, "rules": [_rule(rule) for rule in rules]}
    results = [_result(finding, index[finding.rule]) for finding in found]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": " ".join(rule.text.split())},
        "help": {"text": rule.text, "markdown": rule.text},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    about = f"{finding.object}: " if finding.object else ""
    place = {"artifactLocation": {"uri": finding.file.replace("\\", "/")}, "region": {"startLine": finding.line}}
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{about}{finding.message}. Fix: {finding.fix}"},
        "locations": [{"physicalLocation": place}],
    }
