"""Decodes columns of Avro records by the compiled kernel: allocates lanes, fills them, passes them to Arrow."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.value_classes import dataclass
from penstock.reader.avro.arrays import BadRecord, BadValue, booleans, decimals, floats, integers, symbols, texts
from penstock.reader.avro.nested import Cells, NestedColumns, no_cells
from penstock.reader.avro.plan import NARROW, SMALL, TEXT, KernelPlan, Lane, plan_kernel, skipping
from penstock.reader.kernels import avro as kernel
from penstock.table.schema.arrow import arrow_type
from penstock.table.schema.avro import AvroType, Decimal, EnumType, Primitive, RecordSchema

MAX_TEXT_BYTES: Final = 512 << 20
"""The most text of one call: text columns x bytes of the records. Only the part that is written takes memory."""

MAX_NESTED_BYTES: Final = 128 << 20
"""The most bytes of cells of nested values of one call. A null record in a list takes one byte, and a cell for each
field."""
_SAMPLED: Final = 16
"""Of so many records one is counted to estimate the items of all."""
_SPARE: Final = 16
"""Further items of each level, beyond the estimate, a quarter of it, and a quarter of the records."""

_DEPTHS: Final = 65
_HUGE_PAGES_BYTES: Final = 4 << 20


class TextBuffer:
    """Scratch memory of the text lanes, reused for all chunks of one block."""

    def __init__(self) -> None:
        self._buffer = np.empty((0, 0), np.uint8)

    def at_least(self, slots: int, size_bytes: int) -> np.ndarray:
        """uint8[slots or more, size_bytes or more]."""
        if self._buffer.shape[0] < slots or self._buffer.shape[1] < size_bytes:
            self._buffer = _untouched(max(slots, 1), size_bytes)
        return self._buffer


def _untouched(slots: int, size_bytes: int) -> np.ndarray:
    """uint8[slots, size_bytes] of which only pages that are written take memory.

    Each slot has room for all texts, but all slots together hold each text once. For arrays of 4 MiB and more, numpy
    asks for huge pages, which the system clears and counts as a whole: ten slots then take the texts ten times, and the
    400 slots of a wide table 100 ms and 200 MB.
    """
    if slots * size_bytes <= _HUGE_PAGES_BYTES or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return np.empty((slots, size_bytes), np.uint8)
    memory = mmap.mmap(
        -1, slots * size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    )  # by default a fork would share it
    with contextlib.suppress(OSError):  # a system without huge pages
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, np.uint8, slots * size_bytes).reshape(slots, size_bytes)


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Lanes of columns that are not nested, arguments of `kernels.avro.decode_records`."""

    wide: np.ndarray
    narrow: np.ndarray
    small: np.ndarray
    offsets: np.ndarray
    text: np.ndarray
    fill: np.ndarray
    valid: np.ndarray


