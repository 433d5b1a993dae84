"""Images as JSON text in Hudi's two notations, one whole column at a time. Pure.

* `ENGINE`: an engine row as Jackson writes it: compact, null fields left out, bytes as base64, decimals as numbers
  (Hudi 1.2.0 loses them: `{"zero":false}`).
* `LOGGED` and `RECORD`: an Avro record's `toString`: spaces after `:` and `,`, nulls written, bytes as one character
  each, fixed values (decimals among them) as lists of signed bytes.

In both, dates are days, timestamps are microseconds or the stored unit, and floats have the digits that Java 8 to 18
prints.
"""

from __future__ import annotations

import base64
import decimal
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.reader.cdc.images import Images, ImageStyle
from penstock.reader.values.java_text import exponent_texts
from penstock.table.schema.avro import (
    VECTOR_ELEMENT_BYTES,
    ArrayType,
    AvroField,
    AvroType,
    Decimal,
    EnumType,
    Fixed,
    MapType,
    Primitive,
    RecordType,
    Vector,
)

_NEEDS_ESCAPE: Final = r'["\\\x00-\x1f]'
_WHOLE: Final = r"^-?[0-9]+$"
_EXACT: Final = decimal.Context(prec=100)


def image_texts(images: Images, *, compiled: bool = True) -> pa.Array:
    """One JSON object per row. `compiled=False` uses Arrow functions alone; the results are the same."""
    notation = _ENGINE if images.style is ImageStyle.ENGINE else _AVRO
    fields = images.record.by_name()
    names = [name for name in images.rows.schema.names if name in fields]
    columns = [images.rows.column(name) for name in names]
    chosen = [fields[name] for name in names]
    if compiled and (texts := notation.objects(chosen, columns, images.rows.num_rows)) is not None:
        return texts
    return notation.object_of(chosen, columns, images.rows.num_rows)


@dataclass(frozen=True, slots=True)
class _Notation:
    is_avro: bool
    colon: str
    comma: str

    def objects(self, fields: list[AvroField], columns: list[pa.Array], rows: int) -> pa.Array | None:
        """`object_of` by the kernel, which also quotes texts and writes floats as Java does; None for more text than an
        array holds."""
        from penstock.reader.cdc.json_objects import NUMBER, QUOTED, RAW, Member, objects

        members: list[Member] = []
        for field, column in zip(fields, columns, strict=True):
            head = json.dumps(field.name, ensure_ascii=False) + self.colon
            match field.type:
                case Primitive(kind="string") | EnumType():
                    members.append(Member(head, column, QUOTED))
                case Primitive(kind="float" | "double"):
                    members.append(Member(head, exponent_texts(column), NUMBER))
                case kind:
                    members.append(Member(head, self.values(column, kind), RAW))
        return objects(members, rows, self.comma, nulls=self.is_avro)

    def object_of(self, fields: list[AvroField], columns: list[pa.Array], rows: int) -> pa.Array:
        """`{"name":value,…}` for each row."""
        parts = [self._member(field, column) for field, column in zip(fields, columns, strict=True)]
        if not parts:
            return pa.repeat(pa.scalar("{}"), rows)
        # Not by null_handling="skip": Arrow drops a row whose parts are all null.
        prefixed = [pc.binary_join_element_wise(self.comma, part, "").fill_null("") for part in parts]
        inner = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*prefixed, ""), start=len(self.comma))
        return _wrapped("{", inner, "}")

    def _member(self, field: AvroField, column: pa.Array) -> pa.Array:
        values = self.values(column, field.type)
        if self.is_avro:
            values = values.fill_null("null")
        return pc.binary_join_element_wise(json.dumps(field.name, ensure_ascii=False) + self.colon, values, "")

    def values(self, array: pa.Array, kind: AvroType) -> pa.Array:
        """The JSON text of each value; null for null."""
        match kind:
            case ArrayType(items=items):
                return self._list(array, self.values(array.flatten(), items))
            case Vector(dimension, element) if self.is_avro:
                return self.values(_stored_vectors(array), Fixed(dimension * VECTOR_ELEMENT_BYTES[element]))
            case Vector(_, element):
                items = Primitive("int") if element == "INT8" else Primitive("double")
                return self._list(array, self.values(array.flatten(), items))
            case MapType(values=inner):
                return self._map(array, inner)
            case RecordType(fields=fields):
                columns = [pc.struct_field(array, [place]) for place in range(len(fields))]
                text = self.object_of(list(fields), columns, len(array))
                return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))
            case Decimal(fixed_size=size) if pa.types.is_decimal(array.type):
                if not self.is_avro:
                    return array.cast(pa.string())
                return self.values(_unscaled(array, size), Fixed(size) if size else Primitive("bytes"))
            case Fixed() if self.is_avro:
                return _each(array, lambda data: str([byte - 256 if byte > 127 else byte for byte in data]))
            case Primitive(kind="bytes") | Fixed() | Decimal():
                if self.is_avro:
                    return _each(array, lambda data: json.dumps(data.decode("latin-1"), ensure_ascii=False))
                return _each(array, lambda data: f'"{base64.b64encode(data).decode()}"')
            case Primitive(kind="float" | "double"):
                return _numbers(array)
            case Primitive(kind="boolean"):
                return pc.if_else(array, "true", "false")
            case Primitive(kind="int" | "long"):
                return _integers(array).cast(pa.string())
            case _:
                return _quoted(array)

    def _list(self, array: pa.Array, items: pa.Array) -> pa.Array:
        return _wrapped("[", _joined(array, items.fill_null("null"), self.comma), "]")

    def _map(self, array: pa.Array, inner: AvroType) -> pa.Array:
        entries = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
        flat = entries.flatten()
        values = self.values(flat.field("value"), inner)
        if self.is_avro:
            values = values.fill_null("null")
        members = pc.binary_join_element_wise(_quoted(flat.field("key")), values, self.colon)
        return _wrapped("{", _joined(array, members, self.comma), "}")


