"""Decodes flat columns of Avro records by the compiled kernel: allocates lanes, fills them, passes them to Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.reader.avro.arrays import BadRecord, BadValue, booleans, decimals, floats, integers, symbols, texts
from penstock.reader.avro.plan import KernelPlan, Lane, plan_kernel
from penstock.reader.kernels import avro as kernel
from penstock.table.schema.avro import AvroType, Decimal, EnumType, Primitive, RecordSchema

MAX_TEXT_BYTES: Final = 512 << 20
"""The most text of one call: text columns x bytes of the records. Only the part that is written takes memory."""

_NO_COLUMNS: Final[Mapping[str, bool]] = {}
_LEVELS: Final = 65


class TextBuffer:
    """Scratch memory of the text lanes, reused for all chunks of one block."""

    def __init__(self) -> None:
        self._buffer = np.empty((0, 0), np.uint8)

    def at_least(self, slots: int, size_bytes: int) -> np.ndarray:
        """uint8[slots or more, size_bytes or more]."""
        if self._buffer.shape[0] < slots or self._buffer.shape[1] < size_bytes:
            self._buffer = np.empty((max(slots, 1), size_bytes), np.uint8)
        return self._buffer


class CompiledReader:
    """Reads columns that the kernel can decode. Immutable."""

    def __init__(self, writer: RecordSchema, columns: Sequence[tuple[str, AvroType, pa.DataType]]) -> None:
        """columns: name, the writer's type (flat), the Arrow type to produce."""
        self._columns = tuple(columns)
        self._plan = plan_kernel(
            writer, {name: type_ == Primitive("int") and pa.types.is_int64(target) for name, type_, target in columns}
        )

    @property
    def most_bytes(self) -> int:
        """The bytes of records that one call may read."""
        return MAX_TEXT_BYTES // max(self._plan.text_slots, 1) - kernel.OVERCOPY

    def read(self, data: np.ndarray, begin: np.ndarray, end: np.ndarray, buffer: TextBuffer) -> list[pa.Array]:
        """The columns, in order. `data` must extend `kernel.OVERRUN` bytes after every end.

        BadRecord or BadValue for data that does not fit the schema.
        """
        short = np.flatnonzero(end - begin < len(self._plan.program))  # each field takes a byte at least
        if len(short):
            begin, end = begin[: short[0]], end[: short[0]]
        plan, rows = self._plan, len(begin)
        wide = np.zeros((plan.wide_slots, rows), np.int64)
        narrow = np.zeros((plan.narrow_slots, rows), np.int32)
        small = np.zeros((plan.small_slots, rows), np.uint8)
        offsets = np.zeros((plan.text_slots, rows + 1), np.int32)
        text = buffer.at_least(plan.text_slots, int((end - begin).sum()) + kernel.OVERCOPY)
        fill = np.zeros(plan.text_slots, np.int64)
        valid = np.ones((len(plan.lanes), rows), np.uint8)
        bad = run_kernel(plan, data, begin, end, (wide, narrow, small, offsets, text, fill, valid))
        if bad >= 0 or len(short):
            raise BadRecord(bad if bad >= 0 else int(short[0]), "does not fit its schema")
        bitmaps = np.packbits(valid, axis=1, bitorder="little")
        full = np.asarray(valid.all(axis=1))
        arrays = []
        for name, type_, target in self._columns:
            lane = plan.lanes[name]
            validity = None if full[lane.column] else pa.py_buffer(bitmaps[lane.column])
            try:
                match lane.name:
                    case "text":
                        content = pa.py_buffer(text[lane.slot, : fill[lane.slot]].tobytes())
                        arrays.append(texts(pa.py_buffer(offsets[lane.slot]), content, rows, validity, target))
                    case "small":
                        arrays.append(booleans(small[lane.slot], validity))
                    case _:
                        arrays.append(
                            _numbers(type_, target, lane, validity, narrow if lane.name == "narrow" else wide)
                        )
            except BadValue as bad_value:
                raise BadValue(f"column {name}: {bad_value}") from None
        return arrays


class StructureCheck:
    """Checks whole records of any schema without decoding them, before a slower reader does."""

    def __init__(self, writer: RecordSchema) -> None:
        self._plan = plan_kernel(writer, _NO_COLUMNS, whole_record=True)

    def check(self, data: np.ndarray, begin: np.ndarray, end: np.ndarray) -> None:
        """BadRecord for the first record that does not end where its last field does. `data` as for
        `CompiledReader.read`."""
        nothing = np.zeros((0, 0), np.int64), np.zeros((0, 0), np.int32), np.zeros((0, 0), np.uint8)
        text = np.zeros((0, 0), np.int32), np.empty((0, 0), np.uint8), np.zeros(0, np.int64), np.ones((0, 0), np.uint8)
        bad = run_kernel(self._plan, data, begin, end, (*nothing, *text))
        if bad >= 0:
            raise BadRecord(bad, "does not fit its schema")


def run_kernel(
    plan: KernelPlan, data: np.ndarray, begin: np.ndarray, end: np.ndarray, lanes: tuple[np.ndarray, ...]
) -> int:
    """`kernels.avro.decode_records`, always with arrays of the same types, so that it is compiled once."""
    left = np.empty(_LEVELS, np.int64)
    return int(
        kernel.decode_records(
            frozen(data), frozen(begin), frozen(end), plan.program, plan.exact, plan.steps, left, *lanes
        )
    )


def frozen(array: np.ndarray) -> np.ndarray:
    """The same values, read-only and contiguous: numba compiles again for other arrays."""
    array = np.ascontiguousarray(array)[:]
    array.flags.writeable = False
    return array


def _numbers(
    type_: AvroType, target: pa.DataType, lane: Lane, validity: pa.Buffer | None, values: np.ndarray
) -> pa.Array:
    match type_:
        case Decimal():
            return decimals(np.stack((values[lane.slot], values[lane.slot + 1]), axis=1), validity, target)
        case EnumType(names):
            return symbols(values[lane.slot], validity, names)
        case Primitive("float" | "double"):
            return floats(pa.py_buffer(values[lane.slot]), values.shape[1], validity, target)
        case Primitive():
            return integers(values[lane.slot], validity, type_, target)
        case _:
            raise TypeError(f"{type_} has no numbers")
