"""Readers that hold the cleaner of a table, as Penstock's cleans record them in their extra metadata. Pure.

Hudi keeps extra metadata that it does not know. The record lets a server tell how close a group is to losing its range:
the next cleans with the same options keep the files of the group up to the bound.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice
from typing import Final

from penstock.proto.value_classes import dataclass

HOLDS: Final = "penstock.holds"
"""Key of the extra metadata."""
_MAX_TEXT: Final = 1 << 20
_MAX_HOLDS: Final = 100
_MAX_NAME: Final = 4096
_MOST: Final = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHold:
    """A reader that holds the cleaner."""

    kind: str
    """`group`, `stream` or `checkpoint`."""
    name: str
    """Its name, or the path of its checkpoint."""
    commits: int | None = None
    """Bound: so many writes that it has not read; None if the bound is a time."""
    seconds: float | None = None
    """Bound: so long after the oldest write that it has not read completed; None if the bound is a number of writes."""


def encode_holds(holds: Iterable[RecordedHold]) -> dict[str, str]:
    """The entry of the extra metadata, with the first _MAX_HOLDS; empty without holds."""
    first = islice(holds, _MAX_HOLDS)
    items = [{key: value for key, value in asdict(hold).items() if value is not None} for hold in first]
    return {HOLDS: json.dumps(items, sort_keys=True, separators=(",", ":"))} if items else {}


def parse_holds(text: str) -> tuple[RecordedHold, ...]:
    """The holds of an entry of the extra metadata. () for a text in another form: it only helps to tell a lag."""
    if not text or len(text) > _MAX_TEXT:
        return ()
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(items, list) or len(items) > _MAX_HOLDS:
        return ()
    return tuple(hold for item in items if (hold := _parsed(item)) is not None)


def _parsed(item: object) -> RecordedHold | None:
    match item:
        case {"kind": str(kind), "name": str(name), "commits": int(commits)} if _fits(kind, name, commits):
            return RecordedHold(kind=kind, name=name, commits=commits)
        case {"kind": str(kind), "name": str(name), "seconds": int(seconds) | float(seconds)} if _fits(
            kind, name, seconds
        ):
            return RecordedHold(kind=kind, name=name, seconds=float(seconds))
    return None


def _fits(kind: str, name: str, bound: float) -> bool:
    return len(kind) <= _MAX_NAME and len(name) <= _MAX_NAME and type(bound) is not bool and 0 < bound <= _MOST
