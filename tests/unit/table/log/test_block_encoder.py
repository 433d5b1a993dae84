"""Blocks of logs and of deletes: the very bytes of Hudi's logs, and round trips with the decoders."""

from __future__ import annotations

import struct
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import InvariantViolation, SchemaMismatch
from penstock.reader.kernels.deletes import decode_delete_list
from penstock.table.log.avro_columns import varints
from penstock.table.log.block_encoder import (
    INSTANT_TIME,
    SCHEMA,
    delete_block_content,
    encode_block,
    rollback_block,
)
from penstock.table.log.blocks import BlockKind, BlockPlace, Damage, LogBlock, read_blocks
from penstock.table.log.delete_list import ARRAY, DECIMAL, INT, LONG, STRING
from penstock.table.log.deletes import DeleteRecords, decode_deletes
from tests.unit.table.log.test_golden_logs import log_files, place_of, read

T = "20260131235959123"
PLACE = BlockPlace("t", "f", 0, T)


def headers_of(data: bytes, offset: int) -> dict[int, str]:
    """The header entries of a block in their order."""
    at = offset + 22
    (count,) = struct.unpack_from(">i", data, at)
    at += 4
    headers = {}
    for _ in range(count):
        ordinal, length = struct.unpack_from(">ii", data, at)
        headers[ordinal] = data[at + 8 : at + 8 + length].decode()
        at += 8 + length
    return headers


@pytest.mark.golden
def test_blocks_of_golden_tables_have_the_same_bytes(golden: Any) -> None:
    kinds: Counter[str] = Counter()
    rollbacks = 0
    for case in golden.names()[::2]:
        for file in log_files(golden.table(case)):
            data, items = read(file)
            for item in items:
                if isinstance(item, Damage):
                    continue
                headers = headers_of(data, item.offset)
                content = data[item.content_start : item.content_end]
                whole = data[item.offset : item.end]
                assert encode_block(item.kind, headers, content) == whole, file
                kinds[item.kind.name] += 1
                if item.kind is BlockKind.COMMAND:
                    own = rollback_block(headers[0], headers[1])
                    assert (len(own), headers_of(own, 0)) == (len(whole), headers), file
                    rollbacks += 1
    assert set(kinds) >= {"AVRO_DATA", "DELETE", "COMMAND", "PARQUET_DATA"}
    assert rollbacks > 3


TYPES = {INT: pa.int32(), LONG: pa.int64(), STRING: pa.string(), DECIMAL: pa.decimal128(30, 15)}


def ordering_of(deletes: DeleteRecords) -> list[pa.Array] | None:
    """The ordering columns of a block's deletes; None for a block whose deletes are of several kinds."""
    kinds = set(deletes.kinds.tolist())
    if kinds == {INT} and not deletes.numbers.any():
        return []
    if len(kinds) > 1 or not kinds <= {*TYPES, ARRAY}:
        return None
    if kinds != {ARRAY}:
        return [deletes.values_as(TYPES[kinds.pop()])[0]]
    columns, count = [], int(deletes.numbers[0])
    for place in range(count):
        assert deletes.items is not None
        single = deletes.items.of(np.arange(len(deletes)) * count + place, deletes.place)
        columns.append(single.values_as(TYPES[int(single.kinds[0])])[0])
    return columns


@pytest.mark.golden
def test_deletes_of_golden_tables_have_the_same_bytes(golden: Any) -> None:
    compared: Counter[int] = Counter()
    for case in golden.names():
        table = golden.table(case)
        for file in log_files(table):
            data, items = read(file)
            for item in items:
                if isinstance(item, Damage) or item.kind is not BlockKind.DELETE:
                    continue
                content = data[item.content_start : item.content_end]
                deletes = decode_deletes(content, place_of(file, item), decode_delete_list)
                ordering = ordering_of(deletes)
                if ordering is None:
                    continue
                partition = file.parent.relative_to(table).as_posix().removeprefix(".")
                assert delete_block_content(deletes.keys, partition, ordering) == content, file
                compared[int(deletes.kinds[0])] += 1
    assert min(compared[INT], compared[LONG]) > 50
    assert min(compared[STRING], compared[DECIMAL], compared[ARRAY]) >= 2


