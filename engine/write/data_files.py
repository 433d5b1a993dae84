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

from penstock.proto.errors import ConfigurationError
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import MAX_JSON_BYTES, parse_record_schema

_EXPECTED: Final = "expected .parquet, .arrow or .jsonl"


def read_rows(file: str) -> pa.RecordBatchReader:
    """The rows of a Parquet, Arrow (IPC) or JSON lines file, by its suffix, in batches. JSON is held in memory.

    ConfigurationError for another file, or one that is damaged or ends in the middle; also while it is read.
    """
    with _errors_of(file):
        source = _source(pathlib.Path(file))
    if source is None:
        raise ConfigurationError(f"file {file}: {_EXPECTED}")
    schema, batches = source
    return pa.RecordBatchReader.from_batches(schema, _checked(file, batches))


def _source(path: pathlib.Path) -> tuple[pa.Schema, Iterator[pa.RecordBatch]] | None:
    match path.suffix:
        case ".parquet":
            rows = dataset(path, format="parquet", partitioning="hive")
            return rows.schema, rows.to_batches(batch_readahead=2, fragment_readahead=1)
        case ".arrow":
            file = pyarrow.ipc.open_file(pa.memory_map(str(path)))
            return file.schema, map(file.get_batch, range(file.num_record_batches))
        case ".jsonl":
            table = pyarrow.json.read_json(path)
            return table.schema, iter(table.to_batches())
    return None


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
