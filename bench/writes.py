"""Writes of Penstock beside those of Hudi's Spark bundle: CPU seconds, wall seconds, bytes.

    python -m bench.writes [--rows 1000000] [--rounds 3] [--only PART …] [--out FILE.md]

Both write the same Parquet files with rows of TPC-H's lineitem into their own tables of version 9, with a bucket index
and without the metadata table. Each round of an upsert starts from a fresh copy of the table after its bulk insert. The
tables must hold equal rows after each part. The first round warms both (the JVM, the kernels) and does not count; the
table has medians, and ratios Hudi / Penstock. Hudi's CPU is that of its process tree, Penstock's that of this process.

Both have their default settings. The goal for bytes is at most 1.05 of Hudi's; fewer are better. Hudi's base files
have the codec gzip, and its decimals no dictionary; Penstock's have zstd. Hudi's log blocks are Avro without
compression; Penstock's are Parquet, so that large upserts to merge on read have a tenth of the bytes. A small upsert
is mostly the schema and the footer of each log.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

import penstock
from bench.compare import hudi_command
from bench.compared.columns import LINEITEM, select
from bench.compared.processes import Worker

KEY, ORDERING, PARTITION = "l_id", "l_version", "l_shipmode"
BUCKETS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One write that is measured."""

    name: str
    """Its name in the report."""
    operation: str
    """The operation, as both name it."""
    table_type: str = "COPY_ON_WRITE"
    """Hudi's type of the table."""
    partitioned: bool = False
    """Whether the table is partitioned by PARTITION."""
    one_in: int = 1
    """Every nth row of the table is written: n."""
    service: str = ""
    """The table service that is measured, `compaction` or `clustering`, after the writes; '' to measure the write."""

    @property
    def upserts(self) -> bool:
        """Whether the table has all rows before."""
        return self.operation == "upsert"

    @property
    def index(self) -> str:
        """The index of the table: groups of buckets cannot be clustered."""
        return "simple" if self.service == "clustering" else "bucket"


PARTS = (
    Part(name="bulk insert", operation="bulk_insert"),
    Part(name="insert, partitioned", operation="insert", partitioned=True),
    Part(name="upsert of 10 %, copy on write", operation="upsert", one_in=10),
    Part(name="upsert of 0.1 %, copy on write", operation="upsert", one_in=1000),
    Part(name="upsert of 10 %, merge on read", operation="upsert", table_type="MERGE_ON_READ", one_in=10),
    Part(name="upsert of 0.1 %, merge on read", operation="upsert", table_type="MERGE_ON_READ", one_in=1000),
    Part(
        name="compaction of an upsert of 10 %",
        operation="upsert",
        table_type="MERGE_ON_READ",
        one_in=10,
        service="compaction",
    ),
    Part(name="clustering of 4 bulk inserts, sorted", operation="bulk_insert", service="clustering"),
)
BULK_INSERTS = 4
SORT_BY = "l_partkey"


@dataclass(frozen=True, slots=True)
class Figures:
    """The cost of one write."""

    cpu_s: float
    """CPU seconds."""
    wall_s: float
    """Seconds of wall time."""
    size_bytes: int
    """Size of the data files that it created."""


