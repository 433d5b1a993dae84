"""Which data records of a log mark their key as deleted instead of holding a row.

Hudi's markers (`DeleteContext`) are: the column `_hoodie_is_deleted`, the operation of a change log, a custom column
with a custom value. Delete blocks are decoded by `table.log.deletes`; whether a delete wins is decided by `merge.fold`.
"""

from __future__ import annotations

import decimal
import re
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.model.splits import DeleteMarker, Scan
from penstock.proto.value_classes import dataclass
from penstock.table.arrow_arrays import arrow_array, arrow_scalar, numpy_array, true_rows
from penstock.table.arrow_compute import pc
from penstock.table.schema.avro import OPERATION, AvroType, Decimal, EnumType, Fixed, Primitive, RecordSchema

_PLAIN_FLOATS: Final = (1e-3, 1e7)
"""Java writes doubles from the first (inclusive) to the second (exclusive) without an exponent."""

_LARGEST_TEXT: Final = 400
_JAVA_FLOAT: Final = re.compile(r"-?[0-9]+\.[0-9]+(E-?[0-9]+)?|NaN|-?Infinity")
_DECIMAL: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?(E[+-][0-9]+)?")
_PLAIN_EXPONENT: Final = -6


def has_text(kind: AvroType) -> bool:
    """Whether values of the type have a text to compare with: all types but nested ones."""
    return isinstance(kind, Primitive | EnumType | Decimal | Fixed)


def matches_marker(column: pa.Array, kind: AvroType, mark: str) -> pa.Array:
    """Which values have `mark` as their Java text; null for null. `column` is the Arrow form of the Avro type `kind`.

    Bytes and fixed values never match: Java's text of an array is its address.
    """
    value = _marker_value(column.type, kind, mark)
    if value is None:
        return arrow_array(np.zeros(len(column), bool))
    if pa.types.is_floating(column.type):
        return _same_float(column, value)
    return pc.equal(_compared(column), value)


def _compared(column: pa.Array) -> pa.Array:
    """Dates, times and timestamps as their numbers; other types unchanged."""
    if pa.types.is_temporal(column.type):
        return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return column


def _marker_value(column_type: pa.DataType, kind: AvroType, mark: str) -> pa.Scalar | None:
    """The one value of the column's type that has this text, or None."""
    if pa.types.is_string(column_type):
        return arrow_scalar(mark, column_type)
    if pa.types.is_boolean(column_type):
        return {"true": pa.scalar(True), "false": pa.scalar(False)}.get(mark)
    if pa.types.is_floating(column_type):
        return _float_value(column_type, mark)
    if pa.types.is_decimal(column_type):
        return _decimal_value(column_type, mark)
    if pa.types.is_integer(column_type) or pa.types.is_temporal(column_type):
        millis = isinstance(kind, Primitive) and kind.logical == "time-millis"
        return _integer_value(column_type, mark, 1000 if millis else 1)
    return None


def _integer_value(column_type: pa.DataType, mark: str, scale: int) -> pa.Scalar | None:
    """Spark has no time of day and reads the file's number; `scale` converts that number to microseconds."""
    if not mark.lstrip("-").isascii() or len(mark) > _LARGEST_TEXT or not mark.lstrip("-").isdigit():
        return None
    number = int(mark)
    try:
        value = pa.scalar(number * scale, pa.int32() if column_type.bit_width == 32 else pa.int64())
    except (pa.ArrowInvalid, OverflowError):
        return None
    return value if str(number) == mark else None


def _float_value(column_type: pa.DataType, mark: str) -> pa.Scalar | None:
    if len(mark) > _LARGEST_TEXT or not _JAVA_FLOAT.fullmatch(mark):
        return None
    with np.errstate(over="ignore"):
        number = (np.float32 if column_type == pa.float32() else np.float64)(mark)
    return pa.scalar(number, column_type) if java_text(number) == mark else None


def java_text(number: np.floating) -> str:
    """`Float.toString` and `Double.toString`: the fewest digits that distinguish the value from its neighbours."""
    if not np.isfinite(number):
        return "NaN" if np.isnan(number) else ("-Infinity" if number < 0 else "Infinity")
    least, most = _PLAIN_FLOATS
    if number == 0 or least <= abs(number) < most:
        return np.format_float_positional(number, unique=True, trim="0")
    mantissa, _, exponent = np.format_float_scientific(number, unique=True, trim="0").partition("e")
    return f"{mantissa}E{int(exponent)}"


