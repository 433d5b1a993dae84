"""Writers share a table through a server: real Hudi reads what they wrote, and goes on with the table, and they go on
after Hudi. A server that is killed again and again loses no accepted write, and makes no refused one visible."""

from __future__ import annotations

import json
import os
import pathlib
import random
import sys
from typing import Any

import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.service.remote_transaction import write_server
from penstock.engine.write.service.served_timeline import ServedTimeline
from penstock.enumerator.server.assembly import TableFunctions
from penstock.enumerator.server.run import serve
from penstock.proto.errors import WriteConflict
from penstock.table.hudi_table import open_table
from tests.faults.served import Served, until
from tests.interop import served_writer
from tests.interop.hudi_options import hudis_options
from tests.interop.test_writes import HUDIS_COLUMNS, SCHEMA, Model, Row, check, table_of
from tests.spark.line_process import LineProcess
from tests.unit.engine.write.service.coordinated import write_through

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


@pytest.mark.parametrize(("version", "kind", "index"), [(9, "merge_on_read", "bucket"), (6, "copy_on_write", "simple")])
def test_hudi_goes_on_after_two_writers_of_a_server(
    hudi: Any, tmp_path: pathlib.Path, version: int, kind: str, index: str
) -> None:
    path, model = tmp_path / "trip", Model()
    create_table(
        str(path),
        SCHEMA,
        record_key="id",
        partition_by="city",
        ordering="seq",
        table_type=kind,
        table_version=version,
        index=index,
        buckets=3 if index == "bucket" else None,
    )
    options = hudis_options(version, kind, index)
    with serve({"trip": str(path)}, "127.0.0.1:0", functions=TableFunctions(timelines=ServedTimeline)) as running:

        def both_write(first: list[Row], second: list[Row], refused: list[Row]) -> None:
            """The second writer begins and completes while the first one has written its files."""

            def meanwhile() -> None:
                penstock.write("trip", table_of(second), server=running.address)
                with pytest.raises(WriteConflict):
                    penstock.write("trip", table_of(refused), server=running.address)

            write_through(write_server(running.address, None), "trip", table_of(first), after=meanwhile)
            model.upsert(first)
            model.upsert(second)

        oslo: list[Row] = [(f"k{n}", 10, n, "oslo") for n in range(1, 11)]
        riga: list[Row] = [(f"k{n}", 10, n, "riga") for n in range(11, 21)]
        both_write(oslo, riga, [("k1", 11, 99, "oslo"), ("k2", 11, 99, "oslo"), ("k3", 11, 99, "oslo")])
        check(hudi, path, model, "two writers through a server, and one that was refused")

        hudis: list[Row] = [("k1", 60, 61, "oslo"), ("k12", 1, 98, "riga"), ("k41", 60, 65, "wien")]
        hudi.write(path, HUDIS_COLUMNS, hudis, options)
        model.upsert(hudis)
        check(hudi, path, model, "upsert by Hudi")

        both_write(
            [("k1", 70, 71, "oslo"), ("k50", 1, 1, "oslo")],
            [("k41", 70, 72, "wien"), ("k12", 70, 73, "riga")],
            [("k1", 80, 99, "oslo")],
        )
        check(hudi, path, model, "two writers after Hudi")
    hudi.write(path, HUDIS_COLUMNS, hudis, options)
    model.upsert(hudis)
    check(hudi, path, model, "Hudi after the server has ended")


WRITERS, WRITES, KILLS = 3, 4, 4


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("kind", "index"), [("merge_on_read", "bucket"), pytest.param("copy_on_write", "simple", marks=pytest.mark.long)]
)
def test_killed_server_keeps_accepted_writes_alone(hudi: Any, tmp_path: pathlib.Path, kind: str, index: str) -> None:
    path, rng = tmp_path / "trip", random.Random(f"{kind} {index}")
    create_table(
        str(path),
        SCHEMA,
        record_key="id",
        partition_by="city",
        ordering="seq",
        table_type=kind,
        index=index,
        buckets=3 if index == "bucket" else None,
    )
    server = Served(tmp_path, path, flags=("--table", f"trip={path}")).start()
    script = pathlib.Path(served_writer.__file__)
    writers = [
        LineProcess(
            [sys.executable, str(script), server.address, str(number), str(WRITES)],
            tmp_path / "writers.log",
            {"PYTHONPATH": os.pathsep.join([str(pathlib.Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])])},
        )
        for number in range(WRITERS)
    ]
    ends: dict[tuple[int, int], str] = {}
    try:
        for kill in range(WRITERS * WRITES):
            number = kill % WRITERS
            write, end = json.loads(writers[number].line())
            ends[number, write] = end
            if kill < KILLS:
                if rng.random() < 0.7:  # in the middle of a write
                    until(lambda: server.client().list_writes() or not _is_running(writers), "another write")
                server.kill()
                server.start()
        until(lambda: not server.client().list_writes(), "no write is left")
        _check_ends(hudi, path, ends, hudis_options(9, kind, index))
    finally:
        for writer in writers:
            writer.kill()
        server.__exit__(None, None, None)


def _is_running(writers: list[LineProcess]) -> bool:
    """Whether a writer has writes left."""
    return any(pathlib.Path(f"/proc/{each.pid}/cmdline").read_bytes() for each in writers)


def _check_ends(hudi: Any, path: pathlib.Path, ends: dict[tuple[int, int], str], options: Any) -> None:
    """Each accepted write is in the table once, each refused one not at all; Hudi reads the same, and writes on."""
    assert set(ends.values()) <= {"accepted", "refused", "unknown"} and "accepted" in ends.values(), ends
    table = penstock.read(str(path)).read_all()
    stored = [key for key in table["id"].to_pylist() if key.startswith("w")]
    assert len(stored) == len(set(stored)), "no row twice"
    model = Model()
    for (writer, write), end in sorted(ends.items()):
        rows = served_writer.rows_of(writer, write)
        visible = {row[0] for row in rows if row[0].startswith("w")} & set(stored)
        assert len(visible) == {"accepted": 2, "refused": 0}.get(end, len(visible)) and len(visible) in (0, 2), (
            writer,
            write,
            end,
        )
        if visible:
            model.upsert(rows)
    check(hudi, path, model, f"writers of a killed server: {sorted(ends.values())}")
    timeline = open_table(str(path)).timeline()
    assert not timeline.pending
    hudis: list[Row] = [("own-0", 60, 61, served_writer.CITIES[0]), ("h1", 1, 98, "oslo")]
    hudi.write(path, HUDIS_COLUMNS, hudis, options)
    model.upsert(hudis)
    check(hudi, path, model, "upsert by Hudi")
