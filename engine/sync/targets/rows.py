"""Rows and layouts as targets store them. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.sync.layout import TargetLayout
from penstock.proto.errors import SchemaMismatch
from penstock.reader.values.struct_offsets import without_struct_offsets

DATES_WITH_A_SIGN: Final = (
    "a date outside of the years 1 to 9999 cannot become the text that Hudi reads: load the table again (--restart)"
)
_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896


def aligned(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly these columns: in their order, with their types, null where the batch has no column.

    A value is cast only along the widenings of `penstock.engine.sync.layout.widens`.
    """
    arrays = []
    for one in columns:
        index = batch.schema.get_field_index(one.name)
        if index < 0:
            arrays.append(pa.nulls(batch.num_rows, one.type))
            continue
        array = batch.column(index)
        # a whole number that a float does not hold exactly is rounded, as Hudi does
        check_text_of_dates(array, one.type)
        is_rounded = pa.types.is_integer(array.type) and pa.types.is_floating(one.type)
        arrays.append(array if array.type == one.type else pc.cast(array, one.type, safe=not is_rounded))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([pa.field(one.name, one.type) for one in columns]))


def check_text_of_dates(values: pa.Array | pa.ChunkedArray, to: pa.DataType) -> None:
    """SchemaMismatch for dates outside of the years 1 to 9999 that would become text: Hudi writes them with a sign."""
    if pa.types.is_date32(values.type) and pa.types.is_string(to):
        days = pc.min_max(pc.cast(values, pa.int32())).as_py()
        if days["min"] is not None and not _FIRST_DAY <= days["min"] <= days["max"] <= _LAST_DAY:
            raise SchemaMismatch(DATES_WITH_A_SIGN)


class AlignedRows:
    """Batches with exactly these columns. An error of their source is kept, because libraries hide its class."""

    def __init__(self, batches: Iterable[pa.RecordBatch], columns: pa.Schema) -> None:
        self._batches, self._columns = batches, columns
        self.error: BaseException | None = None
        """The error of the source."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._batches:
                yield without_struct_offsets(aligned(batch, self._columns))
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error
            raise


def key_text(names: Iterable[str], values: Iterable[object]) -> str:
    """A key for people."""
    return ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))[:300]


def layout_text(layout: TargetLayout) -> str:
    """A layout as JSON."""
    columns = base64.b64encode(layout.columns.serialize().to_pybytes()).decode()
    return json.dumps({"columns": columns, "key": layout.key, "source_column": layout.source_column})


def parsed_layout(text: str) -> TargetLayout:
    """The layout of `layout_text`. ValueError, KeyError, TypeError or pyarrow.ArrowException for another text."""
    values = json.loads(text)
    columns = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(values["columns"])))
    return TargetLayout(columns, tuple(values["key"]), values["source_column"])


def null_patterns(keys: pa.Table) -> list[frozenset[str]]:
    """The sets of columns that are null together in some row."""
    names = keys.column_names
    valid = pa.table({str(index): pc.is_valid(column) for index, column in enumerate(keys.columns)})
    patterns = valid.group_by(valid.column_names).aggregate([]).to_pylist()
    return [frozenset(names[int(index)] for index, value in one.items() if not value) for one in patterns]
