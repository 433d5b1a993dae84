"""Arrow arrays of nested columns from the cells that the kernel writes.

The values of all records form a level, and so do the items of all values of one array or map type. Each value that is
decoded has a run of cells, as many as its level has values, in one of three arrays by the width of the cells. The
limits of items are known before the cells are made, so that memory is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.value_classes import dataclass
from penstock.reader.avro.arrays import booleans, decimals, floats, integers, symbols, texts
from penstock.reader.avro.plan import NARROW, SKIPPED_LEVEL, SMALL, WIDE, KernelPlan, NestedValue
from penstock.reader.kernels import avro as kernel
from penstock.table.schema.avro import ArrayType, Decimal, EnumType, MapType, Primitive, RecordType

_SAMPLE_NULLS: Final = 64
_BYTES: Final = {WIDE: 8, NARROW: 4, SMALL: 1}


@dataclass(frozen=True, slots=True)
class _Run:
    """The cells of one step."""

    step: int
    """The step that writes them."""
    kind: str
    """The array that has them."""
    level: int
    """The level of the values."""
    cells: int = 1
    """Cells of a value."""
    more: int = 0
    """Cells at the end: ends of texts and lists have one more."""
    bytes: int = 0
    """Bytes of a value in the Arrow array, beyond its cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Cells of one call of the kernel; its arguments."""

    limits: np.ndarray
    """The most items of each level (int64[levels]). Level 0 has as many values as there are records."""
    steps: np.ndarray
    """The plan's steps with their places (int64[steps, 6])."""
    wide: np.ndarray
    """int64[1, cells], zeros."""
    narrow: np.ndarray
    """int32[1, cells], zeros."""
    small: np.ndarray
    """uint8[1, cells], zeros."""


class NestedColumns:
    """The nested columns of a plan. Immutable."""

    def __init__(self, plan: KernelPlan) -> None:
        self._plan = plan
        self._runs = [run for value in plan.nested.values() for run in _runs(value)]
        self._absent = [absent for value in plan.nested.values() for absent in _null_bytes(value)]

    def size_bytes(self, limits: np.ndarray) -> int:
        """The bytes of cells, of symbols, and of nulls that the writer does not have, for so many values of each
        level."""
        cells = sum(int(limits[run.level]) * (run.cells * _BYTES[run.kind] + run.bytes) for run in self._runs)
        return cells + sum(int(limits[level]) * size for level, size in self._absent)

    def cells(self, limits: np.ndarray) -> Cells:
        """Cells for so many values of each level, and for one that exceeds the limit."""
        limits = limits.copy()
        limits[SKIPPED_LEVEL] = kernel.FAR
        steps = self._plan.steps.copy()
        used = dict.fromkeys(_BYTES, 0)
        for run in self._runs:
            steps[run.step, kernel.PLACE] = used[run.kind]
            used[run.kind] += (int(limits[run.level]) + 1) * run.cells + run.more
        return Cells(
            limits=limits,
            steps=steps,
            wide=np.zeros((1, used[WIDE]), np.int64),
            narrow=np.zeros((1, used[NARROW]), np.int32),
            small=np.zeros((1, used[SMALL]), np.uint8),
        )

    def array(self, name: str, rows: int, cells: Cells, text: np.ndarray) -> pa.Array:
        """A column of so many rows, after the kernel has filled cells and text slots. BadValue for a value that its
        type does not allow."""
        return _Filled(cells, text).array(self._plan.nested[name], rows, None)


def no_cells(plan: KernelPlan, steps: np.ndarray) -> Cells:
    """For a run of steps that skip, and count items without a limit."""
    return Cells(
        limits=np.full(plan.levels, kernel.FAR, np.int64),
        steps=steps,
        wide=np.zeros((1, 0), np.int64),
        narrow=np.zeros((1, 0), np.int32),
        small=np.zeros((1, 0), np.uint8),
    )


