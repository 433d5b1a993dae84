"""Processor time of planning: opening a table, planning a snapshot and a range, with and without the metadata table.

    python -m bench.planning [--instants 10000] [--slices 100000] [--rounds 5]

The table is synthetic: `--instants` instants on its active timeline, `--slices` file slices, 1,000 per partition, and a
metadata table that lists them all. The newest ten commits each add a log file to every slice of a partition; the range
consists of these commits. The last row is one partition of a hundred of another table, of 1,000 commits that each add
100 log files. No row is read; the file system's cache is warm. Figures are for a newly opened table, as in
`penstock.read`, a command or a fresh Spark process; the last column is for a planner that has parsed the timeline
already, as in `penstock.open_table` and a server.
"""

from __future__ import annotations

import argparse
import io
import json
import pathlib
import shutil
import statistics
import time
from collections.abc import Iterator
from typing import Any, Final

import fastavro
from rich.console import Console
from rich.table import Table

from penstock.enumerator.planning.plan import plan_request
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest, Query, Snapshot
from penstock.table.hudi_table import HudiTable, open_table
from tests.unit.table.metadata.hfile_writer import write_hfile

CACHE: Final = pathlib.Path(__file__).resolve().parent.parent / ".cache" / "bench"
FIRST_INSTANT: Final = 20260101000000000
RANGE_COMMITS: Final = 10
IN_A_PARTITION: Final = 1000
SCHEMA: Final = '{"type":"record","name":"r","fields":[{"name":"id","type":"string"},{"name":"p","type":"string"}]}'
PROPERTIES: Final = (
    "hoodie.table.name=planned\nhoodie.table.type=MERGE_ON_READ\nhoodie.table.version=9\n"
    "hoodie.timeline.layout.version=2\nhoodie.timeline.path=timeline\nhoodie.table.recordkey.fields={key}\n"
    "hoodie.table.timeline.timezone=UTC\nhoodie.record.merge.mode=COMMIT_TIME_ORDERING\n"
)
DATA_TABLE_PROPERTIES: Final = (
    "hoodie.table.metadata.partitions=files\nhoodie.table.partition.fields=p\n"
    "hoodie.datasource.write.hive_style_partitioning=true\n"
)
FILE_INFO: Final = {
    "type": "record",
    "name": "HoodieMetadataFileInfo",
    "fields": [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}],
}
RECORD: Final[dict[str, Any]] = {
    "type": "record",
    "name": "HoodieMetadataRecord",
    "fields": [
        {"name": "key", "type": "string"},
        {"name": "type", "type": "int"},
        {"name": "filesystemMetadata", "type": ["null", {"type": "map", "values": FILE_INFO}]},
    ],
}


def instant(number: int) -> int:
    """The requested time of commit `number`; it completes five milliseconds later."""
    return FIRST_INSTANT + number * 10