class CompiledReader:
    """Reads columns of any type. Immutable."""

    def __init__(self, writer: RecordSchema, columns: Sequence[tuple[str, AvroType]]) -> None:
        """columns: name (one of the writer's), and the type to produce, `compatible` with the writer's."""
        written = writer.by_name()
        self._columns = [(name, written[name].type, arrow_type(type_)) for name, type_ in columns]
        self._plan = plan_kernel(writer, dict(columns))
        self._nested = NestedColumns(self._plan)
        self._skips = skipping(self._plan.program), skipping(self._plan.steps)

    @property
    def most_bytes(self) -> int:
        """The bytes of records that one call may read."""
        return MAX_TEXT_BYTES // max(self._plan.text_slots, 1) - kernel.OVERCOPY

    def read(
        self, data: np.ndarray, begin: np.ndarray, end: np.ndarray, buffer: TextBuffer
    ) -> tuple[int, list[pa.Array]] | None:
        """(rows, the columns in order) of the first records: all, or fewer if nested values need too many cells. None
        if the first one alone needs too many, or the records have more than `most_bytes`.

        `data` must extend `kernel.OVERRUN` bytes after every end. BadRecord or BadValue for data that does not fit the
        schema.
        """
        if int((end - begin).sum()) > self.most_bytes:
            return None
        plan = self._plan
        short = np.flatnonzero(end - begin < len(plan.program))  # each field takes a byte at least
        rows = int(short[0]) if len(short) else len(begin)
        limits, is_estimate = self._estimate(data, begin[:rows], end[:rows]), True
        while True:
            needed = self._nested.size_bytes(limits)
            if needed <= MAX_NESTED_BYTES:
                size = int((end[:rows] - begin[:rows]).sum())
                lanes = _lanes(plan, rows, buffer.at_least(plan.text_slots, size + kernel.OVERCOPY))
                cells = self._nested.cells(limits)
                bad = _run(plan.program, data, begin[:rows], end[:rows], plan.exact, lanes, cells)
                if bad >= -1 or not is_estimate:
                    break
            elif not is_estimate:
                if rows == 1:
                    return None
                rows = max(1, min(rows // 2, rows * MAX_NESTED_BYTES // needed))
            limits, is_estimate = self._count(data, begin[:rows], end[:rows]), False
        if bad != -1 or (len(short) and rows == short[0]):
            raise BadRecord(rows if bad == -1 else max(bad, -2 - bad), "does not fit its schema")
        return rows, self._arrays(rows, lanes, cells)

    def _estimate(self, data: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Limits of the levels that the records hardly exceed, by a sample."""
        if len(begin) <= _SAMPLED or not self._plan.has_items:
            return self._count(data, begin, end)
        limits = self._count(data, begin[::_SAMPLED], end[::_SAMPLED]) * (_SAMPLED + _SAMPLED // 4)
        limits += len(begin) // 4 + _SPARE
        limits[0] = len(begin)
        return limits

    def _count(self, data: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """The number of values of each level, up to the first record that is invalid."""
        items = np.zeros(self._plan.levels, np.int64)
        if self._plan.has_items:
            program, steps = self._skips
            lanes, cells = _lanes(None, 0, np.empty((0, 0), np.uint8)), no_cells(self._plan, steps)
            _run(program, data, begin, end, False, lanes, cells, items)
        items[0] = len(begin)
        return items

    def _arrays(self, rows: int, lanes: _Lanes, cells: Cells) -> list[pa.Array]:
        bitmaps = np.packbits(lanes.valid, axis=1, bitorder="little")
        full = np.asarray(lanes.valid.all(axis=1))
        arrays = []
        for name, type_, target in self._columns:
            lane = self._plan.lanes.get(name)
            try:
                if lane is None:
                    arrays.append(self._nested.array(name, rows, cells, lanes.text))
                else:
                    validity = None if full[lane.column] else pa.py_buffer(bitmaps[lane.column])
                    arrays.append(_flat(type_, target, lane, validity, lanes))
            except BadValue as bad_value:
                raise BadValue(f"column {name}: {bad_value}") from None
        return arrays


class StructureCheck:
    """Checks whole records of any schema without decoding them, before a slower reader does."""

    def __init__(self, writer: RecordSchema) -> None:
        self._plan = plan_kernel(writer, {}, whole_record=True)

    def check(self, data: np.ndarray, begin: np.ndarray, end: np.ndarray) -> None:
        """BadRecord for the first record that does not end where its last field does. `data` as for
        `CompiledReader.read`."""
        plan, lanes = self._plan, _lanes(None, 0, np.empty((0, 0), np.uint8))
        cells = no_cells(plan, plan.steps)
        bad = _run(plan.program, data, begin, end, True, lanes, cells)
        if bad >= 0:
            raise BadRecord(bad, "does not fit its schema")


def _lanes(plan: KernelPlan | None, rows: int, text: np.ndarray) -> _Lanes:
    """Lanes for so many rows of a plan; without a plan for nothing."""
    wide, narrow, small, texts_, columns = (
        (plan.wide_slots, plan.narrow_slots, plan.small_slots, plan.text_slots, len(plan.lanes)) if plan else (0,) * 5
    )
    return _Lanes(
        np.zeros((wide, rows), np.int64),
        np.zeros((narrow, rows), np.int32),
        np.zeros((small, rows), np.uint8),
        np.zeros((texts_, rows + 1), np.int32),
        text,
        np.zeros(texts_, np.int64),
        np.ones((columns, rows), np.uint8),
    )


def _run(
    program: np.ndarray,
    data: np.ndarray,
    begin: np.ndarray,
    end: np.ndarray,
    exact: bool,
    lanes: _Lanes,
    cells: Cells,
    items: np.ndarray | None = None,
) -> int:
    """`kernels.avro.decode_records`, always with arrays of the same types, so that it is compiled once. Fills lanes and
    cells, and counts `items`."""
    return int(
        kernel.decode_records(
            frozen(data),
            frozen(begin),
            frozen(end),
            program,
            exact,
            (lanes.wide, lanes.narrow, lanes.small, lanes.offsets, lanes.text, lanes.fill, lanes.valid),
            cells.steps,
            np.empty(_DEPTHS, np.int64),
            np.zeros(len(cells.limits), np.int64) if items is None else items,
            cells.limits,
            (cells.wide, cells.narrow, cells.small),
        )
    )


def frozen(array: np.ndarray) -> np.ndarray:
    """The same values, read-only and contiguous: numba compiles again for other arrays."""
    array = np.ascontiguousarray(array)[:]
    array.flags.writeable = False
    return array


def _flat(type_: AvroType, target: pa.DataType, lane: Lane, validity: pa.Buffer | None, lanes: _Lanes) -> pa.Array:
    rows = lanes.valid.shape[1]
    if lane.name == TEXT:
        content = pa.py_buffer(lanes.text[lane.slot, : lanes.fill[lane.slot]].tobytes())
        return texts(pa.py_buffer(lanes.offsets[lane.slot]), content, rows, validity, target)
    if lane.name == SMALL:
        return booleans(lanes.small[lane.slot], validity)
    values = lanes.narrow if lane.name == NARROW else lanes.wide
    match type_:
        case Decimal():
            return decimals(np.stack((values[lane.slot], values[lane.slot + 1]), axis=1), validity, target)
        case EnumType(names):
            return symbols(values[lane.slot], validity, names)
        case Primitive("float" | "double"):
            return floats(pa.py_buffer(values[lane.slot]), rows, validity, target)
        case Primitive():
            return integers(values[lane.slot], validity, type_, target)
        case _:
            raise TypeError(f"{type_} has no numbers")
