"""The extender protocol: what is sent and what is read, with upstream's field names.

Go's types have no JSON tags, so field names are capitalised (``Pod``,
``NodeNames``), and unused fields are null. Answers are read as Go reads them:
names in any case, unknown fields skipped, null as nothing, and the same error
texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec

from mooring.extender.go_decoder import MAX_INT64, MIN_INT64, FilterAnswer, GoDecoder, MetaVictims

# ---- requests ----------------------------------------------------------------------------------------------------


def args_with_names(pod: bytes, names: Sequence[str]) -> bytes:
    """ExtenderArgs for an extender that keeps nodes itself."""
    return b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, msgspec.json.encode(names))


def args_with_nodes(pod: bytes, nodes: Iterable[bytes]) -> list[bytes]:
    """ExtenderArgs with whole nodes, in pieces: the nodes' own are the same from call to call."""
    pieces = [b'{"Pod":%b,"Nodes":{"metadata":{},"items":[' % pod]
    for node in nodes:
        pieces += (node, b",")
    if len(pieces) > 1:
        pieces.pop()
    pieces.append(b']},"NodeNames":null}')
    return pieces


def preemption_args(
    pod: bytes,
    *,
    victims: Mapping[str, tuple[Sequence[bytes], int]] | None = None,
    uids: Mapping[str, tuple[Sequence[str], int]] | None = None,
) -> bytes:
    """ExtenderPreemptionArgs: (pods or their uids, violated budgets) by node, in one of the two forms."""
    whole = meta = b"null"
    if victims is not None:
        whole = _object(
            (node, b'{"Pods":[%b],"NumPDBViolations":%d}' % (b",".join(pods), violations))
            for node, (pods, violations) in sorted(victims.items())
        )
    if uids is not None:
        meta = msgspec.json.encode(
            {
                node: {"Pods": [{"UID": uid} for uid in pods], "NumPDBViolations": violations}
                for node, (pods, violations) in sorted(uids.items())
            }
        )
    return b'{"Pod":%b,"NodeNameToVictims":%b,"NodeNameToMetaVictims":%b}' % (pod, whole, meta)


def binding_args(name: str, namespace: str, uid: str, node: str) -> bytes:
    """ExtenderBindingArgs."""
    return msgspec.json.encode({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node})


def _object(members: Iterable[tuple[str, bytes]]) -> bytes:
    return b"{%b}" % b",".join(b"%b:%b" % (msgspec.json.encode(key), value) for key, value in members)


# ---- answers -----------------------------------------------------------------------------------------------------


Int64 = Annotated[int, msgspec.Meta(ge=MIN_INT64, le=MAX_INT64)]


class _HostPriority(msgspec.Struct):
    Host: str  # required here, so that other spellings are noticed and read more patiently
    Score: Int64


_top = msgspec.json.Decoder(dict[str, msgspec.Raw])
_names = msgspec.json.Decoder(list[str] | None)
_reasons = msgspec.json.Decoder(dict[str, str] | None)
_text = msgspec.json.Decoder(str | None)
_items = msgspec.json.Decoder(list[msgspec.Raw] | None)
_priorities = msgspec.json.Decoder(list[_HostPriority])


def read_filter_answer(body: bytes) -> FilterAnswer:
    try:
        return _quick_filter_answer(body)
    except (msgspec.MsgspecError, RecursionError):
        return GoDecoder("ExtenderFilterResult", body).filter_answer()


def _quick_filter_answer(body: bytes) -> FilterAnswer:
    answer = FilterAnswer()
    for key, raw in _top.decode(body).items():
        match key.lower():
            case "nodes":
                answer.nodes = _quick_items(raw)
            case "nodenames":
                answer.node_names = _names.decode(raw)
            case "failednodes":
                answer.failed = _reasons.decode(raw) or {}
            case "failedandunresolvablenodes":
                answer.failed_and_unresolvable = _reasons.decode(raw) or {}
            case "error":
                answer.error = _text.decode(raw) or ""
    return answer


def _quick_items(raw: msgspec.Raw) -> list[bytes] | None:
    if bytes(raw) == b"null":
        return None
    items: list[bytes] = []
    for key, value in _top.decode(raw).items():
        if key.lower() == "items":
            items = [bytes(item) for item in _items.decode(value) or ()]
    return items


def read_priorities(body: bytes) -> list[tuple[str, int]]:
    """HostPriorityList."""
    try:
        return [(entry.Host, entry.Score) for entry in _priorities.decode(body)]
    except (msgspec.MsgspecError, RecursionError):
        return GoDecoder("HostPriorityList", body).priorities()


def read_preemption_answer(body: bytes) -> dict[str, MetaVictims]:
    """ExtenderPreemptionResult: whatever form was sent, the answer has uids."""
    return GoDecoder("ExtenderPreemptionResult", body).meta_victims()


def read_binding_answer(body: bytes) -> str:
    """ExtenderBindingResult: its Error."""
    return GoDecoder("ExtenderBindingResult", body).binding_error()
