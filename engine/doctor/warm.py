"""Compiles all kernels into their cache, before a read or a write needs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.reader.kernels import cache
from penstock.table.schema.avro import parse_record_schema

_SCHEMA = """{"type": "record", "name": "r", "fields": [
    {"name": "flag", "type": "boolean"}, {"name": "whole", "type": "long"}, {"name": "real", "type": "double"},
    {"name": "text", "type": "string"}, {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}]}"""
_OBJECT = b'{"flag": true, "whole": 1, "real": 1.5, "text": "a", "day": "2026-01-01", "at": "2026-01-01T00:00:00Z"}'


@dataclass(frozen=True, slots=True)
class WarmedKernels:
    """Kernels that are compiled or were in the cache."""

    what: str
    """What they are for."""
    seconds: float
    """The time to load or compile them."""


def warm(clock_s: Callable[[], float] = time.monotonic) -> Iterator[WarmedKernels]:
    """Compiles the kernels, or loads those that the cache has; one result for each use of kernels.

    Each use calls a function of the package, so that a kernel is compiled for the arrays of that function.
    """
    cache.ANNOUNCED.set()  # the caller says what is done
    for what, use in _USES:
        began = clock_s()
        use()
        yield WarmedKernels(what, clock_s() - began)


def _log_records() -> None:
    from penstock.reader.read_split import warm_up

    warm_up()


def _small_files() -> None:
    from penstock.reader.base.accepted_file import accepted_file

    accepted_file(bytes(12), 0)


def _json_records() -> None:
    from penstock.reader.topics.json.columns import JsonColumns
    from penstock.table.schema.arrow import arrow_type

    fields = parse_record_schema(_SCHEMA).fields
    schema = pa.schema([(field.name, arrow_type(field.type)) for field in fields])
    JsonColumns(fields, schema, ()).values([_OBJECT])


def _json_images() -> None:
    from penstock.reader.cdc.json_objects import QUOTED, Member, objects

    objects([Member('"a":', pa.array(["x"], pa.string()), QUOTED)], 1, ",", nulls=True)


def _written_records() -> None:
    from penstock.writer.avro.encoder import joined, record_columns

    schema = parse_record_schema('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}')
    joined(record_columns(schema.fields, [pa.array([1], pa.int64())]), 1)


def _bloom_filters() -> None:
    import numpy as np

    from penstock.table.parquet.bloom_filter import BloomFilter
    from penstock.writer.kernels.bloom import find_key_bits, set_key_bits

    keys = pa.array(["a"], pa.string())
    bloom = BloomFilter.for_keys(1)
    bloom.add(keys, set_key_bits)
    bloom.may_contain(keys, np.zeros(1, np.int64), find_key_bits)


def _buckets() -> None:
    from penstock.writer.kernels.bucket import bucket_numbers

    bucket_numbers(pa.array(["a"], pa.string()), 1, ["id"])


_USES: tuple[tuple[str, Callable[[], None]], ...] = (
    ("log records, deletes and keys", _log_records),
    ("small Parquet files", _small_files),
    ("JSON records of topics", _json_records),
    ("images of changes", _json_images),
    ("records of log files that are written", _written_records),
    ("Bloom filters", _bloom_filters),
    ("bucket numbers", _buckets),
)
