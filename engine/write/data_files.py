"""Files whose rows are written, and files that hold a schema."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.ipc
import pyarrow.json
import pyarrow.parquet as pq
from pyarrow.dataset import dataset

from penstock.engine.write.current_table import current_table
from penstock.proto.errors import ConfigurationError
from penstock.table.config.properties import load_properties
from penstock.table.hudi_table import HudiTable
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import MAX_JSON_BYTES, META_COLUMNS, OPERATION, parse_record_schema
from penstock.table.storage.local_writes import open_writable

_JSON: Final = ".jsonl"
_EXPECTED: Final = "expected .parquet, .arrow or .jsonl"


def is_json(file: str) -> bool:
    """Whether the file has no types of its own."""
    return pathlib.Path(file).suffix == _JSON


def read_rows(file: str, columns: pa.Schema | None = None) -> pa.RecordBatchReader:
    """The rows of a Parquet, Arrow (IPC) or JSON lines file, by its suffix, in batches. JSON is held in memory.

    columns: the table's, for JSON: its values are read as values of these types, and others by their look. A date is
    text such as "2024-01-31", a timestamp also with an offset, a decimal is a number or text. Columns of maps, and
    nested ones with dates, are read by their look.

    ConfigurationError for another file, or one that is damaged or ends in the middle; also while it is read.
    """
    with _errors_of(file):
        source = _source(pathlib.Path(file), columns or pa.schema([]))
    if source is None:
        raise ConfigurationError(f"file {file}: {_EXPECTED}")
    schema, batches = source
    return pa.RecordBatchReader.from_batches(schema, _checked(file, batches))


def _source(path: pathlib.Path, columns: pa.Schema) -> tuple[pa.Schema, Iterator[pa.RecordBatch]] | None:
    match path.suffix:
        case ".parquet":
            partitioning = "hive" if path.is_dir() else None  # the folders of a single file name no columns
            rows = dataset(path, format="parquet", partitioning=partitioning)
            return rows.schema, rows.to_batches(batch_readahead=2, fragment_readahead=1)
        case ".arrow":
            file = pyarrow.ipc.open_file(pa.memory_map(str(path)))
            return file.schema, map(file.get_batch, range(file.num_record_batches))
        case ".jsonl":
            table = _json_rows(path, columns)
            return table.schema, iter(table.to_batches())
    return None


def _json_rows(path: pathlib.Path, columns: pa.Schema) -> pa.Table:
    known = [field for field in columns if _is_read(field.type)]
    dates = [field.name for field in known if pa.types.is_date(field.type)]
    types = pa.schema([field.with_type(pa.string()) if field.name in dates else field for field in known])
    rows = pyarrow.json.read_json(path, parse_options=pyarrow.json.ParseOptions(explicit_schema=types))
    for name in dates:
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, rows.column(name).cast(pa.date32()))
    return rows


def _is_read(kind: pa.DataType, *, nested: bool = False) -> bool:
    """Whether Arrow's JSON reader reads values of a type; dates in JSON text are read as text first."""
    if pa.types.is_struct(kind):
        return all(_is_read(field.type, nested=True) for field in kind)
    if pa.types.is_list(kind):
        return _is_read(kind.value_type, nested=True)
    return not (pa.types.is_map(kind) or (nested and pa.types.is_date(kind)))


def _checked(file: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with _errors_of(file):
        yield from batches


@contextmanager
def _errors_of(file: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise ConfigurationError(f"file {file}: there is no such file") from None
    except (pa.ArrowException, OSError) as error:
        raise ConfigurationError(f"file {file} cannot be read: {str(error)[:300]}; nothing was written") from None


def table_columns(path: str) -> pa.Schema:
    """The columns of the table at `path`, without meta columns; none for a table without a schema. Errors of
    `penstock.write`."""
    storage = open_writable(path)
    record = current_table(HudiTable(storage, load_properties(storage))).record
    names = (*META_COLUMNS, OPERATION)
    return pa.schema([field for field in arrow_schema(record) if field.name not in names] if record else [])


def read_schema(file: str) -> pa.Schema:
    """The columns of a Parquet or Arrow file, or of an Avro schema (.avsc, .json). Errors as `read_rows`."""
    path = pathlib.Path(file)
    if path.suffix in (".avsc", ".json"):
        try:
            text = path.read_bytes()[: MAX_JSON_BYTES + 1].decode()
            json.loads(text)
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"file {file} is no Avro schema: {error}") from None
        return arrow_schema(parse_record_schema(text, f"file {file}"))
    try:
        if path.suffix == ".parquet":
            return pq.read_schema(path)
        if path.suffix == ".arrow":
            with pa.memory_map(str(path)) as source:
                return pyarrow.ipc.open_file(source).schema
    except FileNotFoundError:
        raise ConfigurationError(f"file {file}: there is no such file") from None
    except (pa.ArrowException, OSError) as error:
        raise ConfigurationError(f"file {file} cannot be read: {str(error)[:300]}") from None
    raise ConfigurationError(f"file {file}: expected .parquet, .arrow or an Avro schema (.avsc)")
