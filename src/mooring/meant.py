"""What somebody may have meant by a name that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable

MOST_NAMED = 20


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The known name that is most like this one; empty if none is like it."""
    from difflib import get_close_matches  # seldom needed

    near = get_close_matches(name, known if isinstance(known, list) else list(known), n=1, cutoff=cutoff)
    return near[0] if near else ""


def hint(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """``did you mean web?``; where no name is near, what there is, or what ``otherwise`` says."""
    names = list(known)
    near = nearest(name, names)
    if near:
        return f"did you mean {near}?"
    if otherwise:
        return otherwise
    if len(names) > MOST_NAMED:
        return f"there are {', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"
    return f"there are {', '.join(names)}" if names else "there are none"
