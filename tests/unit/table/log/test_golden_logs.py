"""Every log file of every golden table: parsed to the last byte, positions and deletes as real Hudi wrote them."""

from __future__ import annotations

import io
import random
from collections import Counter
from pathlib import Path
from typing import Any

import fastavro
import pytest

from penstock.proto.errors import CorruptBlock
from penstock.reader.kernels.deletes import decode_delete_list
from penstock.table.log.blocks import BlockKind, BlockPlace, Damage, LogBlock, read_blocks
from penstock.table.log.delete_list import ARRAY
from penstock.table.log.deletes import decode_deletes
from penstock.table.log.positions import cardinality

pytestmark = pytest.mark.golden

DAMAGED = {
    "A_corrupt_middle_v6_h0150": 1,
    "A_corrupt_middle_v9_h120": 1,
    "A_corrupt_tail_v6_h0150": 2,
    "A_corrupt_tail_v9_h120": 2,
}


def log_files(table: Path) -> list[Path]:
    """Data and CDC logs of a table."""
    files = [path for path in table.rglob(".*.log.*") if path.suffix != ".crc"]
    return sorted(path for path in files if ".hoodie" not in path.relative_to(table).parts)


def read(file: Path) -> tuple[bytes, list[LogBlock | Damage]]:
    data = file.read_bytes()
    items = list(read_blocks(memoryview(data), file.name))
    place = 0
    for item in items:
        assert place == (item.start if isinstance(item, Damage) else item.offset), file
        place = item.end
    assert place == len(data), file
    return data, items


def place_of(file: Path, block: LogBlock) -> BlockPlace:
    return BlockPlace(file.parent.name, file.name, block.offset, block.header.instant_time)


def test_every_log_file_parses_to_the_last_byte(golden: Any) -> None:
    kinds: Counter[str] = Counter()
    for case in golden.names():
        damages = 0
        for file in log_files(golden.table(case)):
            for item in read(file)[1]:
                if isinstance(item, Damage):
                    damages += 1
                else:
                    kinds[item.kind.name] += 1
        assert damages == DAMAGED.get(case, 0), case
    assert set(kinds) >= {"AVRO_DATA", "DELETE", "COMMAND", "PARQUET_DATA"}
    assert kinds["AVRO_DATA"] > 50 and kinds["DELETE"] > 20


def test_damaged_real_logs_are_covered_without_a_crash(golden: Any) -> None:
    files = [file for case in golden.names()[::4] for file in log_files(golden.table(case))[:2]]
    chance, outcomes = random.Random(2), Counter[str]()
    for file in files:
        good = file.read_bytes()
        for _ in range(25):
            raw = bytearray(good[: chance.randint(0, len(good))] if chance.random() < 0.4 else good)
            for _ in range(chance.randint(0, 6) if raw else 0):
                at = min(chance.choice([chance.randrange(len(raw)), chance.randrange(64)]), len(raw) - 1)
                raw[at] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
            place = 0
            try:
                for item in read_blocks(memoryview(raw), file.name):
                    assert place == (item.start if isinstance(item, Damage) else item.offset) < item.end
                    place = item.end
                    outcomes[type(item).__name__] += 1
                assert place == len(raw)
            except CorruptBlock:
                outcomes["refused"] += 1
    assert min(outcomes["LogBlock"], outcomes["Damage"], outcomes["refused"]) > 10


def test_positions_are_as_many_as_records(golden: Any) -> None:
    checked: Counter[BlockKind] = Counter()
    for case in golden.names():
        for file in log_files(golden.table(case)):
            data, items = read(file)
            for item in items:
                if isinstance(item, Damage) or item.header.record_positions is None:
                    continue
                if item.kind == BlockKind.AVRO_DATA:
                    records = int.from_bytes(data[item.content_start + 4 : item.content_start + 8], "big")
                elif item.kind == BlockKind.DELETE:
                    content = data[item.content_start : item.content_end]
                    records = len(decode_deletes(content, place_of(file, item), decode_delete_list))
                else:
                    continue
                assert cardinality(item.header.record_positions) == records, file
                checked[item.kind] += 1
    assert checked[BlockKind.AVRO_DATA] > 20 and checked[BlockKind.DELETE] > 10


def test_deletes_are_what_fastavro_reads(golden: Any, delete_schema: Any) -> None:
    records = several = 0
    for case in golden.names():
        for file in log_files(golden.table(case)):
            data, items = read(file)
            for item in items:
                if isinstance(item, Damage) or item.kind != BlockKind.DELETE:
                    continue
                content = data[item.content_start : item.content_end]
                deletes = decode_deletes(content, place_of(file, item), decode_delete_list)
                several += int((deletes.kinds == ARRAY).sum())
                assert [
                    (key, kind) for key, kind in zip(deletes.keys.to_pylist(), deletes.kinds.tolist(), strict=True)
                ] == [(row["recordKey"], kind) for row, kind in delete_schema(content[8:])]
                records += len(deletes)
    assert records > 50
    assert several > 3


@pytest.fixture(scope="session")
def delete_schema() -> Any:
    """Reads a `HoodieDeleteRecordList` with fastavro: (record, wrapper branch) of each."""
    kinds: list[Any] = ["boolean", "int", "long", "float", "double", "bytes", "string"]
    kinds += [{"type": "int", "logicalType": "date"}, "bytes", "long", "long"]
    wrappers = [
        {"type": "record", "name": f"W{branch}", "fields": [{"name": "value", "type": kind}]}
        for branch, kind in enumerate(kinds, 1)
    ]
    single = [wrapper["name"] for wrapper in wrappers]
    local_date = {"type": "record", "name": "W99", "fields": [{"name": "value", "type": kinds[7]}]}
    values = ["null", {"type": "array", "items": ["null", *single, local_date]}]
    wrappers.append({"type": "record", "name": "W12", "fields": [{"name": "wrappedValues", "type": values}]})
    fields = [
        {"name": "recordKey", "type": ["null", "string"]},
        {"name": "partitionPath", "type": ["null", "string"]},
        {"name": "orderingVal", "type": ["null", *wrappers]},
    ]
    items = {"type": "record", "name": "HoodieDeleteRecord", "fields": fields}
    schema = fastavro.parse_schema(
        {"type": "record", "name": "L", "fields": [{"name": "l", "type": {"type": "array", "items": items}}]}
    )

    def rows(payload: bytes) -> list[tuple[dict[str, Any], int]]:
        read_list: Any = fastavro.schemaless_reader(io.BytesIO(payload), schema, None, return_record_name=True)
        return [
            (row, int(row["orderingVal"][0][1:]) if row["orderingVal"] is not None else 0) for row in read_list["l"]
        ]

    return rows
