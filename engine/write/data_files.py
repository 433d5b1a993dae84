"""Files whose rows are written, and files that hold a schema."""

from __future__ import annotations

import json
import pathlib
from typing import Final

import pyarrow as pa
import pyarrow.ipc
import pyarrow.json
import pyarrow.parquet as pq

from penstock.proto.errors import ConfigurationError
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import MAX_JSON_BYTES, parse_record_schema

_EXPECTED: Final = "expected .parquet, .arrow or .jsonl"


def read_rows(file: str) -> pa.Table:
    """The rows of a Parquet, Arrow (IPC) or JSON lines file, by its suffix. ConfigurationError for another file, or one
    that is damaged or ends in the middle."""
    path = pathlib.Path(file)
    try:
        match path.suffix:
            case ".parquet":
                return pq.read_table(path)
            case ".arrow":
                with pa.memory_map(str(path)) as source:
                    return pyarrow.ipc.open_file(source).read_all()
            case ".jsonl":
                return pyarrow.json.read_json(path)
    except FileNotFoundError:
        raise ConfigurationError(f"file {file}: there is no such file") from None
    except (pa.ArrowException, OSError) as error:
        raise ConfigurationError(f"file {file} cannot be read: {str(error)[:300]}; nothing was written") from None
    raise ConfigurationError(f"file {file}: {_EXPECTED}")


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