INT64 = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-(2**31), 2**31 - 1).filter(bool),
    pa.int64(): INT64,
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.binary(): st.binary(max_size=9),
    pa.string(): st.text(max_size=9),
    pa.timestamp("us", "UTC"): INT64,
    pa.timestamp("us"): INT64,
    pa.decimal128(20, 6): st.decimals(Decimal(-(10**14)) + 1, Decimal(10**14) - 1, places=6),
}
COLUMNS = st.lists(st.sampled_from(list(VALUES)), max_size=3)


@st.composite
def deletes_of(draw: st.DrawFn) -> tuple[pa.StringArray, str, list[pa.Array]]:
    keys = draw(st.lists(st.text(max_size=12), max_size=8))
    columns = [
        pa.array(draw(st.lists(VALUES[kind], min_size=len(keys), max_size=len(keys))), kind) for kind in draw(COLUMNS)
    ]
    first = draw(st.integers(0, len(keys)))
    return (
        pa.array(keys, pa.string()).slice(first),
        draw(st.text(max_size=5)),
        [column.slice(first) for column in columns],
    )


@given(deletes_of())
def test_deletes_are_decoded_from_their_block(given_deletes: tuple[pa.StringArray, str, list[pa.Array]]) -> None:
    keys, partition, columns = given_deletes
    content = delete_block_content(keys, partition, columns)
    block = encode_block(BlockKind.DELETE, {INSTANT_TIME: T, SCHEMA: "{}"}, content)
    (item,) = read_blocks(memoryview(block), "f")
    assert isinstance(item, LogBlock)
    assert (item.header.instant_time, item.header.schema_json, item.kind) == (T, "{}", BlockKind.DELETE)
    decoded = decode_deletes(block[item.content_start : item.content_end], PLACE, decode_delete_list)
    assert decoded.keys.equals(keys)
    if not columns:
        assert decoded.ordering_as(pa.int64())[1].all()
        return
    if len(columns) == 1:
        values, default = decoded.ordering_as(columns[0].type)
        assert values.equals(columns[0])
    else:
        several, default = decoded.ordering_tuples([column.type for column in columns])
        assert all(one.equals(column) for one, column in zip(several, columns, strict=True))
    assert not default.any()


def test_many_deletes_are_encoded_in_parts() -> None:
    rows = (1 << 16) + 3
    keys = pa.array([f"key-{row}" for row in range(rows)])
    ordering = pa.array(range(rows), pa.int64())
    decoded = decode_deletes(delete_block_content(keys, "p=a", ordering), PLACE, decode_delete_list)
    assert decoded.keys.equals(keys)
    assert decoded.ordering_as(pa.int64())[0].equals(ordering)


@pytest.mark.parametrize(
    "ordering",
    [
        pa.array([0], pa.date32()),
        pa.array([0], pa.time64("us")),
        pa.array([0], pa.timestamp("ms")),
        pa.array([[1]]),
        pa.array([1], pa.int8()),
    ],
)
def test_ordering_type_that_hudi_does_not_compare_is_refused(ordering: pa.Array) -> None:
    with pytest.raises(SchemaMismatch, match="deletes ordered by a column of type"):
        delete_block_content(pa.array(["a"]), "", ordering)


@pytest.mark.parametrize(
    ("keys", "ordering"),
    [(["a", None], None), (["a", "b"], [1, None]), (["a", "b"], [1])],
)
def test_nulls_and_other_lengths_are_refused(keys: list[str | None], ordering: list[int | None] | None) -> None:
    with pytest.raises(InvariantViolation):
        delete_block_content(pa.array(keys), "", None if ordering is None else pa.array(ordering, pa.int64()))


def test_rollback_block_is_read_as_one() -> None:
    block = rollback_block("20260131235959124", T)
    assert len(block) == 105
    (item,) = read_blocks(memoryview(block), "f")
    assert isinstance(item, LogBlock)
    assert (item.kind, item.header.command) == (BlockKind.COMMAND, "0")
    assert (item.header.instant_time, item.header.target_instant_time) == ("20260131235959124", T)


@given(st.lists(INT64, max_size=20))
def test_numbers_are_those_of_avro(numbers: list[int]) -> None:
    expected = b""
    for number in numbers:
        bits = ((number << 1) ^ (number >> 63)) & (1 << 64) - 1
        while bits >= 128:
            expected += bytes([bits & 127 | 128])
            bits >>= 7
        expected += bytes([bits])
    lengths, content = varints(np.array(numbers, np.int64))
    assert content.tobytes() == expected
    assert int(lengths.sum()) == len(expected)
