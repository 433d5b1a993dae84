"""Converts a JSON value to a column's Avro type, exactly or not at all. Pure.

Source: Hudi `MercifulJsonConverter` of 1.x and its `LogicalTypeProcessor`s:

* numbers may be text;
* dates, times and timestamps are numbers in the column's unit, digits, or ISO text;
* text columns take any value, as its JSON; bytes are a text's UTF-8;
* a decimal is a number or text, or its bytes in Base64; fixed is a list of bytes.

If Hudi would change a value (it wraps and truncates numbers, pads fixed, replaces invalid text), the value is unfit
here. Results are those that `pyarrow.array` takes for `table.schema.arrow.arrow_type`.
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
    """The conversion of JSON values to this type."""
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
    return _unsupported


def _unsupported(value: object) -> object:
    raise Unfit(f"{value_text(value)} for a vector, which Hudi does not read from JSON")


def record_converter(fields: tuple[AvroField, ...]) -> Converter:
    """From an object to its fields by name; missing fields and nulls are left out."""
    parts = [(field.name, converter(field.type)) for field in fields]

    def convert(value: object) -> object:
        if not isinstance(value, dict):
            raise Unfit(f"{value_text(value)}, expected an object")
        fields_by_name: dict[str, object] = {}
        for name, inner in parts:
            member = value.get(name)
            if member is not None:
                fields_by_name[name] = _inside(inner, member, name)
        return fields_by_name

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
        raise Unfit(f"{value_text(value)}, expected {what}")
    return number


def text_of(value: object) -> str:
    """A text unchanged, any other value as its JSON. Unfit for a text without UTF-8."""
    text = value if isinstance(value, str) and not isinstance(value, NumberText) else json_text(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Unfit("a text with half of a surrogate pair, which has no UTF-8") from None
    return text


def value_text(value: object) -> str:
    """A value for an error's text, truncated."""
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
    """The number exactly; None if it is not a number, or has too many digits for any type."""
    if len(text) > _LONGEST_DECIMAL:
        return None
    try:
        return _EXACT.create_decimal(text)
    except decimal.DecimalException:
        return None


def _boolean(value: object) -> object:
    if value is True or value is False:
        return value
    raise Unfit(f"{value_text(value)}, expected true or false")


def _double(value: object) -> float:
    number = _signed(float(_float_text(value)), value)
    if math.isinf(number) and not _is_infinity_text(value):
        raise Unfit(f"{value_text(value)}, beyond a double")
    return number


def _float(value: object) -> float:
    number = _signed(float(pa.scalar(_float_text(value)).cast(pa.float32()).as_py()), value)
    if math.isinf(number) and not _is_infinity_text(value):
        raise Unfit(f"{value_text(value)}, beyond a float")
    return number


def _signed(number: float, value: object) -> float:
    """Java's decimals have no negative zero, its texts of doubles do."""
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
    raise Unfit(f"{value_text(value)}, expected a number")


def _is_infinity_text(value: object) -> bool:
    return isinstance(value, str) and "Inf" in value


def _bytes(value: object) -> bytes:
    if isinstance(value, dict | list):
        raise Unfit(f"{value_text(value)}, expected a text, whose UTF-8 the bytes are")
    return text_of(value).encode()


def _fixed(value: object, size: int) -> bytes:
    if not isinstance(value, list) or len(value) != size:
        raise Unfit(f"{value_text(value)}, expected a list of {size} numbers, the bytes")
    if any(type(item) is not int or not -128 <= item <= 255 for item in value):
        raise Unfit("a list with a value that is not a byte")
    return bytes(item & 0xFF for item in value)


def _symbol(value: object, symbols: frozenset[str]) -> str:
    text = text_of(value)
    if text not in symbols:
        raise Unfit(f"{value_text(value)}, which is not a symbol of the column's enum")
    return text


def _decimal(value: object, kind: Decimal) -> decimal.Decimal:
    number: decimal.Decimal | None = None
    if isinstance(value, list) and kind.fixed_size is not None:
        number = _unscaled(_fixed(value, kind.fixed_size), kind)
    elif type(value) is int:
        number = _scaled(_parsed(str(value)) if abs(value) < 10**_LONGEST_DECIMAL else None, kind)
    elif isinstance(value, NumberText):
        number = _scaled(_parsed(value), kind)
    elif isinstance(value, str):
        number = _decimal_text(value, kind)
    if number is None:
        raise Unfit(f"{value_text(value)}, expected a decimal of {kind.precision} digits, {kind.scale} after the point")
    return number


def _decimal_text(text: str, kind: Decimal) -> decimal.Decimal | None:
    """A number in digits, or the Base64 of its bytes.

    Some texts are both, and Hudi reads them as Base64 whoever wrote them. So the text is only accepted if one reading
    is beyond the column.
    """
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
    rounded = number.quantize(decimal.Decimal(1).scaleb(-kind.scale), context=_EXACT)
    return rounded if rounded == number else None


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
        stored = number * 1000 if logical.endswith("-millis") else number
        if not -limit <= number < limit or not -LONG_LIMIT <= stored < LONG_LIMIT:
            raise Unfit(f"{value_text(value)}, beyond what a {logical} can be")
        if logical.startswith("time-") and not 0 <= stored < DAY_US:
            raise Unfit(f"{value_text(value)}, outside of the day")
        return stored

    return convert


def _array(inner: Converter, nullable: bool) -> Converter:
    def convert(value: object) -> object:
        if not isinstance(value, list):
            raise Unfit(f"{value_text(value)}, expected a list")
        return [_item(inner, item, nullable, "an item") for item in value]

    return convert


def _map(inner: Converter, nullable: bool) -> Converter:
    def convert(value: object) -> object:
        if not isinstance(value, dict):
            raise Unfit(f"{value_text(value)}, expected an object")
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