@dataclass(frozen=True, slots=True)
class _Filled:
    cells: Cells
    text: np.ndarray

    def array(self, value: NestedValue, rows: int, record_present: np.ndarray | None) -> pa.Array:
        """`record_present`: which of the records that contain the value are not null (uint8), None for all."""
        present = record_present
        if value.union >= 0:
            own = 1 - self._run(self.cells.small, value.union, rows)
            present = own if record_present is None else own & record_present
        if present is not None and present.all():
            present = None
        validity = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))
        match value.written:
            case RecordType():
                children = [
                    pa.nulls(rows, field.type) if child is None else self.array(child, rows, present)
                    for child, field in zip(value.children, value.target, strict=True)
                ]
                return pa.Array.from_buffers(value.target, rows, [validity], children=children)
            case ArrayType() | MapType():
                ends = self._ends(value, rows)
                children = [self.array(child, int(ends[-1]), None) for child in value.children if child is not None]
                if isinstance(value.written, MapType):
                    fields = [value.target.key_field, value.target.item_field]
                    children = [pa.StructArray.from_arrays(children, fields=fields)]
                return pa.Array.from_buffers(value.target, rows, [validity, pa.py_buffer(ends)], children=children)
        return self._flat(value, rows, validity)

    def _flat(self, value: NestedValue, rows: int, validity: pa.Buffer | None) -> pa.Array:
        cells, target = self.cells, value.target
        match value.written:
            case Primitive("boolean"):
                return booleans(self._run(cells.small, value.step, rows), validity)
            case Decimal():
                halves = self._run(cells.wide, value.step, 2 * rows).reshape(-1, 2)
                return decimals(halves, validity, target)
            case EnumType(names):
                return symbols(self._run(cells.narrow, value.step, rows), validity, names)
            case Primitive("float" | "double"):
                return floats(pa.py_buffer(self._numbers(value, rows)), rows, validity, target)
            case Primitive("int" | "long") as written:
                return integers(self._numbers(value, rows), validity, written, target)
        ends = self._ends(value, rows)
        content = pa.py_buffer(self.text[value.slot, : ends[-1]].tobytes())
        return texts(pa.py_buffer(ends), content, rows, validity, target)

    def _numbers(self, value: NestedValue, rows: int) -> np.ndarray:
        return self._run(self.cells.wide if value.lane == WIDE else self.cells.narrow, value.step, rows)

    def _ends(self, value: NestedValue, rows: int) -> np.ndarray:
        """Arrow's offsets. The kernel writes no end for a null: it is that of the value before."""
        ends = self._run(self.cells.narrow, value.step, rows + 1)
        return np.maximum.accumulate(ends, out=ends)

    def _run(self, cells: np.ndarray, step: int, size: int) -> np.ndarray:
        first = int(self.cells.steps[step, kernel.PLACE])
        return np.asarray(cells[0, first : first + size])


def _runs(value: NestedValue) -> Iterator[_Run]:
    """The cells of a value and of those in it."""
    if value.union >= 0:
        yield _Run(value.union, SMALL, value.level)
    match value.written:
        case RecordType():
            pass
        case Decimal():
            yield _Run(value.step, WIDE, value.level, cells=2)
        case EnumType(names):
            yield _Run(value.step, NARROW, value.level, bytes=max(len(name.encode()) for name in names))
        case _ if value.lane in (WIDE, NARROW, SMALL):
            yield _Run(value.step, value.lane, value.level)
        case _:
            yield _Run(value.step, NARROW, value.level, more=1)
    for child in value.children:
        if child is not None:
            yield from _runs(child)


def _null_bytes(value: NestedValue) -> Iterator[tuple[int, int]]:
    """(level, bytes of a null) of each field that the writer does not have: Arrow's nulls of most types take memory."""
    for place, child in enumerate(value.children):
        if child is not None:
            yield from _null_bytes(child)
        else:
            yield value.level, pa.nulls(_SAMPLE_NULLS, value.target.field(place).type).nbytes // _SAMPLE_NULLS + 1
