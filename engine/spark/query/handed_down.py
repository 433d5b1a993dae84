"""Which conditions of a query a scan can take as `where`: those that mean the same in Spark and in `where`. Pure.

A condition is taken only if it is true for exactly the same rows in every mode of Spark (ANSI or not), and if it is
null and false for the same rows too, because NOT may enclose it. In doubt it is left to Spark, which evaluates every
condition in any case.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from pyspark.sql import types as st

from penstock.engine.spark.query.expressions import COMPARISONS, MIRRORED, Call, Constant, Expression, Kind, Name

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(Z|[+-]\d\d:\d\d)?)?")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_EPOCH: Final = datetime.datetime.fromisoformat("1970-01-01T00:00:00")
_MIN_YEAR: Final = 1900
"""Older times are left to Spark: before 1900 many time zones had offsets with seconds."""
_MAX_PRECISION: Final = 38
_MAX_PATTERN: Final = 500
"""`where` refuses longer patterns."""
_EXACT_IN_FLOAT: Final = 2**24
_LONG: Final = range(-(2**63), 2**63)
_INTEGRAL: Final = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)


@dataclass(frozen=True, slots=True)
class SessionRules:
    """What the meaning of a condition depends on in a Spark session."""

    case_sensitive: bool = False
    """spark.sql.caseSensitive."""
    binary_texts: bool = True
    """Whether texts compare by their bytes: no other collation is the session's default."""
    dates_as_texts: bool = False
    """Whether a date that is compared with a text is converted to text, as in old versions of Spark."""
    timestamps_have_zone: bool = True
    """Whether TIMESTAMP is TIMESTAMP_LTZ."""
    quoted_names: bool = False
    """Whether double quotes delimit names instead of texts."""
    pattern_names: bool = False
    """Whether a name in backticks in a SELECT may be a regular expression for names of columns."""
    reserved_words: bool = False
    """Whether reserved words of ANSI SQL, such as USER, cannot name columns."""
    instant_of: Callable[[str], int | None] = lambda _: None
    """The instant of a timestamp without a zone, in microseconds since 1970 UTC; None if it may change after this
    analysis."""


class _Stays(Exception):
    """The condition stays in Spark only."""


def where_of(condition: Expression, schema: st.StructType, rules: SessionRules) -> str | None:
    """The condition in the grammar of `where`, or None if it stays in Spark only.

    `schema`: the columns of the table. Names in the condition are columns of it, with the fields of structs.
    """
    try:
        return _Rendering(schema, rules).text(condition)
    except _Stays:
        return None


def column_of(name: str, schema: st.StructType, rules: SessionRules) -> st.StructField | None:
    """The column or field that Spark resolves `name` to; None if there is none, or more than one."""
    if rules.case_sensitive:
        matches = [field for field in schema.fields if field.name == name]
    else:
        matches = [field for field in schema.fields if field.name.lower() == name.lower()]
    return matches[0] if len(matches) == 1 else None


