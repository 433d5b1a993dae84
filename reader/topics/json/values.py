"""A JSON value as a value of a column's Avro type, exactly or not at all. Pure.

Source: Hudi `MercifulJsonConverter` of 1.x and the `LogicalTypeProcessor`s behind it: numbers may come as text; dates,
times and timestamps as numbers in the column's unit, as digits or as ISO text; text columns take any value, as its
JSON; bytes are a text's UTF-8; a decimal is a number or text, or its bytes in Base64; fixed is a list of bytes. Where
Hudi makes another value of what it is given (it wraps and cuts numbers, pads fixed, replaces what is no text), the
value is unfit here. Values come out as `pyarrow.array` takes them for `table.schema.arrow.arrow_type`.
"""

from __future__ import annotations

import base64
import decimal
import math
import re
from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

from penstock.reader.topics.json.texts import NumberText, json_text
from penstock.reader.topics.json.time_texts import date_days, instant_nanos, time_nanos
from penstock.reader.topics.record.decoded import Unfit
from penstock.table.schema.avro import (
    ArrayType,
    AvroField,
    AvroType,
    Decimal,
    EnumType,
    Fixed,
    MapType,
    Primitive,
    RecordType,
)

Converter = Callable[[object], object]
"""From a JSON value that is not null; Unfit if it does not fit."""

