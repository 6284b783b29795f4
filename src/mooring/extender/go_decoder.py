"""Answers read value by value as Go's decoder reads them. It is slow, and used when the quick way fails."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from mooring.extender.go_json import Float, JsonSyntaxError, first_value_end, go_kind
from mooring.framework.extender import ExtenderError

MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1


@dataclass(slots=True)
class FilterAnswer:
    """ExtenderFilterResult."""

    nodes: list[bytes] | None = None  # the items of Nodes, each as it came
    node_names: list[str] | None = None
    failed: dict[str, str] = field(default_factory=dict)
    failed_and_unresolvable: dict[str, str] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class MetaVictims:
    uids: tuple[str, ...]
    pdb_violations: int


class GoDecoder:
    """Reads an answer value by value, as Go's decoder does, and says what Go says of the first that does not fit."""

    def __init__(self, type_name: str, body: bytes) -> None:
        self._type = type_name
        self._error = ""
        self._value = _plain(body)

    def filter_answer(self) -> FilterAnswer:
        answer = FilterAnswer()
        for key, value in self._root_object():
            match key.lower():
                case "nodes":
                    answer.nodes = self._node_list(value)
                case "nodenames":
                    answer.node_names = self._strings(value, "NodeNames")
                case "failednodes":
                    answer.failed = self._map(value, "FailedNodes")
                case "failedandunresolvablenodes":
                    answer.failed_and_unresolvable = self._map(value, "FailedAndUnresolvableNodes")
                case "error":
                    answer.error = self._string(value, "ExtenderFilterResult.Error")
        self._finish()
        return answer

    def priorities(self) -> list[tuple[str, int]]:
        if self._value is None:
            return []
        if not isinstance(self._value, list):
            self._mismatch(self._value, "", "v1.HostPriorityList")
            self._finish()
        found: list[tuple[str, int]] = []
        for item in self._value:
            host, score = "", 0
            if item is not None and not isinstance(item, dict):
                self._mismatch(item, "", "v1.HostPriority")
            elif item is not None:
                for key, value in item.items():
                    if key.lower() == "host":
                        host = self._string(value, "HostPriority.Host")
                    elif key.lower() == "score":
                        score = self._int64(value, "HostPriority.Score")
            found.append((host, score))
        self._finish()
        return found

    def meta_victims(self) -> dict[str, MetaVictims]:
        found: dict[str, MetaVictims] = {}
        path = "ExtenderPreemptionResult.NodeNameToMetaVictims"
        for key, value in self._root_object():
            if key.lower() != "nodenametometavictims" or value is None:
                continue
            if not isinstance(value, dict):
                self._mismatch(value, path, "map[string]*v1.MetaVictims")
                continue
            for node, victims in value.items():
                found[node] = self._victims(victims)
        self._finish()
        return found

    def _victims(self, victims: Any) -> MetaVictims:
        uids: list[str] = []
        violations = 0
        if victims is not None and not isinstance(victims, dict):
            self._mismatch(victims, "ExtenderPreemptionResult.NodeNameToMetaVictims", "v1.MetaVictims")
            return MetaVictims((), 0)
        for key, value in (victims or {}).items():
            if key.lower() == "numpdbviolations":
                violations = self._int64(value, "MetaVictims.NodeNameToMetaVictims.NumPDBViolations")
            elif key.lower() == "pods" and value is not None:
                if not isinstance(value, list):
                    self._mismatch(value, "MetaVictims.NodeNameToMetaVictims.Pods", "[]*v1.MetaPod")
                    continue
                for pod in value:
                    uids.append(self._uid(pod))
        return MetaVictims(tuple(uids), violations)

    def _uid(self, pod: Any) -> str:
        if pod is not None and not isinstance(pod, dict):
            self._mismatch(pod, "MetaVictims.NodeNameToMetaVictims.Pods", "v1.MetaPod")
            return ""
        for key, value in (pod or {}).items():
            if key.lower() == "uid":
                return self._string(value, "MetaPod.NodeNameToMetaVictims.Pods.UID")
        return ""

    def binding_error(self) -> str:
        error = ""
        for key, value in self._root_object():
            if key.lower() == "error":
                error = self._string(value, "ExtenderBindingResult.Error")
        self._finish()
        return error

    # ---- values ------------------------------------------------------------------------------------------------

    def _root_object(self) -> list[tuple[str, Any]]:
        if self._value is None:
            return []
        if not isinstance(self._value, dict):
            self._mismatch(self._value, "", f"v1.{self._type}")
            self._finish()
        return list(self._value.items())

    def _node_list(self, value: Any) -> list[bytes] | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            self._mismatch(value, "ExtenderFilterResult.Nodes", "v1.NodeList")
            return None
        nodes: list[bytes] = []
        for key, items in value.items():
            if key.lower() != "items" or items is None:
                continue
            if not isinstance(items, list):
                self._mismatch(items, "NodeList.Nodes.items", "[]v1.Node")
                continue
            for item in items:
                if item is not None and not isinstance(item, dict):
                    self._mismatch(item, "NodeList.Nodes.items", "v1.Node")
                    continue
                nodes.append(json.dumps(item or {}, separators=(",", ":")).encode())
        return nodes

    def _strings(self, value: Any, name: str) -> list[str] | None:
        if value is None:
            return None
        if not isinstance(value, list):
            self._mismatch(value, f"ExtenderFilterResult.{name}", "[]string")
            return None
        return [self._string(item, f"ExtenderFilterResult.{name}") for item in value]

    def _map(self, value: Any, name: str) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._mismatch(value, f"ExtenderFilterResult.{name}", "v1.FailedNodesMap")
            return {}
        return {key: self._string(item, f"ExtenderFilterResult.{name}") for key, item in value.items()}

    def _string(self, value: Any, path: str) -> str:
        if value is None:
            return ""
        if not isinstance(value, str) or isinstance(value, Float):
            self._mismatch(value, path, "string")
            return ""
        return value

    def _int64(self, value: Any, path: str) -> int:
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not MIN_INT64 <= value <= MAX_INT64:
            self._mismatch(value, path, "int64")
            return 0
        return value

    # ---- errors ------------------------------------------------------------------------------------------------

    def _mismatch(self, value: Any, path: str, type_name: str) -> None:
        if self._error:
            return  # Go goes on reading and reports the first
        what = go_kind(value)
        if what == "number" and type_name == "int64":
            what = f"number {value}"
        where = f"Go struct field {path}" if path else "Go value"
        self._error = f"json: cannot unmarshal {what} into {where} of type {type_name}"

    def _finish(self) -> None:
        if self._error:
            raise ExtenderError(self._error)


def _plain(body: bytes) -> Any:
    """The first value of a body as plain data; what comes after it is skipped, as Go's decoder does."""
    text = body.decode("utf-8", "replace")
    try:
        return _loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return _loads(text[: first_value_end(text)])
    except JsonSyntaxError as error:
        raise ExtenderError(str(error)) from None
    except (ValueError, RecursionError):
        raise ExtenderError("exceeded max depth") from None  # Go goes deeper than Python's parser


def _loads(text: str) -> Any:
    return json.loads(text, parse_float=Float, parse_int=_integer, parse_constant=_no_constant)


def _integer(text: str) -> int | Float:
    """A whole number; one with more digits than Python converts stays a text."""
    return int(text) if len(text) <= 1000 else Float(text)


def _no_constant(name: str) -> Any:
    raise ValueError(name)
