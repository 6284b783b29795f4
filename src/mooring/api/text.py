"""Small texts for users: nearest names, counts, selectors and taints, and hidden secrets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.api.core import Taint
    from mooring.api.meta import LabelSelector


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Replace control characters, except line ends and tabs: names and messages of a cluster are untrusted."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


# ---- suggestions for unknown names --------------------------------------------------------------------------

MOST_NAMED = 20


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the most similar known name; "" if none is similar."""
    from difflib import get_close_matches  # seldom needed

    near = get_close_matches(name, known if isinstance(known, list) else list(known), n=1, cutoff=cutoff)
    return near[0] if near else ""


def hint(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return ``did you mean web?``; without a similar name, the known ones, or ``otherwise``."""
    names = list(known)
    near = nearest(name, names)
    if near:
        return f"did you mean {near}?"
    if otherwise:
        return otherwise
    if len(names) > MOST_NAMED:
        return f"there are {', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"
    return f"there are {', '.join(names)}" if names else "there are none"


# ---- selectors, taints and labels as text, for explanations and remedies
# ----------------------------------------------

MAX_VALUES = 4


def count_of(count: int, noun: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{count} {noun}{'s' if count != 1 else ''}"


def first_of(names: Sequence[str], limit: int = 6) -> str:
    """``a, b and 3 more``."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")


def expression_text(key: str, operator: str, values: Sequence[str]) -> str:
    """``disk=ssd``, ``disk In (ssd, nvme)``, ``!disk``, ``cores Gt 8``."""
    match operator:
        case "In" | "NotIn":
            listed = ", ".join(values)
            sign = "=" if operator == "In" else "!="
            return f"{key}{sign}{listed}" if len(values) == 1 else f"{key} {operator} ({listed})"
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case _:
            return f"{key} {operator} {', '.join(values)}"


def selector_text(selector: LabelSelector | None) -> str:
    """``app=web,tier In (a, b)``."""
    if selector is None:
        return "no pods"
    parts = [f"{key}={value}" for key, value in selector.match_labels.items()]
    parts += [expression_text(e.key, e.operator, e.values) for e in selector.match_expressions]
    return ",".join(parts) or "all pods"


def taint_text(taint: Taint) -> str:
    """``dedicated=gpu:NoSchedule``, as kubectl writes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def label_fact(key: str, labels: Sequence[Mapping[str, str]]) -> str:
    """``disk is ssd on 4 nodes, hdd on 6``, or that no node has the label."""
    values = Counter(each[key] for each in labels if key in each)
    if not values:
        near = nearest(key, {name for each in labels for name in each}, cutoff=0.8)
        return f"no node has the label {key}" + (f"; did you mean {near}?" if near else "")
    (first, count), *rest = values.most_common(MAX_VALUES)
    parts = [
        f"{first or 'empty'} on {count_of(count, 'node')}",
        *(f"{value or 'empty'} on {count}" for value, count in rest),
    ]
    if len(values) > MAX_VALUES:
        parts.append(f"and {len(values) - MAX_VALUES} other values")
    without = len(labels) - values.total()
    return f"{key} is {', '.join(parts)}" + (f"; {count_of(without, 'node')} without it" if without else "")


def missing_label_fact(key: str, labels: Sequence[Mapping[str, str]]) -> str:
    """``2 of 3 nodes without the label rack``; empty if all nodes have it."""
    lacking = sum(key not in each for each in labels)
    if lacking == len(labels):
        return label_fact(key, labels)
    return f"{lacking} of {count_of(len(labels), 'node')} without the label {key}" if lacking else ""


# ---- URLs without secrets, for logs, metrics, events, pages and errors
# ------------------------------------------------

_PASSWORD = re.compile(r"(//[^/?#:@]*):[^/?#]*@")
_USER_ALONE = re.compile(r"//[^/?#:]+@")


def without_secrets(url: str) -> str:
    """Replace passwords, users without one, and the values of query and fragment in a URL by ``***``.

    Passwords are hidden as by Go's HTTP client. Tokens are often the user's name or in the query; which values there
    are secret is unknown.
    """
    url, hash_, fragment = url.partition("#")
    url, mark, query = url.partition("?")
    if "@" in url:
        url = _PASSWORD.sub(r"\1:***@", url, count=1)
        url = _USER_ALONE.sub("//***@", url, count=1)
    shown = "&".join(_without_value(part) for part in query.split("&"))
    return url + mark + shown + hash_ + ("***" if fragment else "")


def _without_value(part: str) -> str:
    name, equals, value = part.partition("=")
    if not equals:
        return "***" if name else ""
    return f"{name}={'***' if value else ''}"
