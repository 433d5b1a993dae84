"""Nested columns by the kernel: limits of items and cells, and records that exceed them."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.proto.errors import CorruptBlock
from penstock.reader.avro import compiled
from penstock.reader.avro.decoder import AvroDecoder, record_bounds
from penstock.reader.avro.fallback import FallbackReader
from penstock.reader.avro.nested import NestedColumns
from penstock.reader.avro.plan import plan_kernel
from penstock.reader.kernels import avro as kernel
from penstock.table.schema.avro import RecordSchema, parse_record_schema
from tests.unit.reader.avro.test_decoder import PLACE, expected, read, written

ADDRESS: Any = {
    "type": "record",
    "name": "address",
    "fields": [
        {"name": "street", "type": ["null", "string"]},
        {"name": "no", "type": ["null", "int"]},
        {"name": "at", "type": {"type": "array", "items": ["null", "double"]}},
    ],
}
FIELDS: Any = [
    {"name": "id", "type": "string"},
    {"name": "home", "type": ["null", ADDRESS]},
    {"name": "others", "type": {"type": "array", "items": ["null", "address"]}},
    {"name": "tags", "type": ["null", {"type": "map", "values": {"type": "array", "items": "string"}}]},
    {"name": "n", "type": ["null", "long"]},
]
SCHEMA: RecordSchema = parse_record_schema(json.dumps({"type": "record", "name": "row", "fields": FIELDS}))
NAMES = [field.name for field in SCHEMA.fields]


def address(chance: random.Random) -> Any:
    if chance.random() < 0.2:
        return None
    street = None if chance.random() < 0.3 else "é" * chance.randint(0, 20)
    at = [None if chance.random() < 0.3 else chance.random() for _ in range(chance.randint(0, 3))]
    return {"street": street, "no": chance.choice([None, 1, -(2**31)]), "at": at}


def rows(count: int, seed: int = 1, items: int = 3) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "id": f"id-{number}",
            "home": address(chance),
            "others": [address(chance) for _ in range(chance.randint(0, items))],
            "tags": chance.choice([None, {}, {"a": ["x", ""], "b": []}]),
            "n": chance.choice([None, number]),
        }
        for number in range(count)
    ]


@pytest.fixture
def no_fastavro(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FallbackReader, "read", None)


@pytest.mark.usefixtures("no_fastavro")
@pytest.mark.parametrize("count", [1, 15, 16, 17, 500, 9000])
def test_nested_columns_need_no_fastavro(count: int) -> None:
    data = written(SCHEMA, rows(count))
    assert read(data, SCHEMA, NAMES).equals(expected(SCHEMA, rows(count)))


@pytest.mark.usefixtures("no_fastavro")
def test_records_that_the_sample_does_not_show_are_read_all_the_same() -> None:
    """The sample has records without items, all others have many: the estimate is far too low."""
    made = rows(600, items=0)
    for number in range(len(made)):
        if number % compiled._SAMPLED:
            made[number]["others"] = [None] * 200
    assert read(written(SCHEMA, made), SCHEMA, NAMES).equals(expected(SCHEMA, made))


@pytest.mark.usefixtures("no_fastavro")
def test_too_many_cells_make_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MAX_NESTED_BYTES", 60_000)
    made = rows(3000)
    data = written(SCHEMA, made)
    begin, end = record_bounds(data, PLACE)
    batches = list(AvroDecoder(SCHEMA, NAMES, SCHEMA).decode(data, begin, end, PLACE))
    assert len(batches) > 3
    assert pa.Table.from_batches(batches).equals(expected(SCHEMA, made).combine_chunks())


def test_record_with_too_many_cells_is_read_by_fastavro(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MAX_NESTED_BYTES", 2_000)
    made = [*rows(3), {**rows(1)[0], "others": [address(random.Random(4)) for _ in range(300)]}, *rows(3)]
    assert read(written(SCHEMA, made), SCHEMA, NAMES).equals(expected(SCHEMA, made))


@pytest.mark.parametrize("most_bytes", [compiled.MAX_NESTED_BYTES, 20_000])
@pytest.mark.parametrize("bad", [0, 7, 250, 499])
def test_first_invalid_record_is_named(monkeypatch: pytest.MonkeyPatch, bad: int, most_bytes: int) -> None:
    """Records are counted across batches that few cells make smaller."""
    monkeypatch.setattr(compiled, "MAX_NESTED_BYTES", most_bytes)
    data = bytearray(written(SCHEMA, rows(500)))
    begin, end = record_bounds(bytes(data), PLACE)
    for number in {bad, 499}:
        data[begin[number] : end[number]] = b"\xff" * int(end[number] - begin[number])
    with pytest.raises(CorruptBlock, match=rf"record {bad} of 500 "):
        list(AvroDecoder(SCHEMA, NAMES, SCHEMA).decode(bytes(data), begin, end, PLACE))


def test_kernel_stops_at_the_limit_of_a_level() -> None:
    """The caller makes one cell more than a limit: an item beyond it is never written."""
    schema = parse_record_schema(
        json.dumps(
            {
                "type": "record",
                "name": "row",
                "fields": [{"name": "a", "type": {"type": "array", "items": "long"}}],
            }
        )
    )
    data = np.frombuffer(bytes([6, 2, 4, 6, 0]) + bytes(kernel.OVERRUN), np.uint8)
    begin, end = np.array([0]), np.array([5])
    plan = plan_kernel(schema, {"a": schema.fields[0].type})
    for limit, outcome in ((0, -2), (2, -2), (3, -1), (9, -1)):
        cells = NestedColumns(plan).cells(np.array([1, 0, limit]))
        lanes = compiled._lanes(plan, 1, np.empty((0, 0), np.uint8))
        assert compiled._run(plan.program, data, begin, end, True, lanes, cells) == outcome
        written_cells = np.flatnonzero(cells.wide[0])
        assert len(written_cells) == min(3, limit + 1)


def test_null_records_have_null_fields() -> None:
    """As in base files: a consumer may read a field without its record."""
    made = [{**rows(1)[0], "home": None}, {**rows(1)[0], "home": {"street": "s", "no": 1, "at": []}}]
    home = read(written(SCHEMA, made), SCHEMA, ["home"])["home"].combine_chunks()
    assert [home.field(name).to_pylist() for name in ("street", "no", "at")] == [[None, "s"], [None, 1], [None, []]]


def test_cells_of_symbols_count_their_text() -> None:
    long_symbol = "S" * 1000
    node = {"type": "array", "items": {"type": "enum", "name": "e", "symbols": ["A", long_symbol]}}
    schema = parse_record_schema(json.dumps({"type": "record", "name": "row", "fields": [{"name": "a", "type": node}]}))
    plan = plan_kernel(schema, {"a": schema.fields[0].type})
    assert NestedColumns(plan).size_bytes(np.array([1, 0, 10])) >= 10_000


def test_fields_that_the_writer_lacks_count_too() -> None:
    """Their nulls take memory in each item."""

    def schema(names: list[str]) -> RecordSchema:
        fields = [{"name": name, "type": ["null", "long"]} for name in names]
        node = {"type": "array", "items": {"type": "record", "name": "item", "fields": fields}}
        return parse_record_schema(
            json.dumps({"type": "record", "name": "row", "fields": [{"name": "a", "type": node}]})
        )

    target = schema([f"n{place}" for place in range(40)]).fields[0].type
    sizes = [NestedColumns(plan_kernel(schema(names), {"a": target})).size_bytes(np.array([1, 0, 1000]))
             for names in (["n0"], [f"n{place}" for place in range(40)])]  # fmt: skip
    assert sizes[0] >= 39 * 8 * 1000
    assert sizes[1] >= 40 * 9 * 1000


def test_small_batches_hold_little_more_than_their_values() -> None:
    """Batches are held until the base file has been read, with all their cells."""
    fields = [{"name": f"c{place}", "type": {"type": "array", "items": "long"}} for place in range(20)]
    schema = parse_record_schema(json.dumps({"type": "record", "name": "row", "fields": fields}))
    plan = plan_kernel(schema, {field.name: field.type for field in schema.fields})
    reader = compiled.CompiledReader(schema, [(field.name, field.type) for field in schema.fields])
    data = written(schema, [{f"c{place}": [1] for place in range(20)}] * 17)
    begin, end = record_bounds(data, PLACE)
    limits = reader._estimate(np.frombuffer(data + bytes(kernel.OVERRUN), np.uint8), begin, end)
    assert (limits[2:] >= 17).all()
    assert NestedColumns(plan).size_bytes(limits) < 10 * 20 * 17 * 8


def test_scratch_memory_is_not_shared_with_a_child_process() -> None:
    """In a process of its own: pytest has other threads, with which Python warns of a fork."""
    script = """
import os
from penstock.reader.avro import compiled
compiled._HUGE_PAGES_BYTES = 0
scratch = compiled.TextBuffer().at_least(2, 1 << 16)
scratch[0, 0] = 1
child = os.fork()
if child == 0:
    scratch[0, 0] = 2
    os._exit(0)
os.waitpid(child, 0)
print(scratch[0, 0])
"""
    answer = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "1"


def test_batches_grow_again_after_a_record_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MAX_NESTED_BYTES", 100_000)
    large = {**rows(1)[0], "others": [address(random.Random(4)) for _ in range(5_000)]}
    made = [large, *rows(500)]
    data = written(SCHEMA, made)
    begin, end = record_bounds(data, PLACE)
    batches = list(AvroDecoder(SCHEMA, NAMES, SCHEMA).decode(data, begin, end, PLACE))
    assert batches[0].num_rows == 1
    assert len(batches) < 20
    assert pa.Table.from_batches(batches).equals(expected(SCHEMA, made).combine_chunks())
