"""Compiles a writer schema and the requested columns to the kernel's opcode table. Done once per schema; pure.

This module decides which opcode decodes or skips a type, and which lane holds it. `kernels.avro` executes the table,
`compiled` passes the lanes to Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from penstock.reader.kernels import avro as kernel
from penstock.table.schema.avro import (
    ArrayType,
    AvroField,
    AvroType,
    Decimal,
    EnumType,
    Fixed,
    MapType,
    Primitive,
    RecordSchema,
    RecordType,
    Vector,
)

FLAT = Primitive | Decimal | Fixed | EnumType

_WIDE, _NARROW, _SMALL, _TEXT = "wide", "narrow", "small", "text"
_LANES = {
    kernel.LONG: _WIDE,
    kernel.INT: _NARROW,
    kernel.INT_AS_LONG: _WIDE,
    kernel.ENUM: _NARROW,
    kernel.DOUBLE: _WIDE,
    kernel.FLOAT: _NARROW,
    kernel.BOOLEAN: _SMALL,
    kernel.TEXT: _TEXT,
    kernel.FIXED: _TEXT,
    kernel.DECIMAL: _WIDE,
}
_DECODE = {
    "boolean": kernel.BOOLEAN,
    "int": kernel.INT,
    "long": kernel.LONG,
    "float": kernel.FLOAT,
    "double": kernel.DOUBLE,
    "bytes": kernel.TEXT,
    "string": kernel.TEXT,
}
_SKIP = {
    "boolean": (kernel.SKIP_FIXED, 1),
    "int": (kernel.SKIP_VARINT, 0),
    "long": (kernel.SKIP_VARINT, 0),
    "float": (kernel.SKIP_FIXED, 4),
    "double": (kernel.SKIP_FIXED, 8),
    "bytes": (kernel.SKIP_TEXT, 0),
    "string": (kernel.SKIP_TEXT, 0),
}
_STEPS = {
    kernel.SKIP_VARINT: kernel.STEP_VARINT,
    kernel.SKIP_TEXT: kernel.STEP_TEXT,
    kernel.SKIP_FIXED: kernel.STEP_FIXED,
}


@dataclass(frozen=True, slots=True)
class Lane:
    """The lane of a requested column."""

    name: str
    """wide, narrow, small or text."""
    slot: int
    """Its slot in the lane."""
    column: int
    """Its row of `valid`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPlan:
    """The arguments of `kernels.avro.decode_records`, and the lane of each requested column."""

    program: np.ndarray
    """The opcodes, one per field (int64[fields, 5])."""
    steps: np.ndarray
    """The steps that skip nested fields (int64[steps, 3])."""
    exact: bool
    """Whether the program covers every field of the record, not only those up to the last requested one."""
    lanes: Mapping[str, Lane]
    """By column."""
    wide_slots: int
    """Number of slots of the lane wide."""
    narrow_slots: int
    """Number of slots of the lane narrow."""
    small_slots: int
    """Number of slots of the lane small."""
    text_slots: int
    """Number of slots of the lane text."""


def plan_kernel(writer: RecordSchema, columns: Mapping[str, bool], *, whole_record: bool = False) -> KernelPlan:
    """The program that decodes the `columns` of `writer`, which must be FLAT, and skips the others.

    columns: column name -> whether an int becomes a long. The program stops after the last requested field unless
    `whole_record`. Nested fields in between are skipped.
    """
    program: list[tuple[int, int, int, int, int]] = []
    steps: list[tuple[int, int, int]] = []
    lanes: dict[str, Lane] = {}
    used = {_WIDE: 0, _NARROW: 0, _SMALL: 0, _TEXT: 0}
    length = 0
    for field in writer.fields:
        if field.name in columns:
            opcode, argument = _decoding(field.type, columns[field.name])
            lane = Lane(_LANES[opcode], used[_LANES[opcode]], len(lanes))
            used[lane.name] += 2 if opcode == kernel.DECIMAL else 1
            lanes[field.name] = lane
            program.append((opcode, _null_byte(field), lane.slot, lane.column, argument))
            length = len(program)
        else:
            opcode, argument = _skipping(field.type, steps)
            program.append((opcode, _null_byte(field), 0, -1, argument))
    if whole_record:
        length = len(program)
    return KernelPlan(
        program=np.array(program[:length], np.int64).reshape(-1, 5),
        steps=np.array(steps, np.int64).reshape(-1, 3),
        exact=length == len(program),
        lanes=lanes,
        wide_slots=used[_WIDE],
        narrow_slots=used[_NARROW],
        small_slots=used[_SMALL],
        text_slots=used[_TEXT],
    )


def _null_byte(field: AvroField) -> int:
    """A union branch is a zigzag varint: branch 0 is byte 0, branch 1 is byte 2."""
    return 2 * field.null_branch if field.nullable else -1


def _decoding(avro_type: AvroType, to_long: bool) -> tuple[int, int]:
    match avro_type:
        case Primitive("int") if to_long:
            return kernel.INT_AS_LONG, 0
        case Primitive(kind):
            return _DECODE[kind], 0
        case Decimal(_, _, size):
            return kernel.DECIMAL, -1 if size is None else size
        case Fixed(size):
            return kernel.FIXED, size
        case Vector():
            return kernel.FIXED, avro_type.size
        case EnumType(symbols):
            return kernel.ENUM, len(symbols)
        case ArrayType() | MapType() | RecordType():
            raise TypeError(f"no opcode decodes {avro_type}")


def _skipping(avro_type: AvroType, steps: list[tuple[int, int, int]]) -> tuple[int, int]:
    """The opcode and argument that skip a value; the steps of a nested value are added to `steps`."""
    match avro_type:
        case Primitive(kind):
            return _SKIP[kind]
        case EnumType():
            return kernel.SKIP_VARINT, 0
        case Decimal(_, _, None):
            return kernel.SKIP_TEXT, 0
        case Decimal(_, _, int(size)) | Fixed(size):
            return kernel.SKIP_FIXED, size
        case Vector():
            return kernel.SKIP_FIXED, avro_type.size
        case _:
            first = len(steps)
            _add_steps(avro_type, steps)
            steps.append((kernel.STEP_END, 0, 0))
            return kernel.SKIP_NESTED, first


def _add_steps(avro_type: AvroType, steps: list[tuple[int, int, int]]) -> None:
    match avro_type:
        case RecordType(fields):
            for field in fields:
                _add_slot(field.type, field.null_branch, steps)
        case ArrayType(inner, null_branch) | MapType(inner, null_branch):
            loop = len(steps)
            steps.append((kernel.STEP_BLOCK, 0, 0))
            if isinstance(avro_type, MapType):
                steps.append((kernel.STEP_TEXT, 0, 0))
            _add_slot(inner, null_branch, steps)
            steps.append((kernel.STEP_ITEM_END, loop, 0))
            steps[loop] = (kernel.STEP_BLOCK, len(steps), 0)
        case _:
            opcode, argument = _skipping(avro_type, steps)
            steps.append((_STEPS[opcode], argument, 0))


def _add_slot(avro_type: AvroType, null_branch: int, steps: list[tuple[int, int, int]]) -> None:
    union = len(steps)
    if null_branch >= 0:
        steps.append((kernel.STEP_UNION, 0, 0))
    _add_steps(avro_type, steps)
    if null_branch >= 0:
        steps[union] = (kernel.STEP_UNION, 2 * null_branch, len(steps))
