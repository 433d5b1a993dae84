"""Random queries over the table of `written_table`: a condition, columns and a limit, for every engine alike."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

from tests.engines.written_table import TYPES, VALUES

OPERATORS: Final = ("=", "!=", "<", "<=", ">", ">=")
COMPARED: Final = tuple(name for name in VALUES if name not in ("st", "ok"))
META: Final = ("_hoodie_record_key", "_hoodie_partition_path")


@dataclass(frozen=True)
class Compare:
    """`path op value`; `path` has the field's name for a field of a struct."""

    path: tuple[str, ...]
    op: str
    value: Any


@dataclass(frozen=True)
class OneOf:
    """`path IN (values)`."""

    path: tuple[str, ...]
    values: tuple[Any, ...]


@dataclass(frozen=True)
class IsNull:
    """`path IS NULL`."""

    path: tuple[str, ...]


@dataclass(frozen=True)
class Remainder:
    """`path % divisor = 1`, which no scan can apply."""

    path: tuple[str, ...]
    divisor: int


@dataclass(frozen=True)
class Not:
    """NOT `term`."""

    term: Condition


@dataclass(frozen=True)
class Both:
    """`left AND right`."""

    left: Condition
    right: Condition


@dataclass(frozen=True)
class Either:
    """`left OR right`."""

    left: Condition
    right: Condition


Condition = Compare | OneOf | IsNull | Remainder | Not | Both | Either


@dataclass(frozen=True)
class Query:
    """A query: of the first `head` rows those for which `condition` is true; of these, at most `limit`."""

    condition: Condition | None
    columns: tuple[str, ...]
    head: int | None = None
    limit: int | None = None


def queries(seed: int, count: int, *, heads: bool = False) -> list[Query]:
    """Queries by seed. `heads`: some take the first rows before their condition; an engine without order cannot."""
    numbers = random.Random(seed)
    return [_query(numbers, heads=heads) for _ in range(count)]


def _query(numbers: random.Random, *, heads: bool) -> Query:
    names = (*META, *TYPES)
    return Query(
        condition=_condition(numbers, 3) if numbers.random() < 0.9 else None,
        columns=tuple(numbers.sample(names, numbers.randint(1, 5))),
        head=numbers.choice((0, 7, 100)) if heads and numbers.random() < 0.3 else None,
        limit=numbers.choice((0, 1, 30)) if numbers.random() < 0.2 else None,
    )


def _condition(numbers: random.Random, depth: int) -> Condition:
    kind = numbers.choice(("both", "either", "not")) if depth and numbers.random() < 0.6 else "leaf"
    match kind:
        case "both":
            return Both(_condition(numbers, depth - 1), _condition(numbers, depth - 1))
        case "either":
            return Either(_condition(numbers, depth - 1), _condition(numbers, depth - 1))
        case "not":
            return Not(_condition(numbers, depth - 1))
    return _leaf(numbers)


def _leaf(numbers: random.Random) -> Condition:
    name = numbers.choice(COMPARED)
    values = [value for value in VALUES[name] if value is not None]
    match numbers.randrange(8):
        case 0:
            return IsNull(numbers.choice(((name,), ("st",), ("st", "q"), ("ok",))))
        case 1 if name not in ("f", "d"):  # engines have no equal literal of infinity in a list
            return OneOf((name,), tuple(numbers.sample(values, numbers.randint(1, len(values)))))
        case 2:
            return Compare(("st", "q"), numbers.choice(OPERATORS), numbers.choice((0, 1, 3)))
        case 3:
            return Compare(("ok",), numbers.choice(("=", "!=")), numbers.choice((True, False)))
        case 4:
            return Remainder(("i",), numbers.choice((2, 3)))
    return Compare((name,), numbers.choice(OPERATORS), numbers.choice(values))