class _Rendering:
    """Renders a condition as text. Raises _Stays for what is not provably equal."""

    def __init__(self, schema: st.StructType, rules: SessionRules) -> None:
        self._schema, self._rules = schema, rules

    def text(self, condition: Expression) -> str:
        match condition:
            case Call("and" | "or" as operator, operands) if len(operands) >= 2:
                return "(" + f" {operator.upper()} ".join(self.text(operand) for operand in operands) + ")"
            case Call("not", (operand,)):
                return f"(NOT {self.text(operand)})"
            case Call("isnull", (Name() as name,)):
                return f"{self._column(name)[0]} IS NULL"
            case Call("in", (Name() as name, *values)) if values:
                return self._in(name, [value for value in values if isinstance(value, Constant)], len(values))
            case Call("startswith" | "like" as operator, (Name() as name, Constant(Kind.TEXT, str(pattern)))):
                return self._like(name, pattern if operator == "like" else f"{_unescaped(pattern)}%")
            case Call(operator, (Constant() as constant, Name() as name)) if operator in COMPARISONS:
                return self._comparison(name, MIRRORED[operator], constant)
            case Call(operator, (Name() as name, Constant() as constant)) if operator in COMPARISONS:
                return self._comparison(name, operator, constant)
            case Name():
                column, kind = self._column(condition)
                if isinstance(kind, st.BooleanType):
                    return f"{column} = TRUE"
        raise _Stays

    def _column(self, name: Name) -> tuple[str, st.DataType]:
        """The column's text and type."""
        kind: st.DataType = self._schema
        path = []
        for part in name.parts:
            field = column_of(part, kind, self._rules) if isinstance(kind, st.StructType) else None
            if field is None:
                raise _Stays
            path.append("`" + field.name.replace("`", "``") + "`")
            kind = field.dataType
        return ".".join(path), kind

    def _comparison(self, name: Name, operator: str, constant: Constant) -> str:
        column, kind = self._column(name)
        if constant.kind is Kind.BOOLEAN and operator not in ("=", "!="):
            raise _Stays
        return f"{column} {operator} {self._literal(kind, constant, alone=True)}"

    def _in(self, name: Name, constants: Sequence[Constant], given: int) -> str:
        column, kind = self._column(name)
        # Spark converts the column and all values of a list to one type: only lists of one kind, exact in that type.
        if len(constants) != given or len({constant.kind for constant in constants}) != 1:
            raise _Stays
        if isinstance(kind, st.DecimalType):
            _check_digits([kind, *(_decimal_type(constant) for constant in constants)])
        elif isinstance(kind, st.FloatType | st.DoubleType | st.BooleanType):
            raise _Stays
        literals = [self._literal(kind, constant, alone=False) for constant in constants]
        return f"{column} IN ({', '.join(literals)})"

    def _like(self, name: Name, pattern: str) -> str:
        column, kind = self._column(name)
        if not self._is_text(kind) or "\\" in pattern or len(pattern) > _MAX_PATTERN:
            raise _Stays
        return f"{column} LIKE {_quoted(pattern)}"

    def _is_text(self, kind: st.DataType) -> bool:
        return type(kind) is st.StringType and kind == st.StringType() and self._rules.binary_texts

    def _literal(self, kind: st.DataType, constant: Constant, *, alone: bool) -> str:
        """The constant as a literal that compares with a column of this type as in Spark. `alone`: not in a list."""
        match constant.kind, constant.value:
            case Kind.INTEGER, int(value) if value in _LONG and isinstance(kind, _INTEGRAL):
                return str(value)
            case Kind.INTEGER | Kind.DECIMAL, int() | Decimal() as value if isinstance(kind, st.DecimalType):
                _check_digits([kind, _decimal_type(constant)])
                return format(value, "f") if isinstance(value, Decimal) else str(value)
            case Kind.INTEGER, int(value) if isinstance(kind, st.DoubleType) and value in _LONG:
                return str(value)
            case Kind.INTEGER, int(value) if isinstance(kind, st.FloatType) and abs(value) <= _EXACT_IN_FLOAT:
                return str(value)
            case Kind.DECIMAL, Decimal() as value if isinstance(kind, st.FloatType | st.DoubleType):
                return format(value, "f")
            case Kind.DOUBLE, float(value) if isinstance(kind, st.FloatType | st.DoubleType) and math.isfinite(value):
                return format(Decimal(repr(value)), "f")
            case Kind.TEXT, str(value) if self._is_text(kind):
                return _quoted(value)
            case Kind.BOOLEAN, bool(value) if isinstance(kind, st.BooleanType):
                return str(value).upper()
            case Kind.DATE, str(value) if isinstance(kind, st.DateType):
                return f"DATE '{_day(value)}'"
            case Kind.TEXT, str(value) if isinstance(kind, st.DateType) and alone and not self._rules.dates_as_texts:
                return f"DATE '{_day(value)}'"
        return self._moment(kind, constant, alone=alone)

    def _moment(self, kind: st.DataType, constant: Constant, *, alone: bool) -> str:
        """A literal for a column of timestamps."""
        text_converts = alone and not self._rules.dates_as_texts
        match constant.kind, constant.value:
            case Kind.INSTANT, int(value) if isinstance(kind, st.TimestampType):
                return f"TIMESTAMP '{_spelled(value)}Z'"
            case Kind.TIMESTAMP, str(value) if isinstance(kind, st.TimestampType) and self._rules.timestamps_have_zone:
                return f"TIMESTAMP '{_spelled(self._instant(value))}Z'"
            case (Kind.TEXT | Kind.DATE) as form, str(value) if isinstance(kind, st.TimestampType) and (
                text_converts if form is Kind.TEXT else alone
            ):
                return f"TIMESTAMP '{_spelled(self._instant(value))}Z'"
            case Kind.LOCAL_TIMESTAMP, str(value) if isinstance(kind, st.TimestampNTZType):
                return f"TIMESTAMP '{_spelled(_local(value))}'"
            case (Kind.TEXT | Kind.DATE) as form, str(value) if isinstance(kind, st.TimestampNTZType) and (
                text_converts if form is Kind.TEXT else alone
            ):
                return f"TIMESTAMP '{_spelled(_local(value))}'"
        raise _Stays

    def _instant(self, text: str) -> int:
        micros = instant_us(text, self._rules)
        if micros is None:
            raise _Stays
        return micros