def make_table(
    folder: pathlib.Path,
    instants: int,
    slices: int,
    *,
    writing: int = RANGE_COMMITS,
    in_a_partition: int = IN_A_PARTITION,
) -> pathlib.Path:
    """Writes the table into this folder, unless it is there already. The newest `writing` commits add log files."""
    table = folder / "table"
    if (folder / "ready").exists():
        return table
    shutil.rmtree(folder, ignore_errors=True)
    files = {f"p={number:04d}": [] for number in range(slices // in_a_partition)}
    for number in range(slices):
        files[f"p={number // in_a_partition:04d}"].append(base_name(number))
    commits = {}
    for number in range(instants - writing, instants):
        partition = f"p={number % len(files):04d}"
        stats = [appended(partition, base, number) for base in files[partition] if base.endswith(".parquet")]
        files[partition] += [stat["path"].partition("/")[2] for stat in stats]
        commits[number] = {partition: stats}
    for partition, names in files.items():
        (table / partition).mkdir(parents=True)
        for name in (".hoodie_partition_metadata", *names):
            (table / partition / name).touch()
    meta = table / ".hoodie"
    write_timeline(meta, PROPERTIES.format(key="id") + DATA_TABLE_PROPERTIES, instants, commits)
    write_timeline(meta / "metadata" / ".hoodie", PROPERTIES.format(key="key"), instants, {})
    listed = meta / "metadata" / "files"
    listed.mkdir()
    (listed / ".hoodie_partition_metadata").touch()
    rows = [(b"__all_partitions__", record("__all_partitions__", 1, list(files)))]
    rows += [(partition.encode(), record(partition, 2, names)) for partition, names in sorted(files.items())]
    content = write_hfile(rows, info={b"schema": json.dumps(RECORD).encode()})
    (listed / f"files-0000-0_0-1-1_{instant(instants - 1)}.hfile").write_bytes(content)
    (folder / "ready").touch()
    return table


def base_name(number: int) -> str:
    """Name of the base file of slice `number`."""
    return f"{number:032x}-0_0-1-1_{instant(0)}.parquet"


def appended(partition: str, base: str, number: int) -> dict[str, Any]:
    """The write stat of a log that commit `number` adds to the slice of this base file."""
    group = base.partition("_")[0]
    log = f".{group}_{instant(number)}.log.1_0-1-1"
    return {
        "fileId": group,
        "path": f"{partition}/{log}",
        "prevCommit": str(instant(0)),
        "baseFile": base,
        "logFiles": [log],
        "numWrites": 1,
        "numUpdateWrites": 1,
        "fileSizeInBytes": 0,
    }


def write_timeline(meta: pathlib.Path, properties: str, instants: int, stats: dict[int, Any]) -> None:
    """Writes properties and `instants` completed commits, with the write stats in `stats`."""
    timeline = meta / "timeline"
    timeline.mkdir(parents=True)
    (meta / "hoodie.properties").write_text(properties)
    for number in range(instants):
        requested = instant(number)
        for name in (f"{requested}.deltacommit.requested", f"{requested}.deltacommit.inflight"):
            (timeline / name).touch()
        commit = {
            "partitionToWriteStats": stats.get(number, {}),
            "operationType": "UPSERT",
            "extraMetadata": {"schema": SCHEMA},
        }
        (timeline / f"{requested}_{requested + 5}.deltacommit").write_text(json.dumps(commit))


def record(key: str, kind: int, names: list[str]) -> bytes:
    """A record of the metadata table's `files` partition."""
    listed = {name: {"size": 0, "isDeleted": False} for name in names}
    written = io.BytesIO()
    value = {"key": key, "type": kind, "filesystemMetadata": listed}
    fastavro.schemaless_writer(written, fastavro.parse_schema(RECORD), value)
    return written.getvalue()


def questions(instants: int) -> Iterator[tuple[str, Query, bool]]:
    """(title, query, whether to plan by the metadata table)."""
    before = InstantTime(str(instant(instants - 1 - RANGE_COMMITS) + 5))
    newest_range = Incremental(after=Position(before))
    for metadata in (False, True):
        where = "metadata table" if metadata else "folders"
        yield f"snapshot, by {where}", Snapshot(), metadata
        yield f"range of {RANGE_COMMITS} commits, by {where}", newest_range, metadata


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instants", type=int, default=10_000)
    parser.add_argument("--slices", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    folder = CACHE / f"planning-{args.instants}-{args.slices}"
    path = str(make_table(folder, args.instants, args.slices))
    report = Table("question", "splits", "newly opened, s", "repeated, s", title=f"{args.instants:,} instants, "
                  f"{args.slices:,} slices; processor time, medians of {args.rounds}")  # fmt: skip
    opened = [open_seconds(path) for _ in range(args.rounds)]
    report.add_row("open the table and its timeline", "", f"{statistics.median(opened):.2f}", "")
    for name, query, metadata in questions(args.instants):
        request = PlanRequest(table="planned", query=query, metadata=metadata)
        report.add_row(name, *measured(path, request, args.rounds))
    busy = str(make_table(CACHE / "planning-busy", 1000, 10_000, writing=1000, in_a_partition=100))
    request = PlanRequest(table="planned", query=Snapshot(), where="p = '0003'", metadata=False)
    report.add_row("one partition of 100, 1,000 commits of 100 logs", *measured(busy, request, args.rounds))
    Console(width=120).print(report)


def measured(path: str, request: PlanRequest, rounds: int) -> tuple[str, str, str]:
    """Splits, and the medians of the processor time of a plan: of a newly opened table, and repeated."""
    fresh, repeated, splits = [], [], 0
    for _ in range(rounds):
        table = open_table(path)
        seconds, splits = plan_seconds(table, request)
        fresh.append(seconds)
        repeated.append(plan_seconds(table, request)[0])
        assert not request.metadata or table.metadata_fallbacks == 0, "the metadata table was not used"
    return f"{splits:,}", f"{statistics.median(fresh):.2f}", f"{statistics.median(repeated):.2f}"


def open_seconds(path: str) -> float:
    """Processor time of opening the table and listing its timeline, in seconds."""
    began = time.process_time()
    open_table(path).timeline()
    return time.process_time() - began


def plan_seconds(table: HudiTable, request: PlanRequest) -> tuple[float, int]:
    """Processor time of a plan in seconds, and its number of splits."""
    began = time.process_time()
    splits = plan_request(table, "planned", request).splits
    return time.process_time() - began, len(splits)


if __name__ == "__main__":
    main()
