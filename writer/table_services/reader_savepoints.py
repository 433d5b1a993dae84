"""The comments of savepoints that keep Hudi's cleaner from the files that readers need. Pure.

A savepoint has one comment. It records all readers that need the savepoint, so that a call for some readers leaves the
savepoints of the others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final

COMMENT: Final = "penstock: held for readers"
"""The beginning of these comments, by which the savepoints are found again."""
_READABLE: Final = re.compile(r"[A-Za-z0-9_./:-]{1,100}")


def owners_of_call(readers: Sequence[str], checkpoints: Sequence[str]) -> frozenset[str]:
    """The readers of a call as they stand in comments: the name, or its hash if it is long or has other characters."""
    names = [("reader", name) for name in readers] + [("checkpoint", folder.rstrip("/")) for folder in checkpoints]
    return frozenset(f"{kind}={name if _READABLE.fullmatch(name) else _hash(name)}" for kind, name in names)


def comment_of(owners: Iterable[str]) -> str:
    """The comment of a savepoint that these readers need."""
    return " ".join((COMMENT, *sorted(owners)))


def owners_of(comment: str) -> frozenset[str]:
    """The readers that need a savepoint with this comment; none if it is not one of these savepoints."""
    return frozenset(comment[len(COMMENT) :].split()) if comment.startswith(f"{COMMENT} ") else frozenset()


def with_owners(comment: str, owners: frozenset[str]) -> str | None:
    """The comment of a savepoint that these readers need too."""
    return comment_of(owners_of(comment) | owners) if owners_of(comment) else comment


def without_owners(comment: str, owners: frozenset[str]) -> str | None:
    """The comment of a savepoint that these readers do not need any more; None if no reader needs it."""
    present = owners_of(comment)
    if not present:
        return comment
    return comment_of(present - owners) if present - owners else None


def _hash(name: str) -> str:
    return "#" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
