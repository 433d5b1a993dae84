"""The Parquet of base files and log blocks: codec, encodings, types.

Source: Hudi's default codec is gzip, and parquet-mr (`FallbackValuesWriter`) encodes a column with a dictionary only if
its first page becomes smaller. Arrow keeps a dictionary up to 1 MB, which makes columns of distinct values larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

AVRO_SCHEMA: Final = "parquet.avro.schema"
"""Footer key of the Avro schema."""
COMPRESSION: Final = "zstd"
"""The codec. It needs a thirtieth of the processor time of gzip, and fewer bytes."""
_LEVEL: Final = 3
_SAMPLE_ROWS: Final = 20_000
"""Rows that determine the encodings: those of a page of parquet-mr."""


def parquet_writer(
    sink: BinaryIO | pa.NativeFile, first_rows: pa.Table, statistics: bool | Sequence[str] = True
) -> pq.ParquetWriter:
    """A writer of Parquet as Hudi reads it: timestamps of microseconds, no INT96, and user metadata that pyarrow keeps
    (without the Arrow schema it drops them).

    first_rows: with the columns of the file; its rows determine which columns have a dictionary. statistics: whether
    the footer has those of all columns, or the columns whose statistics it has.
    """
    return pq.ParquetWriter(
        sink,
        first_rows.schema,
        compression=COMPRESSION,
        compression_level=_LEVEL,
        use_dictionary=list(dictionary_columns(first_rows)),
        write_statistics=statistics,
        store_schema=False,
        version="2.6",
        coerce_timestamps="us",
        use_deprecated_int96_timestamps=False,
    )


def dictionary_columns(rows: pa.Table) -> Iterator[str]:
    """The paths of the Parquet columns that have a dictionary: those whose values repeat in the first rows, and all
    nested ones."""
    sample = rows.slice(0, _SAMPLE_ROWS)
    for field, column in zip(sample.schema, sample.columns, strict=True):
        if pa.types.is_nested(field.type):
            yield from _leaves(field.name, field.type)
        elif 2 * pc.count_distinct(column, mode="all").as_py() <= len(column):
            yield field.name


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """The paths of the Parquet columns of a nested type."""
    if pa.types.is_struct(kind):
        for child in kind:
            yield from _leaves(f"{path}.{child.name}", child.type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path
