"""A partitioned table of values that engines treat differently: NaN, -0.0, nulls, quotes, extremes."""

from __future__ import annotations

import datetime
import json
import pathlib
import random
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

INSTANT: Final = "20261120233736000"
ROWS: Final = 240
PARTITIONS: Final = ("DE", "NO", "x'y\\z")
DAY: Final = datetime.date(2025, 3, 1)
NOON: Final = datetime.datetime(2025, 3, 1, 12, tzinfo=datetime.UTC)
NESTED: Final = pa.struct([("q", pa.int64()), ("s", pa.string())])
TYPES: Final[dict[str, pa.DataType]] = {
    "id": pa.string(),
    "n": pa.int64(),
    "i": pa.int32(),
    "f": pa.float32(),
    "d": pa.float64(),
    "amount": pa.decimal128(10, 2),
    "day": pa.date32(),
    "ts": pa.timestamp("us", "UTC"),
    "ok": pa.bool_(),
    "note": pa.string(),
    "odd name`s": pa.int64(),
    "st": NESTED,
    "country": pa.string(),
}
VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "n": (0, 1, -1, 7, 2**63 - 1, -(2**63), 2**53 + 1, 2**53, None),
    "i": (0, 1, -5, 2**31 - 1, -(2**31), None),
    "f": (0.0, -0.0, 1.5, 0.1, float("nan"), float("inf"), float("-inf"), None),
    "d": (0.0, -0.0, 1.5, 0.1, 1e300, float("nan"), float("inf"), float("-inf"), None),
    "amount": (Decimal("0.00"), Decimal("1.50"), Decimal("-99999999.99"), Decimal("99999999.99"), None),
    "day": (DAY, DAY + datetime.timedelta(days=1), datetime.date(1900, 1, 1), datetime.date(2262, 1, 1), None),
    "ts": (NOON, NOON + datetime.timedelta(microseconds=1), NOON - datetime.timedelta(days=40_000), None),
    "ok": (True, False, None),
    "note": ("", "x", "it's", 'say "hi"', "100%_\\", "ä€😀", "X", None),
    "odd name`s": (1, 2, 3, None),
    "st": ({"q": 1, "s": "x"}, {"q": None, "s": "it's"}, {"q": 3, "s": None}, None),
    "country": PARTITIONS,
}
"""The values of each column. Conditions are built from them."""

_AVRO: Final[dict[str, Any]] = {
    "id": "string",
    "n": "long",
    "i": "int",
    "f": "float",
    "d": "double",
    "amount": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "day": {"type": "int", "logicalType": "date"},
    "ts": {"type": "long", "logicalType": "timestamp-micros"},
    "ok": "boolean",
    "note": "string",
    "odd name`s": "long",
    "st": {
        "type": "record",
        "name": "nested",
        "fields": [{"name": "q", "type": ["null", "long"]}, {"name": "s", "type": ["null", "string"]}],
    },
    "country": "string",
}
_PROPERTIES: Final = {
    "hoodie.table.name": "values",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "6",
    "hoodie.timeline.layout.version": "1",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "country",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
    "hoodie.populate.meta.fields": "true",
    "hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
}


def write_values_table(table: pathlib.Path, seed: int = 0) -> pathlib.Path:
    """Writes the table in the layout of Hudi's version 6: one file for each partition, sorted by the column `day`, with
    row groups of 20 rows."""
    numbers = random.Random(seed)
    rows = [{name: numbers.choice(VALUES[name]) for name in VALUES} | {"id": f"k{at:03d}"} for at in range(ROWS)]
    rows.sort(key=lambda row: row["day"] or datetime.date.min)
    timeline = table / ".hoodie"
    timeline.mkdir(parents=True)
    stats: dict[str, list[dict[str, Any]]] = {}
    for number, country in enumerate(PARTITIONS):
        own = [row for row in rows if row["country"] == country]
        folder = country.replace("\\", "%5C").replace("'", "%27")
        stats[folder] = [_write_file(table, folder, number, own)]
    (timeline / "hoodie.properties").write_text("".join(f"{key}={value}\n" for key, value in _PROPERTIES.items()))
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, kind in _AVRO.items()]
    commit = {
        "partitionToWriteStats": stats,
        "compacted": False,
        "operationType": "INSERT",
        "extraMetadata": {"schema": json.dumps({"type": "record", "name": "values", "fields": fields})},
    }
    (timeline / f"{INSTANT}.commit").write_text(json.dumps(commit))
    return table


def _write_file(table: pathlib.Path, folder: str, number: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    name = f"{folder}/file{number}-0_0-1-{number}_{INSTANT}.parquet"
    meta = {
        "_hoodie_commit_time": [INSTANT] * len(rows),
        "_hoodie_commit_seqno": [f"{INSTANT}_{number}_{at}" for at in range(len(rows))],
        "_hoodie_record_key": [row["id"] for row in rows],
        "_hoodie_partition_path": [folder] * len(rows),
        "_hoodie_file_name": [name.rpartition("/")[2]] * len(rows),
    }
    columns = {key: pa.array([row[key] for row in rows], kind) for key, kind in TYPES.items()}
    (table / folder).mkdir()
    (table / folder / ".hoodie_partition_metadata").write_text(f"commitTime={INSTANT}\npartitionDepth=1\n")
    pq.write_table(pa.table({**meta, **columns}), table / name, row_group_size=20)
    return {
        "fileId": f"file{number}-0",
        "path": name,
        "prevCommit": "null",
        "numWrites": len(rows),
        "numInserts": len(rows),
        "numDeletes": 0,
        "numUpdateWrites": 0,
        "partitionPath": folder,
        "fileSizeInBytes": (table / name).stat().st_size,
    }