class Hudi:
    """Writes with Hudi's bundle in Spark."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def rows(self, path: pathlib.Path, rows: int, one_in: int, salt: int) -> pathlib.Path:
        """Writes rows of lineitem into Parquet files."""
        query = select(LINEITEM, 0, rows, one_in, ts=salt, salt=salt, parts=2)
        self._worker.ask({"do": "parquet", "path": str(path), "select": query})
        return path

    def write(self, table: pathlib.Path, rows: pathlib.Path, part: Part, operation: str) -> Figures:
        """One write."""
        before = data_files(table)
        request = {"do": "write", "path": str(table), "select": f"SELECT * FROM parquet.`{rows}`"}
        _, cost = self._worker.costed({**request, "options": hudis_options(part, operation)})
        return Figures(cost.cpu_s, cost.wall_s, new_bytes(table, before))

    def serve(self, table: pathlib.Path, part: Part) -> Figures:
        """Plans and carries out the part's service."""
        before = data_files(table)
        options = {name: value for name, value in hudis_options(part, "upsert").items() if value}
        options |= {
            "hoodie.compact.inline.max.delta.commits": "1",
            "hoodie.clustering.plan.strategy.small.file.limit": str(1 << 40),
            "hoodie.clustering.plan.strategy.target.file.max.bytes": str(1 << 40),
            "hoodie.clustering.plan.strategy.max.bytes.per.group": str(1 << 40),
            "hoodie.clustering.plan.strategy.sort.columns": SORT_BY,
        }
        text = ",".join(f"{name}={value}" for name, value in options.items())
        call = f"CALL run_{part.service}(op => 'scheduleAndExecute', path => '{table}', options => '{text}')"
        _, cost = self._worker.costed({"do": "sql", "text": call})
        return Figures(cost.cpu_s, cost.wall_s, new_bytes(table, before))


class Penstock:
    """Writes with Penstock, in this process."""

    def write(self, table: pathlib.Path, rows: pathlib.Path, part: Part, operation: str) -> Figures:
        """One write, which creates the table if there is none."""
        before = data_files(table)
        cpu, wall = time.process_time(), time.perf_counter()
        data = pq.read_table(rows)
        if not table.exists():
            penstock.create_table(
                str(table),
                data.schema,
                record_key=KEY,
                ordering=ORDERING,
                partition_by=PARTITION if part.partitioned else (),
                table_type=part.table_type.lower(),
                index=part.index,
                buckets=None if part.index == "simple" else 1 if part.partitioned else BUCKETS,
            )
        penstock.write(str(table), data, operation)
        return Figures(time.process_time() - cpu, time.perf_counter() - wall, new_bytes(table, before))

    def serve(self, table: pathlib.Path, part: Part) -> Figures:
        """Plans and carries out the part's service."""
        before = data_files(table)
        cpu, wall = time.process_time(), time.perf_counter()
        if part.service == "compaction":
            penstock.compact(str(table))
        else:
            sizes = penstock.ClusteringSizes(target_file_bytes=1 << 40, small_file_bytes=1 << 40)
            penstock.cluster(str(table), sort_by=[SORT_BY], sizes=sizes)
        return Figures(time.process_time() - cpu, time.perf_counter() - wall, new_bytes(table, before))


def hudis_options(part: Part, operation: str) -> dict[str, str]:
    """The options of Hudi's writer for the table that `Penstock.write` creates."""
    return {
        "hoodie.table.name": "bench",
        "hoodie.datasource.write.table.type": part.table_type,
        "hoodie.datasource.write.recordkey.field": KEY,
        "hoodie.datasource.write.precombine.field": ORDERING,
        "hoodie.datasource.write.partitionpath.field": PARTITION if part.partitioned else "",
        "hoodie.datasource.write.operation": operation,
        "hoodie.index.type": part.index.upper(),
        "hoodie.bucket.index.num.buckets": "1" if part.partitioned else str(BUCKETS),
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.compact.inline": "false",
        **{f"hoodie.{step}.shuffle.parallelism": "2" for step in ("upsert", "insert", "bulkinsert")},
    }


def data_files(table: pathlib.Path) -> dict[pathlib.Path, int]:
    """The data files of a table, with their sizes."""
    files = (file for file in table.rglob("*") if file.is_file() and ".hoodie" not in file.parts)
    names = (".crc", "_metadata")
    return {file: file.stat().st_size for file in files if not file.name.endswith(names)}


def new_bytes(table: pathlib.Path, before: dict[pathlib.Path, int]) -> int:
    """The size of the data files that were created since."""
    return sum(size for file, size in data_files(table).items() if file not in before)


