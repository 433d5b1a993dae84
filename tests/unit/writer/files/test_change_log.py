"""Logs of changes: the very bytes of Hudi's logs, blocks, and what they hold in each mode."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from penstock.table.config.change_logging import ChangeLogging
from penstock.table.log.blocks import BlockKind, LogBlock, read_blocks
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import RecordSchema, parse_record_schema
from penstock.table.schema.avro_text import avro_schema_json
from penstock.writer.files import change_log
from penstock.writer.files.change_log import DELETE, INSERT, UPDATE, ChangeLogWriter
from tests.unit.table.log.test_golden_logs import log_files

COLUMNS = pa.schema([("id", pa.string()), ("n", pa.int64()), ("tags", pa.list_(pa.string()))])
DATA = parse_record_schema(avro_schema_json(COLUMNS, "t", meta_columns=False))
T = "20260131235959123"


def rows(*values: tuple[str, int]) -> pa.RecordBatch:
    """Rows of a file: with a meta column, and data columns in another order."""
    table = {"_hoodie_record_key": [key for key, _ in values], "n": [n for _, n in values]}
    tags = pa.array([[key] for key, _ in values], COLUMNS.field("tags").type)
    return pa.RecordBatch.from_pydict({**table, "tags": tags, "id": [key for key, _ in values]})


def records_of(data: bytes) -> list[tuple[LogBlock, list[dict[str, Any]]]]:
    """The blocks of a log with their records."""
    blocks = []
    for block in read_blocks(data, "log"):
        assert isinstance(block, LogBlock) and block.kind is BlockKind.CDC_DATA
        schema = fastavro.parse_schema(json.loads(block.header.schema_json))
        content = data[block.content_start : block.content_end]
        assert content[:4] == b"\0\0\0\3"
        count, at, records = int.from_bytes(content[4:8], "big"), 8, []
        for _ in range(count):
            size = int.from_bytes(content[at : at + 4], "big")
            record = fastavro.schemaless_reader(io.BytesIO(content[at + 4 : at + 4 + size]), schema)
            records.append(record)
            at += 4 + size
        assert at == len(content)
        blocks.append((block, records))
    return blocks


def image(key: str, n: int) -> dict[str, Any]:
    return {"id": key, "n": n, "tags": [key]}


def written(mode: ChangeLogging) -> list[tuple[LogBlock, list[dict[str, Any]]]]:
    sink = io.BytesIO()
    log = ChangeLogWriter(sink, T, mode, DATA)
    kinds = np.array([UPDATE, DELETE], np.uint8)
    log.write(kinds, pa.array(["a", "b"]), rows(("a", 1), ("b", 2)), rows(("a", 10)))
    log.write(np.array([INSERT], np.uint8), pa.array(["c"]), rows(), rows(("c", 3)))
    log.close()
    return records_of(sink.getvalue())


def test_changes_of_each_mode() -> None:
    ((block, records),) = written(ChangeLogging.DATA_BEFORE_AFTER)
    assert block.header.instant_time == T
    assert records == [
        {"op": "u", "ts_ms": T, "before": image("a", 1), "after": image("a", 10)},
        {"op": "d", "ts_ms": T, "before": image("b", 2), "after": None},
        {"op": "i", "ts_ms": T, "before": None, "after": image("c", 3)},
    ]
    ((_, records),) = written(ChangeLogging.DATA_BEFORE)
    assert records == [
        {"op": "u", "record_key": "a", "before": image("a", 1)},
        {"op": "d", "record_key": "b", "before": image("b", 2)},
        {"op": "i", "record_key": "c", "before": None},
    ]
    ((_, records),) = written(ChangeLogging.OP_KEY_ONLY)
    assert records == [{"op": op, "record_key": key} for op, key in (("u", "a"), ("d", "b"), ("i", "c"))]


def test_log_without_changes_has_one_empty_block() -> None:
    sink = io.BytesIO()
    log = ChangeLogWriter(sink, T, ChangeLogging.DATA_BEFORE, DATA)
    log.write(np.zeros(0, np.uint8), pa.array([], pa.string()), rows(), rows())
    log.close()
    assert [records for _, records in records_of(sink.getvalue())] == [[]]


def test_full_block_is_followed_by_another_and_none_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "_BLOCK_BYTES", 40)
    sink = io.BytesIO()
    log = ChangeLogWriter(sink, T, ChangeLogging.OP_KEY_ONLY, DATA)
    for key in ("a", "b" * 40, "c" * 60):
        log.write(np.array([INSERT], np.uint8), pa.array([key]), rows(), rows((key, 1)))
    log.close()
    keys = [[record["record_key"] for record in records] for _, records in records_of(sink.getvalue())]
    assert keys == [["a", "b" * 40], ["c" * 60]]


def data_record(block: LogBlock) -> RecordSchema:
    """The schema of the rows in a block's images; an empty one if it logs none."""
    fields = json.loads(block.header.schema_json)["fields"]
    images = [field["type"][1] for field in fields if field["name"] == "before"]
    namespace = json.loads(block.header.schema_json).get("namespace", "")
    text = json.dumps({**images[0], "namespace": namespace}) if images else DATA.json_text
    return parse_record_schema(text)


@pytest.mark.golden
def test_logs_of_golden_tables_have_the_same_bytes(golden: Any) -> None:
    """Schemas are compared as values: Hudi leaves the namespace of images out, which is that of the change."""
    modes: set[ChangeLogging] = set()
    for case in golden.names():
        if "cdc" not in case:
            continue
        for file in log_files(golden.table(case)):
            if file.name.endswith(".cdc"):
                modes.add(check_same_bytes(file.read_bytes()))
    assert modes == set(ChangeLogging)


def check_same_bytes(data: bytes) -> ChangeLogging:
    ((block, records),) = records_of(data)
    names = {field["name"] for field in json.loads(block.header.schema_json)["fields"]}
    mode = (
        ChangeLogging.DATA_BEFORE_AFTER
        if "after" in names
        else ChangeLogging.DATA_BEFORE
        if "before" in names
        else ChangeLogging.OP_KEY_ONLY
    )
    record = data_record(block)
    sink = io.BytesIO()
    log = ChangeLogWriter(sink, block.header.instant_time, mode, record)
    kinds = np.array([ord(one["op"]) for one in records], np.uint8)
    keys = pa.array([one.get("record_key", "") for one in records], pa.string())
    sides = [[one[side] for one in records if one.get(side) is not None] for side in ("before", "after")]
    before, after = (
        pa.RecordBatch.from_pylist([arrow_row(one) for one in side], arrow_schema(record)) for side in sides
    )
    log.write(kinds, keys, before, after)
    log.close()
    ((own, _),) = records_of(sink.getvalue())
    assert sink.getvalue()[own.content_start : own.content_end] == data[block.content_start : block.content_end]
    assert parse_record_schema(own.header.schema_json).fields == parse_record_schema(block.header.schema_json).fields
    return mode


def arrow_row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value.items()) if name == "m" and value is not None else value for name, value in row.items()}
