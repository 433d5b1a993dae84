"""Random conditions of `where` over the columns of `test_where_functions`: nested functions, LIKE, IN, comparisons."""

from __future__ import annotations

import random

_WILDCARDS = ("%", "_", "a", "é", "!%")
_NUMBERS = (
    "0",
    "-1",
    "1.5",
    "0.29",
    "1e10",
    "0.1D",
    "9223372036854775807",
    "1L",
    "CAST('-Infinity' AS DOUBLE)",
    "2.50BD",
)
_TEXTS = ("''", "'a'", "'é'", "'A'", "'ab'", "'%'", "'_'")
_DATES = ("day", "at", "local", "date(at)", "cast(local as date)", "coalesce(day, DATE '2000-01-01')")
_TYPES = ("double", "float", "bigint", "int", "decimal(38, 4)", "decimal(20, 0)")


class Conditions:
    """A seeded source of conditions; some have casts that `where` refuses."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def condition(self, depth: int = 2) -> str:
        """A condition with at most `depth` levels of AND, OR and NOT."""
        match self._random.randrange(10 if depth else 8):
            case 8:
                word = self._one_of("AND", "OR")
                return f"({self.condition(depth - 1)} {word} {self.condition(depth - 1)})"
            case 9:
                return f"NOT ({self.condition(depth - 1)})"
            case 0:
                return self._like()
            case 1:
                tested = self._one_of(self._text(2), self._number(2), self._one_of(*_DATES))
                return f"{tested} IS {self._one_of('', 'NOT ')}NULL"
            case 2:
                return f"{self._text(2)} {self._one_of('=', '<', '>=', '!=')} {self._one_of(*_TEXTS)}"
            case 3:
                values = [self._one_of(*_NUMBERS) for _ in range(self._random.randint(1, 20))]
                return f"{self._number(2)} IN ({', '.join(values)})"
            case 4:
                return f"{self._one_of(*_DATES)} {self._one_of('=', '<', '>=')} DATE '2026-02-28'"
            case 5:
                return f"isnan({self._number(1)})"
        return f"{self._number(2)} {self._one_of('=', '<', '<=', '>', '>=', '!=')} {self._one_of(*_NUMBERS)}"

    def _like(self) -> str:
        pattern = "".join(self._one_of(*_WILDCARDS) for _ in range(self._random.randint(0, 4)))
        return f"{self._text(2)} {self._one_of('', 'NOT ')}{self._one_of('LIKE', 'ILIKE')} '{pattern}' ESCAPE '!'"

    def _text(self, depth: int) -> str:
        if not depth or self._random.random() < 0.3:
            return self._one_of("s", "s", "s", "cast(i as string)", "cast(d as string)", "cast(b as string)")
        text, other = self._text(depth - 1), self._one_of(self._text(depth - 1), *_TEXTS[:3])
        at, size = self._random.randint(-4, 4), self._random.randint(-1, 4)
        return self._one_of(
            *(f"{name}({text})" for name in ("upper", "lower", "trim", "ltrim", "rtrim")),
            *(f"substring({text}, {at})", f"substring({text}, {at}, {size})"),
            *(f"concat({text}, {other})", f"{text} || {other}", f"coalesce({text}, {other})"),
            *(f"({text})", f"cast({text} as string)"),
        )

    def _number(self, depth: int) -> str:
        if not depth:
            return self._one_of("i", "n", "x", "f", "d", "length(raw)")
        number = self._number(depth - 1)
        return self._one_of(
            *("i", "n", "x", "f", "d"),
            *(f"length({self._text(depth)})", f"abs({number})", f"cast({number} as {self._one_of(*_TYPES)})"),
            *(f"coalesce({number}, {self._one_of('0', '-1')})", f"{self._one_of('year', 'month', 'day')}(at)"),
        )

    def _one_of(self, *texts: str) -> str:
        return self._random.choice(texts)
