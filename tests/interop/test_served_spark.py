"""Spark writes a table through a real server, beside another writer, while driver and server are killed with SIGKILL:
real Hudi reads each batch once, and goes on with the table."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.proto.errors import WriteConflict
from penstock.table.hudi_table import open_table
from tests.faults.served import Served, until
from tests.interop.hudi_options import hudis_options
from tests.interop.test_writes import HUDIS_COLUMNS, SCHEMA, Model, Row, check, table_of
from tests.spark.line_process import LineProcess

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),  # py4j's sockets, when they are collected
]
INDEXES = {"upsert": "bucket", "insert": "simple", "format": "simple"}
BATCHES: list[list[Row]] = [
    [(f"k{number}", batch, 10 * batch + number, ("oslo", "rom")[number % 2]) for number in range(batch, batch + 6)]
    for batch in range(3)
]
DISTINCT: list[list[Row]] = [[(f"b{batch}-{row[0]}", *row[1:]) for row in rows] for batch, rows in enumerate(BATCHES)]
"""For inserts: a batch that is written twice has its rows twice."""


class Bench:
    """A table, its server, drivers over one checkpoint, and the rows that the table must have."""

    def __init__(self, folder: pathlib.Path, way: str, kind: str) -> None:
        self.folder, self.way, self.model = folder, way, Model()
        self.path, self.files = folder / "trip", folder / "in"
        self.rows = BATCHES if way == "upsert" else DISTINCT
        self.options = hudis_options(9, kind, INDEXES[way])
        self._drivers: list[LineProcess] = []
        create_table(
            str(self.path),
            SCHEMA,
            record_key="id",
            partition_by="city",
            ordering="seq",
            table_type=kind,
            table_version=9,
            index=INDEXES[way],
            buckets=3 if way == "upsert" else None,
        )
        self.files.mkdir()
        for number, rows in enumerate(self.rows):
            file = self.files / f"{number}.parquet"
            pq.write_table(table_of(rows), file)
            os.utime(file, (number, number))  # Spark takes files in the order of their times
        self.server = Served(folder, self.path, flags=("--table", f"trip={self.path}"))

    def driver(self) -> LineProcess:
        """A driver that goes on from the checkpoint."""
        script = pathlib.Path(__file__).with_name("served_driver.py")
        arguments = [self.server.address, self.way, str(self.files), str(self.folder / "checkpoint")]
        self._drivers.append(LineProcess([sys.executable, str(script), *arguments], self.folder / "driver.log"))
        return self._drivers[-1]

    def committed(self) -> int:
        """How many writes are complete."""
        return len(open_table(str(self.path)).timeline().completed_writes)

    def stop(self) -> None:
        """Ends all processes."""
        for driver in self._drivers:
            driver.kill()


@pytest.fixture
def make_bench(tmp_path: pathlib.Path) -> Iterator[Callable[[str, str], Bench]]:
    benches: list[Bench] = []

    def make(way: str, kind: str) -> Bench:
        benches.append(Bench(tmp_path, way, kind))
        benches[-1].server.start()
        return benches[-1]

    yield make
    for bench in benches:
        bench.stop()
        bench.server.__exit__(None, None, None)


def run_until(driver: LineProcess, step: str) -> list[str]:
    """Lets the driver go on until it prints `step`, where it waits; all its lines."""
    lines = [driver.line()]
    while lines[-1] != step:
        assert not lines[-1].startswith("failed"), lines[-1]
        driver.go_on()
        lines.append(driver.line())
    return lines


@pytest.mark.long
@pytest.mark.parametrize(
    ("way", "kind"),
    [("upsert", "merge_on_read"), ("insert", "copy_on_write")],
)
def test_batches_are_written_once_whatever_is_killed(
    hudi: Any, make_bench: Callable[[str, str], Bench], way: str, kind: str
) -> None:
    bench = make_bench(way, kind)
    first = bench.driver()
    run_until(first, "files 0")
    assert bench.committed() == 0 and penstock.read(str(bench.path)).read_all().num_rows == 0
    with pytest.raises(WriteConflict, match="holds"):
        penstock.write("trip", table_of(bench.rows[0][:2]), way, server=bench.server.address)
    first.kill()

    second = bench.driver()
    run_until(second, "files 0")
    bench.server.kill()
    bench.server.start()
    second.go_on()
    run_until(second, "written 0")
    assert bench.committed() == 1
    second.kill()

    third = bench.driver()
    assert run_until(third, "planned 1") == ["planned 0", "written 0", "planned 1"], "batch 0 is recognised"
    third.go_on()
    run_until(third, "files 1")
    bench.server.kill()
    third.kill()
    bench.server.start()
    assert bench.committed() == 1
    fourth = bench.driver()
    run_until(fourth, "done")
    fourth.kill()
    until(lambda: not bench.server.client().list_writes(), "no write is left")
    for rows in bench.rows:
        bench.model.upsert(rows)
    check(hudi, bench.path, bench.model, f"{way} by four drivers")
    table = open_table(str(bench.path))
    assert bench.committed() == 3 and not table.timeline().pending
    hudis: list[Row] = [("k1", 60, 61, "rom"), ("h1", 1, 98, "oslo")]
    hudi.write(bench.path, HUDIS_COLUMNS, hudis, bench.options)
    bench.model.upsert(hudis)
    check(hudi, bench.path, bench.model, "upsert by Hudi")


@pytest.mark.long
def test_format_writes_each_batch_once(hudi: Any, make_bench: Callable[[str, str], Bench]) -> None:
    bench = make_bench("format", "copy_on_write")
    first = bench.driver()
    until(lambda: bench.committed() >= 1 or bench.server.client().list_writes(), "the first batch has begun")
    first.kill()
    bench.server.kill()
    assert bench.committed() < 3, "it was killed before the end"
    bench.server.start()
    second = bench.driver()
    run_until(second, "done")
    until(lambda: not bench.server.client().list_writes(), "no write is left")
    for rows in bench.rows:
        bench.model.upsert(rows)
    check(hudi, bench.path, bench.model, "the format, by two drivers")
    assert bench.committed() == 3 and not open_table(str(bench.path)).timeline().pending


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["merge_on_read", "copy_on_write"])
def test_frames_and_a_plain_writer_share_a_table(
    spark: Any, hudi: Any, make_bench: Callable[[str, str], Bench], kind: str
) -> None:
    bench = make_bench("insert", kind)
    address = bench.server.address
    frame = spark.createDataFrame(table_of(bench.rows[0])).repartition(2)
    result = penstock.spark.write(frame, "trip", "upsert", server=address)
    assert result.rows == len(bench.rows[0])
    penstock.write("trip", table_of(bench.rows[1]), server=address)
    more = spark.createDataFrame(table_of(bench.rows[2]))
    more.write.format("penstock").mode("append").option("server", address).save("trip")
    for rows in bench.rows:
        bench.model.upsert(rows)
    check(hudi, bench.path, bench.model, "a frame, a plain writer and the format")
    assert not open_table(str(bench.path)).timeline().pending
