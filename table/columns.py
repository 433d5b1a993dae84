"""Column names as a caller writes them, resolved to the names a table has.

Belongs here: the rule by which a name finds its column. Not here: types, or which columns a read needs.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

from penstock.proto.errors import ConfigurationError

_SHOWN_NAMES: Final = 40
_SHOWN_CHARS: Final = 80


def resolve_column(name: str, available: Sequence[str]) -> str:
    """The available name that `name` stands for, by Spark's rule: the exact name, else the same but for case.

    ConfigurationError, offering the nearest names, if there is none; or naming them all, if several differ from it
    only in case.
    """
    if name in available:
        return name
    folded = name.lower()
    matches = [candidate for candidate in available if candidate.lower() == folded]
    if len(matches) == 1:
        return matches[0]
    shown = repr(name[:_SHOWN_CHARS])
    if matches:
        raise ConfigurationError(
            f"column {shown} is ambiguous: the table has {', '.join(matches)}; write one exactly so"
        )
    raise ConfigurationError(f"no column {shown}: {_nearest(folded, available)}")


def resolve_columns(wanted: Sequence[str], available: Sequence[str]) -> tuple[str, ...]:
    """The table's names for `wanted`, in the order wanted; nothing wanted means every column, in the table's order.

    ConfigurationError for a name that is unknown, ambiguous, or stands for a column that was already named.
    """
    if not wanted:
        return tuple(available)
    resolved: dict[str, str] = {}
    for name in wanted:
        column = resolve_column(name, available)
        if column in resolved:
            raise ConfigurationError(
                f"column {column!r} is asked for twice (as {resolved[column]!r} and {name!r}): name it once"
            )
        resolved[column] = name
    return tuple(resolved)


def _nearest(folded: str, available: Sequence[str]) -> str:
    by_folded = {candidate.lower(): candidate for candidate in available}
    close = difflib.get_close_matches(folded[:_SHOWN_CHARS], by_folded, n=3, cutoff=0.6)
    if close:
        return f"did you mean {', '.join(by_folded[match] for match in close)}?"
    more = ", …" if len(available) > _SHOWN_NAMES else ""
    return f"the table has {', '.join(available[:_SHOWN_NAMES])}{more}"
