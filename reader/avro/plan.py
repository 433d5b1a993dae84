"""Compiles a writer schema and the requested columns to the kernel's program and steps. Done once per schema; pure.

This module decides which operation decodes or skips a type, and which lane holds it. `kernels.avro` executes program
and steps, `compiled` passes lanes to Arrow, `nested` the cells of nested values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.value_classes import dataclass
from penstock.reader.kernels import avro as kernel
from penstock.table.schema.arrow import arrow_type
from penstock.table.schema.avro import (
    ArrayType,
    AvroType,
    Decimal,
    EnumType,
    Fixed,
    MapType,
    Primitive,
    RecordSchema,
    RecordType,
)

WIDE: Final = "wide"
NARROW: Final = "narrow"
SMALL: Final = "small"
TEXT: Final = "text"
_LANES: Final = {
    kernel.LONG: WIDE,
    kernel.INT: NARROW,
    kernel.INT_AS_LONG: WIDE,
    kernel.ENUM: NARROW,
    kernel.DOUBLE: WIDE,
    kernel.FLOAT: NARROW,
    kernel.BOOLEAN: SMALL,
    kernel.TEXT: TEXT,
    kernel.FIXED: TEXT,
    kernel.DECIMAL: WIDE,
}

SKIPPED_LEVEL: Final = 1
"""The level of items that are skipped. Requested arrays and maps have higher ones."""

_DECODE: Final = {
    "boolean": kernel.BOOLEAN,
    "int": kernel.INT,
    "long": kernel.LONG,
    "float": kernel.FLOAT,
    "double": kernel.DOUBLE,
    "bytes": kernel.TEXT,
    "string": kernel.TEXT,
}
_SKIPPED_SIZES: Final = {kernel.BOOLEAN: 1, kernel.FLOAT: 4, kernel.DOUBLE: 8}


@dataclass(frozen=True, slots=True)
class Lane:
    """The lane of a requested column that is not nested."""

    name: str
    """wide, narrow, small or text."""
    slot: int
    """Its slot in the lane."""
    column: int
    """Its row of `valid`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedValue:
    """A requested nested column, or a value in one."""

    written: AvroType
    """The writer's type."""
    target: pa.DataType
    """The Arrow type to produce."""
    level: int
    """0 for values of records; the items of each array or map have a level of their own."""
    step: int
    """The step that decodes it; -1 for a record, which has no cells."""
    union: int
    """The step of its union with null; -1 if it is never null."""
    lane: str = ""
    """wide, narrow, small or text; "" for a record, array or map."""
    slot: int = 0
    """The text slot of a value in the lane text."""
    children: tuple[NestedValue | None, ...] = ()
    """The target's fields, None where the writer has none; the items; keys and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPlan:
    """The arguments of `kernels.avro.decode_records`, and the places of the requested columns."""

    program: np.ndarray
    """The operations, one per field (int64[fields, 5])."""
    steps: np.ndarray
    """The steps that decode or skip nested fields (int64[steps, 6])."""
    exact: bool
    """Whether the program covers every field of the record, not only those up to the last requested one."""
    lanes: Mapping[str, Lane]
    """By column that is not nested."""
    nested: Mapping[str, NestedValue]
    """By nested column."""
    levels: int
    """Number of levels."""
    wide_slots: int
    """Number of slots of the lane wide."""
    narrow_slots: int
    """Number of slots of the lane narrow."""
    small_slots: int
    """Number of slots of the lane small."""
    text_slots: int
    """Number of slots of the lane text, those of nested values included."""

    @property
    def has_items(self) -> bool:
        """Whether a requested column has arrays or maps."""
        return self.levels > SKIPPED_LEVEL + 1


def plan_kernel(writer: RecordSchema, columns: Mapping[str, AvroType], *, whole_record: bool = False) -> KernelPlan:
    """The program that decodes the `columns` of `writer`, and skips the others.

    columns: column name -> the type to produce, `compatible` with the writer's without a promotion. The program stops
    after the last requested field unless `whole_record`.
    """
    return _Planner().plan(writer, columns, whole_record=whole_record)


def skipping(rows: np.ndarray) -> np.ndarray:
    """The program or steps that skip what these decode, over the same items."""
    skips = rows.copy()
    for row in skips:
        row[kernel.OPCODE], row[kernel.ARGUMENT] = _skip(int(row[kernel.OPCODE]), int(row[kernel.ARGUMENT]))
    return skips


class _Planner:
    """Numbers slots, steps and levels while it goes through one schema."""

    def __init__(self) -> None:
        self._steps: list[list[int]] = []
        self._used = {WIDE: 0, NARROW: 0, SMALL: 0, TEXT: 0}
        self._levels = SKIPPED_LEVEL + 1

    def plan(self, writer: RecordSchema, columns: Mapping[str, AvroType], *, whole_record: bool) -> KernelPlan:
        program: list[tuple[int, int, int, int, int]] = []
        lanes: dict[str, Lane] = {}
        nested: dict[str, NestedValue] = {}
        length = 0
        for field in writer.fields:
            if isinstance(field.type, ArrayType | MapType | RecordType):
                first = len(self._steps)
                value = self._value(field.type, field.null_branch, columns.get(field.name), 0)
                self._add(kernel.END, 0)
                program.append((kernel.NESTED, -1, 0, first, -1))
                if value is not None:
                    nested[field.name] = value
            elif field.name in columns:
                opcode, argument = _decoding(field.type, columns[field.name])
                lane = Lane(_LANES[opcode], self._slots(opcode), len(lanes))
                lanes[field.name] = lane
                program.append((opcode, _null_byte(field.null_branch), lane.slot, argument, lane.column))
            else:
                opcode, argument = _skip(*_decoding(field.type, field.type))
                program.append((opcode, _null_byte(field.null_branch), 0, argument, -1))
            if field.name in columns or whole_record:
                length = len(program)
        return KernelPlan(
            program=np.array(program[:length], np.int64).reshape(-1, 5),
            steps=np.array(self._steps, np.int64).reshape(-1, 6),
            exact=length == len(program),
            lanes=lanes,
            nested=nested,
            levels=self._levels,
            wide_slots=self._used[WIDE],
            narrow_slots=self._used[NARROW],
            small_slots=self._used[SMALL],
            text_slots=self._used[TEXT],
        )

    def _value(self, written: AvroType, null_branch: int, target: AvroType | None, level: int) -> NestedValue | None:
        """Adds the steps of a value and its union. None without a target: it is skipped."""
        union = self._add(kernel.UNION, level, null_byte=_null_byte(null_branch)) if null_branch >= 0 else -1
        match written:
            case RecordType():
                step, lane, slot, children = -1, "", 0, self._fields(written, target, level)
            case ArrayType() | MapType():
                step, lane, slot, children = len(self._steps), "", 0, self._items(written, target, level)
            case _:
                children = ()
                opcode, argument = _decoding(written, target or written)
                if target is None:
                    opcode, argument = _skip(opcode, argument)
                lane = _LANES.get(opcode, "")
                slot = self._slots(opcode) if lane == TEXT else 0
                step = self._add(opcode, level, argument, slot=slot)
        if union >= 0:
            self._steps[union][kernel.ARGUMENT] = len(self._steps)
        if target is None:
            return None
        return NestedValue(
            written=written,
            target=arrow_type(target),
            level=level,
            step=step,
            union=union,
            lane=lane,
            slot=slot,
            children=children,
        )

    def _fields(self, written: RecordType, target: AvroType | None, level: int) -> tuple[NestedValue | None, ...]:
        wanted = {field.name: field.type for field in target.fields} if isinstance(target, RecordType) else {}
        fields = {
            field.name: self._value(field.type, field.null_branch, wanted.get(field.name), level)
            for field in written.fields
        }
        return tuple(fields.get(name) for name in wanted)

    def _items(
        self, written: ArrayType | MapType, target: AvroType | None, level: int
    ) -> tuple[NestedValue | None, ...]:
        inner = SKIPPED_LEVEL
        if target is not None:
            inner, self._levels = self._levels, self._levels + 1
        loop = self._add(kernel.BLOCK, level, slot=inner)
        children: tuple[NestedValue | None, ...] = ()
        if isinstance(written, MapType):
            key = Primitive("string")
            children = (self._value(key, -1, None if target is None else key, inner),)
        children += (self._value(_inner(written), written.null_branch, target and _inner(target), inner),)
        self._add(kernel.ITEM_END, inner, loop)
        self._steps[loop][kernel.ARGUMENT] = len(self._steps)
        return children

    def _add(self, opcode: int, level: int, argument: int = 0, *, slot: int = 0, null_byte: int = -1) -> int:
        """Adds a step, and returns its number."""
        self._steps.append([opcode, null_byte, slot, argument, level, -1])
        return len(self._steps) - 1

    def _slots(self, opcode: int) -> int:
        """The first of the slots that the operation fills."""
        lane = _LANES[opcode]
        first = self._used[lane]
        self._used[lane] += 2 if opcode == kernel.DECIMAL else 1
        return first


def _inner(type_: AvroType) -> AvroType:
    """The type of the items or of the map's values."""
    match type_:
        case ArrayType(inner) | MapType(inner):
            return inner
    raise TypeError(f"{type_} has no items")


