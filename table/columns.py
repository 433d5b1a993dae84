"""Resolves column names as a caller writes them to the names of a table, by Spark's rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import COMPLETION_TIME

_SHOWN_NAMES: Final = 40
_SHOWN_CHARS: Final = 80


def resolve_column(name: str, available: Sequence[str]) -> str:
    """The available name that `name` stands for: the exact name, else the one that differs only in case.

    ConfigurationError if there is none, with the most similar names; or if several differ only in case, with all of
    them.
    """
    if name in available:
        return name
    folded = name.lower()
    matches = [candidate for candidate in available if candidate.lower() == folded]
    if len(matches) == 1:
        return matches[0]
    quoted = repr(name[:_SHOWN_CHARS])
    if matches:
        raise ConfigurationError(
            f"column {quoted} is ambiguous: the table has {', '.join(matches)}; write one of them exactly"
        )
    raise ConfigurationError(f"no column {quoted}: {_nearest(folded, available)}")


def resolve_columns(names: Sequence[str], available: Sequence[str]) -> tuple[str, ...]:
    """The table's names for `names`, in their order; no names mean every column, in the table's order.

    ConfigurationError for a name that is unknown, ambiguous, or repeats a column.
    """
    if not names:
        return tuple(available)
    resolved: dict[str, str] = {}
    for name in names:
        column = resolve_column(name, available)
        if column in resolved:
            raise ConfigurationError(
                f"column {column!r} is requested twice (as {resolved[column]!r} and {name!r}): name it once"
            )
        resolved[column] = name
    return tuple(resolved)


def _nearest(folded: str, available: Sequence[str]) -> str:
    if folded == COMPLETION_TIME:
        return "only a read with the option completionTime has it"
    by_folded = {candidate.lower(): candidate for candidate in available}
    import difflib  # late: for error texts

    close = difflib.get_close_matches(folded[:_SHOWN_CHARS], by_folded, n=3, cutoff=0.6)
    if close:
        return f"did you mean {', '.join(by_folded[match] for match in close)}?"
    more = ", …" if len(available) > _SHOWN_NAMES else ""
    return f"the table has {', '.join(available[:_SHOWN_NAMES])}{more}"