def _same_float(column: pa.Array, value: pa.Scalar) -> pa.Array:
    """Equality of texts: NaN equals itself, -0.0 is not 0.0."""
    number = value.as_py()
    if number != number:
        return pc.is_nan(column)
    same = pc.equal(column, value)
    if number == 0:
        signs = arrow_array(np.signbit(numpy_array(column.fill_null(0.0))))
        same = pc.and_(same, pc.equal(signs, bool(np.signbit(number))))
    return same


def _decimal_value(column_type: pa.DataType, mark: str) -> pa.Scalar | None:
    if len(mark) > _LARGEST_TEXT or not _DECIMAL.fullmatch(mark):
        return None
    number = decimal.Decimal(mark)
    if number.as_tuple().exponent != -column_type.scale or _big_decimal_text(number) != mark:
        return None
    try:
        return pa.scalar(number, column_type)
    except (pa.ArrowInvalid, ValueError):
        return None


def _big_decimal_text(number: decimal.Decimal) -> str:
    """`BigDecimal.toString` of a value with a scale of 0 or above."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise InvariantViolation(f"a decimal of exponent {exponent!r}")
    text = "".join(map(str, digits))
    adjusted = exponent + len(text) - 1
    if adjusted >= _PLAIN_EXPONENT:
        plain = text if not exponent else f"{text.zfill(1 - exponent)[:exponent]}.{text.zfill(1 - exponent)[exponent:]}"
    else:
        plain = text[0] + (f".{text[1:]}" if len(text) > 1 else "") + f"E{adjusted}"
    return ("-" if sign and number != 0 else "") + plain


DELETE_MARK: Final = "_hoodie_is_deleted"
_DELETE_OPERATIONS: Final = arrow_array(("D", "-U"), pa.string())
_TEXT: Final = Primitive("string")


@dataclass(frozen=True, slots=True)
class DeleteMarkers:
    """The delete markers of a table."""

    flag: str = ""
    """The boolean column, or ''."""
    operation: str = ""
    """The operation column, or ''."""
    custom: DeleteMarker | None = None
    """A custom column and the value that marks a delete, or None."""
    custom_type: AvroType = _TEXT
    """The type of the custom column."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that markers need."""
        custom = self.custom.field if self.custom is not None else ""
        return tuple(filter(None, (self.flag, self.operation, custom)))

    def marked(self, batch: pa.RecordBatch) -> np.ndarray | None:
        """Which rows of a batch with these columns are deletes; None if none is."""
        matches: list[pa.Array] = []
        if self.flag:
            matches.append(batch.column(self.flag))
        if self.operation:
            matches.append(pc.is_in(batch.column(self.operation), value_set=_DELETE_OPERATIONS))
        if self.custom is not None:
            matches.append(matches_marker(batch.column(self.custom.field), self.custom_type, self.custom.value))
        marked: np.ndarray | None = None
        for answers in matches:
            if answers.true_count:
                truths = true_rows(answers)
                marked = truths if marked is None else marked | truths
        return marked


def delete_markers(scan: Scan, record: RecordSchema) -> DeleteMarkers:
    """The markers of the scan's table. A custom column that the table lacks marks nothing, as in Hudi.

    ConfigurationError for a nested custom column: its values have no text.
    """
    fields = record.by_name()
    flag = fields.get(DELETE_MARK)
    operation = fields.get(OPERATION)
    custom = scan.delete_marker
    if custom is not None and custom.field not in fields:
        custom = None
    kind = _TEXT if custom is None else fields[custom.field].type
    if custom is not None and not has_text(kind):
        raise ConfigurationError(
            f"table {scan.table}: column {custom.field!r} marks deletes and is {kind}, whose values have no text to "
            "compare with the marker; name a column that is not a record, list or map"
        )
    return DeleteMarkers(
        flag=DELETE_MARK if flag is not None and flag.type == Primitive("boolean") else "",
        operation=OPERATION if operation is not None and operation.type == Primitive("string") else "",
        custom=custom,
        custom_type=kind,
    )