_ENGINE: Final = _Notation(False, ":", ",")
_AVRO: Final = _Notation(True, ": ", ", ")


def _joined(lists: pa.Array, flat: pa.Array, comma: str) -> pa.Array:
    """The texts of each list joined; null for a null list. `flat` are the items of all lists; nulls are left out."""
    lengths = pc.list_value_length(lists) if not pa.types.is_map(lists.type) else _map_lengths(lists)
    offsets = np.concatenate([[0], np.cumsum(lengths.fill_null(0).to_numpy(zero_copy_only=False))])
    if flat.null_count:
        offsets = np.concatenate([[0], np.cumsum(flat.is_valid().to_numpy(zero_copy_only=False))])[offsets]
        flat = flat.drop_null()
    texts = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)
    return pc.if_else(lists.is_valid(), pc.binary_join(texts, comma), pa.scalar(None, pa.string()))


def _map_lengths(maps: pa.Array) -> pa.Array:
    entries = maps.cast(pa.list_(pa.struct([("key", maps.type.key_type), ("value", maps.type.item_type)])))
    return pc.list_value_length(entries)


def _wrapped(head: str, texts: pa.Array, tail: str) -> pa.Array:
    return pc.binary_join_element_wise(head, texts, tail, "")


def _quoted(texts: pa.Array) -> pa.Array:
    """JSON strings. Only texts with a character that must be escaped are processed one by one."""
    plain = _wrapped('"', texts, '"')
    to_escape = pc.match_substring_regex(texts, _NEEDS_ESCAPE).fill_null(False)
    if not to_escape.true_count:
        return plain
    escaped = [json.dumps(text, ensure_ascii=False) for text in texts.filter(to_escape).to_pylist()]
    return pc.replace_with_mask(plain, to_escape, pa.array(escaped, pa.string()))


def _numbers(array: pa.Array) -> pa.Array:
    """Floats with a fraction or an exponent; NaN and infinities in quotes."""
    texts = exponent_texts(array)
    texts = pc.if_else(pc.match_substring_regex(texts, _WHOLE), pc.binary_join_element_wise(texts, "0", "."), texts)
    for text, java in (("nan", '"NaN"'), ("inf", '"Infinity"'), ("-inf", '"-Infinity"')):
        texts = pc.if_else(pc.equal(texts, text), java, texts)
    return texts


def _integers(array: pa.Array) -> pa.Array:
    """The stored number of an integer, date, time or timestamp."""
    if pa.types.is_integer(array.type):
        return array
    return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())


def _each(array: pa.Array, write: Callable[[bytes], str]) -> pa.Array:
    return pa.array([None if data is None else write(data) for data in array.to_pylist()], pa.string())


def _unscaled(decimals: pa.Array, size: int | None) -> pa.Array:
    """The unscaled values of decimals, two's complement, big-endian, of `size` bytes or as few as each needs."""
    scale = decimals.type.scale

    def stored(value: decimal.Decimal) -> bytes:
        number = int(value.scaleb(scale, _EXACT))
        return number.to_bytes(size or (8 + (number + (number < 0)).bit_length()) // 8, "big", signed=True)

    return pa.array([None if value is None else stored(value) for value in decimals.to_pylist()], pa.binary())


def _stored_vectors(lists: pa.Array) -> pa.Array:
    """The bytes that vectors are stored as: their numbers, little-endian."""
    kind = np.dtype(lists.type.value_type.to_pandas_dtype()).newbyteorder("<")
    stored = [None if numbers is None else np.array(numbers, kind).tobytes() for numbers in lists.to_pylist()]
    return pa.array(stored, pa.binary())