def instant_us(text: str, rules: SessionRules) -> int | None:
    """The instant of a timestamp's text in a session, in microseconds since 1970 UTC; None if it is not known."""
    try:
        match = _moment_parts(text)
        wall = _wall_us(match)
    except _Stays:
        return None
    if match[4] is None:
        return rules.instant_of(text)
    if match[4] == "Z":
        return wall
    hours, minutes = int(match[4][1:3]), int(match[4][4:6])
    if hours * 60 + minutes > 18 * 60 or minutes > 59:
        return None
    shift = (hours * 60 + minutes) * 60_000_000
    return wall + (shift if match[4][0] == "-" else -shift)


def utc_text(micros: int) -> str:
    """The instant as an ISO time in UTC, without a fraction if it has none."""
    moment = _EPOCH + datetime.timedelta(microseconds=micros)
    return moment.isoformat(timespec="microseconds" if moment.microsecond else "seconds") + "Z"


def wall_clock_us(text: str) -> int | None:
    """Microseconds from 1970-01-01T00:00 to a date or timestamp without a zone; None for any other text."""
    try:
        return _local(text)
    except _Stays:
        return None


def _local(text: str) -> int:
    match = _moment_parts(text)
    if match[4] is not None:
        raise _Stays
    return _wall_us(match)


def _moment_parts(text: str) -> re.Match[str]:
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise _Stays
    return match


def _wall_us(match: re.Match[str]) -> int:
    try:
        wall = datetime.datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00:00'}")
    except ValueError:
        raise _Stays from None
    seconds = (wall - _EPOCH) // datetime.timedelta(seconds=1)
    return seconds * 1_000_000 + int((match[3] or "0").ljust(6, "0"))


def _spelled(micros: int) -> str:
    try:
        moment = _EPOCH + datetime.timedelta(microseconds=micros)
    except OverflowError:
        raise _Stays from None
    if moment.year < _MIN_YEAR:
        raise _Stays
    return moment.isoformat(sep=" ", timespec="microseconds")


def _day(text: str) -> str:
    try:
        if _DAY.fullmatch(text) and datetime.date.fromisoformat(text).year >= _MIN_YEAR:
            return text
    except ValueError:
        pass
    raise _Stays


def _decimal_type(constant: Constant) -> st.DecimalType:
    """The widest decimal type that Spark may give the constant."""
    match constant.value:
        case bool():
            raise _Stays
        case int(value) if value in _LONG:
            return st.DecimalType(20, 0)
        case Decimal() as value if value.is_finite():
            _, digits, exponent = value.as_tuple()
            scale = max(0, -int(exponent))
            precision = max(len(digits) + max(0, int(exponent)), scale)
            if precision <= _MAX_PRECISION:
                return st.DecimalType(precision, scale)
    raise _Stays


def _check_digits(types: Sequence[st.DecimalType]) -> None:
    """Refuses a comparison for which Spark has no type that holds all digits of all operands."""
    scale = max(kind.scale for kind in types)
    if max(kind.precision - kind.scale for kind in types) + scale > _MAX_PRECISION:
        raise _Stays


def _unescaped(prefix: str) -> str:
    """The prefix, which has no character that is special in a pattern."""
    if any(special in prefix for special in "%_\\"):
        raise _Stays
    return prefix


def _quoted(text: str) -> str:
    """A text literal of `where`."""
    if "\\" in text or any(not (character.isprintable()) for character in text) or "\ue000" in text:
        raise _Stays
    return "'" + text.replace("'", "\\'") + "'"
