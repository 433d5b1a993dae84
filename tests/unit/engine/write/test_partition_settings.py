"""The form of time partitions: recorded by the table, or given to a write."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigurationError

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64())])
ROWS = pa.table({"id": ["a"], "ts": [0]}, schema=SCHEMA)
TIMES = {"timestamp.type": "UNIX_TIMESTAMP", "output.dateformat": "yyyy-MM"}


def table(path: pathlib.Path, **settings: object) -> str:
    penstock.create_table(str(path), SCHEMA, record_key="id", partition_by="ts", buckets=1, **settings)  # type: ignore[arg-type]
    return str(path)


def test_given_options_may_repeat_recorded_ones(tmp_path: pathlib.Path) -> None:
    path = table(tmp_path / "t", key_generator="TIMESTAMP", time_partitions=TIMES)
    prefixed = {f"hoodie.keygen.timebased.{name}": value for name, value in TIMES.items()}
    for options in (None, TIMES, prefixed):
        assert penstock.write(path, ROWS, time_partitions=options).partitions == ("1970-01",)


def test_option_that_differs_from_recorded_one_is_refused(tmp_path: pathlib.Path) -> None:
    path = table(tmp_path / "t", key_generator="TIMESTAMP", time_partitions=TIMES)
    with pytest.raises(ConfigurationError, match=r"output\.dateformat='yyyy', and the table records 'yyyy-MM'"):
        penstock.write(path, ROWS, time_partitions={**TIMES, "output.dateformat": "yyyy"})
    assert penstock.read(path).read_all().num_rows == 0


def test_options_for_table_without_times_are_refused(tmp_path: pathlib.Path) -> None:
    path = table(tmp_path / "t")
    with pytest.raises(ConfigurationError, match="no partition column of the table is a TIMESTAMP"):
        penstock.write(path, ROWS, time_partitions=TIMES)
