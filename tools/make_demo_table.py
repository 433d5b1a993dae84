"""Creates engine/demo/orders: the demo's table, written by Hudi, and the rows that Hudi returned for it.

    .venv/bin/python tools/make_demo_table.py

Needs Java 17; Hudi's bundle is downloaded as for tests/interop. Instants differ from run to run, rows do not. The rows
of each commit's range come from Hudi's snapshot directly after the commit: those that the commit wrote last.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import shutil
import sys
import tempfile
import zipfile
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
TARGET = REPOSITORY / "engine" / "demo" / "orders"
COUNTRIES = ("CH", "IE", "LV", "NO")
CUSTOMERS = ("Aino", "Berta", "Ciro", "Dara", "Eino", "Fleur", "Goran")

COLUMNS = (
    ("order_id", "c0"),
    ("customer", "c1"),
    ("amount", "cast(c2 / 100 AS decimal(10, 2))"),
    ("status", "c3"),
    ("updated_at", "timestamp_micros(1760000000000000 + c4 * 60000000)"),
    ("country", "c5"),
)

OPTIONS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.datasource.write.precombine.field": "updated_at",
    "hoodie.datasource.write.partitionpath.field": "country",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.bloom.index.filter.dynamic.max.entries": "1000",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    **{f"hoodie.{step}.shuffle.parallelism": "1" for step in ("insert", "upsert", "delete", "bulkinsert")},
}


def order(number: int, status: str, minute: int) -> tuple[str, str, int, str, int, str]:
    """One order with its status at a minute."""
    customer = CUSTOMERS[number % len(CUSTOMERS)]
    return f"o{number:03}", customer, 1000 + 137 * number, status, minute, COUNTRIES[number % len(COUNTRIES)]


def commits() -> list[tuple[str, str, list[tuple[str, str, int, str, int, str]]]]:
    """(description, operation, rows) of each commit; a compaction has no rows."""
    paid = [order(n, "paid", 100 + n) for n in range(1, 49, 3)]
    late = [order(n, "placed", 5) for n in (1, 4, 7)]
    return [
        ("48 orders are placed", "insert", [order(n, "placed", n) for n in range(1, 49)]),
        ("16 are paid, 6 new ones placed", "upsert", paid + [order(n, "placed", 110) for n in range(49, 55)]),
        (
            "9 are shipped; 3 old events come late",
            "upsert",
            [order(n, "shipped", 200 + n) for n in range(2, 20, 2)] + late,
        ),
        ("5 are cancelled: deleted", "delete", [order(n, "cancelled", 300) for n in (3, 10, 21, 33, 50)]),
        ("compaction: no row changes", "compaction", []),
        (
            "12 are delivered, 1 cancelled one returns",
            "upsert",
            [order(n, "delivered", 400 + n) for n in range(1, 24, 2)] + [order(10, "placed", 400)],
        ),
        ("6 are placed, 2 deleted ones stay deleted", "upsert", [order(n, "placed", 500) for n in range(60, 66)]),
        ("7 are delivered in one country", "upsert", [order(n, "delivered", 600) for n in range(4, 32, 4)]),
    ]


def hudi_suite() -> Any:
    """The conftest of the interop suite, which starts Hudi."""
    path = REPOSITORY / "tests" / "interop" / "conftest.py"
    spec = importlib.util.spec_from_file_location("interop_conftest", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def keep(rows: pa.Table, name: str) -> str:
    """Writes expected rows to a file; its name."""
    pq.write_table(rows.replace_schema_metadata(None).sort_by("_hoodie_record_key"), TARGET / name)
    return name


def write_all(hudi: Any, table: pathlib.Path) -> list[dict[str, Any]]:
    """Writes the commits; the manifest's entry of each."""
    entries: list[dict[str, Any]] = []
    for number, (what, operation, rows) in enumerate(commits(), 1):
        if operation == "compaction":
            before = hudi.instants(table)
            hudi.call(
                f"CALL run_compaction(op => 'scheduleAndExecute', path => '{table}', options => "
                "'hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false,"
                "hoodie.embed.timeline.server=false,hoodie.clean.automatic=false,hoodie.archive.automatic=false')"
            )
            ((requested, completion, action),) = [instant for instant in hudi.instants(table) if instant not in before]
        else:
            options = OPTIONS | {"hoodie.datasource.write.operation": operation}
            ((requested, completion, action),) = hudi.write(table, COLUMNS, rows, options)
        snapshot = hudi.read(table)
        written = snapshot.filter(pc.equal(snapshot["_hoodie_commit_time"], requested))
        print(number, what, requested, completion, action, "rows", written.num_rows, "of", snapshot.num_rows)
        entries.append(
            {
                "what": what,
                "requested": requested,
                "completion": completion,
                "action": action,
                "is_data": operation != "compaction",
                "rows": keep(written, f"commit_{number}.parquet"),
            }
        )
    keep(snapshot, "snapshot.parquet")
    return entries


def pack(table: pathlib.Path) -> None:
    """The table as one archive, without the checksum files of the local file system."""
    with zipfile.ZipFile(TARGET / "table.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(table.rglob("*")):
            if path.is_file() and not path.name.endswith(".crc"):
                archive.write(path, path.relative_to(table).as_posix())


def main() -> None:
    """Creates the folder again from nothing."""
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    suite = hudi_suite()
    with tempfile.TemporaryDirectory(prefix="penstock-demo-table-") as scratch:
        work = pathlib.Path(scratch)
        hudi = suite.Hudi(suite.make_environment(), work)
        try:
            hudi.started()
            entries = write_all(hudi, work / "orders")
        finally:
            hudi.stop()
        pack(work / "orders")
    manifest = {"table": "orders", "hudi": "1.2.0", "snapshot": "snapshot.parquet", "commits": entries}
    (TARGET / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