def _null_byte(null_branch: int) -> int:
    """A union branch is a zigzag varint: branch 0 is byte 0, branch 1 is byte 2."""
    return 2 * null_branch if null_branch >= 0 else -1


def _decoding(written: AvroType, target: AvroType) -> tuple[int, int]:
    """The operation that decodes a value of a type that is not nested, and its argument."""
    match written:
        case Primitive("int", "") if pa.types.is_int64(arrow_type(target)):
            return kernel.INT_AS_LONG, 0
        case Primitive(kind):
            return _DECODE[kind], 0
        case Decimal(_, _, size):
            return kernel.DECIMAL, -1 if size is None else size
        case Fixed(size):
            return kernel.FIXED, size
        case EnumType(symbols):
            return kernel.ENUM, len(symbols)
    raise TypeError(f"no operation decodes {written}")


def _skip(opcode: int, argument: int) -> tuple[int, int]:
    """The operation that skips what this one decodes, and its argument; another operation as it is."""
    if opcode <= kernel.ENUM:
        return kernel.SKIP_VARINT, 0
    if opcode in _SKIPPED_SIZES:
        return kernel.SKIP_FIXED, _SKIPPED_SIZES[opcode]
    if opcode == kernel.TEXT or (opcode == kernel.DECIMAL and argument < 0):
        return kernel.SKIP_TEXT, 0
    if opcode in (kernel.FIXED, kernel.DECIMAL):
        return kernel.SKIP_FIXED, argument
    return opcode, argument