def check_equal(ours: pathlib.Path, hudis: pathlib.Path) -> int:
    """The number of rows of both tables. AssertionError unless their rows are equal."""
    sorted_rows = []
    for table in (ours, hudis):
        rows = penstock.read(str(table), meta=False).read_all()
        sorted_rows.append(rows.select(sorted(rows.schema.names)).sort_by(KEY))
    mine, others = sorted_rows
    assert mine.num_rows == others.num_rows, f"{ours}: {mine.num_rows} rows, Hudi wrote {others.num_rows}"
    assert mine.equals(others.cast(mine.schema)), f"{ours}: rows differ from those of {hudis}"
    return int(mine.num_rows)


def rounds_of(
    part: Part, hudi: Hudi, scratch: pathlib.Path, sources: dict[int, pathlib.Path], rounds: int
) -> Iterator[tuple[Figures, Figures]]:
    """(Penstock, Hudi) of each round after the first."""
    tables = {"penstock": Penstock(), "hudi": hudi}
    for name, writer in tables.items() if part.upserts or part.service else ():
        for _ in range(BULK_INSERTS if part.service == "clustering" else 1):
            writer.write(scratch / f"{name}-before", sources[0], part, "bulk_insert")
        if part.service == "compaction":
            writer.write(scratch / f"{name}-before", sources[part.one_in], part, part.operation)
    for number in range(rounds + 1):
        figures = []
        for name, writer in tables.items():
            table = scratch / name
            shutil.rmtree(table, ignore_errors=True)
            if part.upserts or part.service:
                shutil.copytree(scratch / f"{name}-before", table)
            if part.service:
                figures.append(writer.serve(table, part))
            else:
                figures.append(writer.write(table, sources[part.one_in if part.upserts else 0], part, part.operation))
        check_equal(scratch / "penstock", scratch / "hudi")
        if number:
            yield figures[0], figures[1]


def line(part: Part, rounds: Sequence[tuple[Figures, Figures]]) -> str:
    """A row of the report."""

    def median(name: str, place: int) -> float:
        return statistics.median(float(getattr(figures[place], name)) for figures in rounds)

    def ratio(name: str) -> str:
        ratios = sorted(getattr(hudis, name) / max(1e-9, getattr(ours, name)) for ours, hudis in rounds)
        return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"

    seconds = f"{median('cpu_s', 0):.2f} | {median('cpu_s', 1):.2f} | {ratio('cpu_s')} | {ratio('wall_s')}"
    sizes = f"{median('size_bytes', 0) / 1e6:.1f} | {median('size_bytes', 0) / max(1, median('size_bytes', 1)):.2f}"
    return f"| {part.name} | {seconds} | {sizes} |"


HEAD = """| write | CPU s | CPU s, Hudi | CPU, Hudi / Penstock | wall, Hudi / Penstock | MB | bytes, Penstock / Hudi |
|---|---|---|---|---|---|---|"""


def main() -> None:
    """Runs the parts and prints the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", default=[], metavar="PART")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    pa.set_cpu_count(2)
    console = Console(highlight=False, soft_wrap=True)
    lines = [f"{args.rows:,} rows of lineitem, {args.rounds} rounds after a warm one.", "", HEAD]
    console.print("\n".join(lines), markup=False)
    with tempfile.TemporaryDirectory(prefix="bench-writes-") as folder, Worker(hudi_command()) as worker:
        scratch, hudi = pathlib.Path(folder), Hudi(worker)
        steps = {0: 1, **{part.one_in: part.one_in for part in PARTS if part.upserts}}
        sources = {
            name: hudi.rows(scratch / f"rows-{name}", args.rows, step, salt=min(name, 1))
            for name, step in steps.items()
        }
        for part in PARTS:
            if args.only and part.name not in args.only:
                continue
            with tempfile.TemporaryDirectory(dir=folder) as tables:
                rounds = list(rounds_of(part, hudi, pathlib.Path(tables), sources, args.rounds))
            lines.append(line(part, rounds))
            console.print(lines[-1], markup=False)
    if args.out:
        args.out.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
