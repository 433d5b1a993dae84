"""Checks of decoded fields: lengths, counts, numbers, format versions, positions.

A violation is a ConfigurationError with the message, the field, the actual and the expected value; an unsupported
format version is a StateVersionError.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from penstock.proto.codec import checks as check
from penstock.proto.errors import ConfigurationError, StateVersionError
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.splits import FORMAT_VERSION
from penstock.proto.v1 import penstock_pb2 as pb

_T = TypeVar("_T")

MAX_NAME_CHARS: Final = 1024
"""Names and ids: tables, columns, splits, file groups, plans."""
MAX_PATH_CHARS: Final = 4096
"""Paths and URIs, partitions and their values."""
MAX_SCHEMA_CHARS: Final = 16 << 20
MAX_WHERE_CHARS: Final = 64 << 10
MAX_COLUMNS: Final = 100_000
MAX_FIELDS: Final = 1_000
"""Key, ordering and partition fields of a table."""
MAX_LOGS: Final = 100_000
MAX_STEPS: Final = 1_000_000
MAX_PLACE: Final = 9_999_999
MAX_INSTANTS: Final = 2_000_000
MAX_CONSUMED: Final = 500_000
"""Instants of an active timeline that a stream's progress remembers."""
MAX_REASON_CHARS: Final = 64 << 10
"""Texts that explain."""
MAX_SPLITS: Final = 2_000_000
MAX_PHASES: Final = 64
MAX_ANCESTORS: Final = 10
"""Splits in one another: what a service rewrote, of what another had rewritten."""
MAX_INDEX: Final = 2**31 - 1
"""Slots, indices, row groups, counts of commits."""
MAX_NUMBER: Final = 2**63 - 1
"""Sizes and counts of rows."""

_DIGEST: Final = re.compile(r"[0-9a-f]{1,128}")


@contextmanager
def encoding(what: str) -> Iterator[None]:
    """Turns a value that no message can hold (a negative size, text that is not Unicode) into ConfigurationError."""
    try:
        yield
    except ValueError as error:
        raise ConfigurationError(f"{what} cannot be encoded: {error}") from error


def breach(what: str, field: str, got: object, expected: str) -> ConfigurationError:
    """The error of one field of a message."""
    return ConfigurationError(
        f"{what}: field `{field}`: got {got}, expected {expected}; "
        "the bytes are damaged, or were not written by a compatible release of Penstock"
    )


def known_version(what: str, got: int) -> int:
    """`got`, if this build decodes that format version; else StateVersionError with both numbers."""
    if not 1 <= got <= FORMAT_VERSION:
        raise StateVersionError(
            f"{what} has format version {got}; this build reads 1 to {FORMAT_VERSION}: "
            "use the same or a newer version of Penstock on this side"
        )
    return got


def text(what: str, field: str, value: str, limit: int = MAX_NAME_CHARS) -> str:
    """Text of at most `limit` characters, perhaps empty."""
    if len(value) > limit:
        raise breach(what, field, f"{len(value)} characters", f"at most {limit}")
    return value


def name(what: str, field: str, value: str, limit: int = MAX_NAME_CHARS) -> str:
    """Text of 1 to `limit` characters."""
    if not value:
        raise breach(what, field, "nothing", "a value")
    return text(what, field, value, limit)


def one_of(what: str, field: str, value: str, known: Collection[str]) -> str:
    """A word that this build knows; '' may be one of them."""
    if value not in known:
        raise breach(what, field, repr(value[:40]), ", ".join(word or "nothing" for word in known))
    return value


def digest(what: str, field: str, value: str) -> str:
    """The name of a content: 1 to 128 lower-case hexadecimal digits."""
    if not _DIGEST.fullmatch(value):
        raise breach(what, field, repr(value[:40]), "1 to 128 hexadecimal digits")
    return value


def counted(what: str, field: str, values: Sequence[_T], limit: int) -> Sequence[_T]:
    """`values`, if there are at most `limit` of them."""
    if len(values) > limit:
        raise breach(what, field, f"{len(values)} entries", f"at most {limit}")
    return values


def names(what: str, field: str, values: Sequence[str], limit: int = MAX_FIELDS) -> tuple[str, ...]:
    """At most `limit` names, none empty."""
    return tuple(name(what, field, value) for value in counted(what, field, values, limit))


def number(what: str, field: str, value: int, limit: int = MAX_NUMBER) -> int:
    """A whole number from 0 to `limit`."""
    if not 0 <= value <= limit:
        raise breach(what, field, value, f"0 to {limit}")
    return value


def duration(what: str, field: str, value: float) -> float:
    """A finite number of milliseconds, not negative."""
    if not math.isfinite(value) or value < 0:
        raise breach(what, field, value, "a finite number of milliseconds from 0 on")
    return value


def instant(what: str, field: str, value: str) -> InstantTime:
    """One instant's time."""
    try:
        return InstantTime(value)
    except ConfigurationError:
        raise breach(what, field, repr(value[:40]), "1 to 24 digits") from None


def instant_or_empty(what: str, field: str, value: str) -> str:
    """An instant's time as plain text, or ''."""
    return str(instant(what, field, value)) if value else ""


def instants(what: str, field: str, values: Sequence[str], limit: int = MAX_INSTANTS) -> frozenset[InstantTime]:
    """A set of at most `limit` instant times."""
    return frozenset(instant(what, field, value) for value in counted(what, field, values, limit))


def distinct(what: str, field: str, values: Iterable[str]) -> None:
    """Refuses a value that stands there twice."""
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise breach(what, field, f"{value!r} twice", "each at most once")
        seen.add(value)


def position_to_message(position: Position) -> pb.Position:
    """Any position."""
    return pb.Position(order_key=position.order_key, index=position.index)


def position_from_message(what: str, field: str, message: pb.Position) -> Position:
    """ConfigurationError naming `what` and `field` if it is none."""
    order_key = check.instant(what, field, message.order_key)
    return Position(order_key, check.number(what, field, message.index, check.MAX_INDEX))