INT_LIMIT: Final = 1 << 31
LONG_LIMIT: Final = 1 << 63
DAY_US: Final = 86_400_000_000
_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,40}")
_CLOCK_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,19}")
_FLOAT: Final = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?)")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_LONGEST_DECIMAL: Final = 1000
_EXACT: Final = decimal.Context(prec=1100, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def converter(kind: AvroType) -> Converter:
    """What turns JSON values into values of this type."""
    match kind:
        case Primitive("boolean"):
            return _boolean
        case Primitive("int" | "long", logical) if logical:
            return _clock(kind)
        case Primitive("int"):
            return lambda value: whole(value, INT_LIMIT, "an int")
        case Primitive("long"):
            return lambda value: whole(value, LONG_LIMIT, "a long")
        case Primitive("float"):
            return _float
        case Primitive("double"):
            return _double
        case Primitive("string"):
            return text_of
        case Primitive("bytes"):
            return _bytes
        case Decimal():
            return lambda value: _decimal(value, kind)
        case Fixed(size):
            return lambda value: _fixed(value, size)
        case EnumType(symbols):
            return lambda value: _symbol(value, frozenset(symbols))
        case ArrayType(items, null_branch):
            return _array(converter(items), null_branch >= 0)
        case MapType(values, null_branch):
            return _map(converter(values), null_branch >= 0)
        case RecordType(fields):
            return record_converter(fields)
    return _unread


def _unread(value: object) -> object:
    raise Unfit(f"{shown(value)} for a vector, which Hudi reads from no JSON")


def record_converter(fields: tuple[AvroField, ...]) -> Converter:
    """From an object to its fields by name; those it lacks, and nulls, are left out."""
    parts = [(field.name, converter(field.type)) for field in fields]

    def convert(value: object) -> object:
        if not isinstance(value, dict):
            raise Unfit(f"{shown(value)}, expected an object")
        made: dict[str, object] = {}
        for name, inner in parts:
            found = value.get(name)
            if found is not None:
                made[name] = _inside(inner, found, name)
        return made

    return convert


def whole(value: object, limit: int, what: str) -> int:
    """A whole number of -limit to limit - 1, from a number or its digits."""
    number: int | None = None
    if type(value) is int:
        number = value
    elif isinstance(value, NumberText):
        number = _integral(value)
    elif isinstance(value, str) and _DIGITS.fullmatch(value):
        number = int(value)
    if number is None or not -limit <= number < limit:
        raise Unfit(f"{shown(value)}, expected {what}")
    return number


def text_of(value: object) -> str:
    """A text as it is, anything else as its JSON. Unfit for a text that has no UTF-8."""
    made = value if isinstance(value, str) and not isinstance(value, NumberText) else json_text(value)
    if not made.isascii():
        try:
            made.encode()
        except UnicodeEncodeError:
            raise Unfit("a text with half of a surrogate pair, which has no UTF-8") from None
    return made


def shown(value: object) -> str:
    """A value for an error's text, cut short."""
    if isinstance(value, NumberText):
        return f"the number {value[:60]}"
    if isinstance(value, str):
        return f"the text {value[:60]!r}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"the number {value if abs(value) < 10**60 else 'of more than 60 digits'}"
    return "an object" if isinstance(value, Mapping) else "a list"


def _integral(text: NumberText) -> int | None:
    number = _parsed(text)
    if not number:
        return None if number is None else 0
    return int(number) if number.adjusted() <= 40 and number == number.to_integral_value() else None


def _parsed(text: str) -> decimal.Decimal | None:
    """The number exactly; None for one that is none, or of more digits than anything holds."""
    if len(text) > _LONGEST_DECIMAL:
        return None
    try:
        return _EXACT.create_decimal(text)
    except decimal.DecimalException:
        return None


def _boolean(value: object) -> object:
    if value is True or value is False:
        return value
    raise Unfit(f"{shown(value)}, expected true or false")


def _double(value: object) -> float:
    number = _signed(float(_float_text(value)), value)
    if math.isinf(number) and not _says_infinity(value):
        raise Unfit(f"{shown(value)}, beyond a double")
    return number


def _float(value: object) -> float:
    number = _signed(float(pa.scalar(_float_text(value)).cast(pa.float32()).as_py()), value)
    if math.isinf(number) and not _says_infinity(value):
        raise Unfit(f"{shown(value)}, beyond a float")
    return number


def _signed(number: float, value: object) -> float:
    """Java's decimals have no zero below zero, its texts of doubles do."""
    return number + 0.0 if isinstance(value, NumberText) else number


def _float_text(value: object) -> str:
    if type(value) is int:
        return str(value) if abs(value) < 10**400 else "1e999"
    if isinstance(value, NumberText):
        return value
    if isinstance(value, str):
        text = value.strip(" \t\n\r\f\v")
        if _FLOAT.fullmatch(text):
            return text.removeprefix("+")
    raise Unfit(f"{shown(value)}, expected a number")


def _says_infinity(value: object) -> bool:
    return isinstance(value, str) and "Inf" in value


def _bytes(value: object) -> bytes:
    if isinstance(value, dict | list):
        raise Unfit(f"{shown(value)}, expected a text, whose UTF-8 the bytes are")
    return text_of(value).encode()


def _fixed(value: object, size: int) -> bytes:
    if not isinstance(value, list) or len(value) != size:
        raise Unfit(f"{shown(value)}, expected a list of {size} numbers, the bytes")
    if any(type(item) is not int or not -128 <= item <= 255 for item in value):
        raise Unfit("a list with what is no byte")
    return bytes(item & 0xFF for item in value)


def _symbol(value: object, symbols: frozenset[str]) -> str:
    text = text_of(value)
    if text not in symbols:
        raise Unfit(f"{shown(value)}, which is no symbol of the column's enum")
    return text


def _decimal(value: object, kind: Decimal) -> decimal.Decimal:
    found: decimal.Decimal | None = None
    if isinstance(value, list) and kind.fixed_size is not None:
        found = _unscaled(_fixed(value, kind.fixed_size), kind)
    elif type(value) is int:
        found = _scaled(_parsed(str(value)) if abs(value) < 10**_LONGEST_DECIMAL else None, kind)
    elif isinstance(value, NumberText):
        found = _scaled(_parsed(value), kind)
    elif isinstance(value, str):
        found = _decimal_text(value, kind)
    if found is None:
        raise Unfit(f"{shown(value)}, expected a decimal of {kind.precision} digits, {kind.scale} behind the point")
    return found


def _decimal_text(text: str, kind: Decimal) -> decimal.Decimal | None:
    """A number in digits, or the Base64 of its bytes. Some texts are both, and Hudi takes those for Base64, whoever
    wrote them: unless one reading is beyond the column, nobody can tell."""
    number = _scaled(_parsed(text), kind) if _NUMBER.fullmatch(text) else None
    coded = _unscaled(_decoded(text), kind)
    if number is not None and coded is not None and number != coded:
        raise Unfit(f"the text {text[:60]!r}, which is a decimal both in digits and in Base64; write a JSON number")
    return coded if number is None else number


def _decoded(text: str) -> bytes:
    if len(text) > _LONGEST_DECIMAL or not _BASE64.fullmatch(text) or (text.endswith("=") and len(text) % 4):
        return b""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return b""


def _unscaled(data: bytes, kind: Decimal) -> decimal.Decimal | None:
    if not data:
        return None
    return _scaled(_EXACT.scaleb(decimal.Decimal(int.from_bytes(data, "big", signed=True)), -kind.scale), kind)


def _scaled(number: decimal.Decimal | None, kind: Decimal) -> decimal.Decimal | None:
    """The number at the column's scale; None if digits would be lost, or are too many."""
    if number is None or (number and number.adjusted() >= kind.precision - kind.scale):
        return None
    made = number.quantize(decimal.Decimal(1).scaleb(-kind.scale), context=_EXACT)
    return made if made == number else None


def _clock(kind: Primitive) -> Converter:
    """Dates, times and timestamps: numbers in the column's unit, their digits, or ISO text."""
    logical = kind.logical
    limit, what = (INT_LIMIT, "an int") if kind.kind == "int" else (LONG_LIMIT, "a long")
    unit_nanos = 1_000_000 if logical.endswith("-millis") else 1000

    def convert(value: object) -> int:
        if not isinstance(value, str) or isinstance(value, NumberText) or _CLOCK_DIGITS.fullmatch(value):
            number = whole(value, limit, what)
        elif logical == "date":
            number = date_days(value)
        elif logical.startswith("time-"):
            number = time_nanos(value) // unit_nanos
        else:
            nanos = instant_nanos(value, local=logical.startswith("local-"))
            number = nanos // unit_nanos if nanos >= 0 else -(-nanos // unit_nanos)
        made = number * 1000 if logical.endswith("-millis") else number
        if not -limit <= number < limit or not -LONG_LIMIT <= made < LONG_LIMIT:
            raise Unfit(f"{shown(value)}, beyond what a {logical} can be")
        if logical.startswith("time-") and not 0 <= made < DAY_US:
            raise Unfit(f"{shown(value)}, outside of the day")
        return made

    return convert


def _array(inner: Converter, nullable: bool) -> Converter:
    def convert(value: object) -> object:
        if not isinstance(value, list):
            raise Unfit(f"{shown(value)}, expected a list")
        return [_item(inner, item, nullable, "an item") for item in value]

    return convert


def _map(inner: Converter, nullable: bool) -> Converter:
    def convert(value: object) -> object:
        if not isinstance(value, dict):
            raise Unfit(f"{shown(value)}, expected an object")
        return [(text_of(name), _item(inner, item, nullable, "a value")) for name, item in value.items()]

    return convert


def _item(inner: Converter, item: object, nullable: bool, what: str) -> object:
    if item is not None:
        return _inside(inner, item, what)
    if not nullable:
        raise Unfit(f"{what} null, which the column's type does not have")
    return None


def _inside(inner: Converter, value: object, name: str) -> object:
    try:
        return inner(value)
    except Unfit as error:
        raise Unfit(f"{name}: {error}") from None
