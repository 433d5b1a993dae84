"""Two writers share a table through a server: real Hudi reads what both wrote, and goes on with the table, and they
go on after Hudi."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.service.remote_transaction import write_server
from penstock.engine.write.service.served_timeline import ServedTimeline
from penstock.enumerator.server.assembly import TableFunctions
from penstock.enumerator.server.run import serve
from penstock.proto.errors import WriteConflict
from tests.interop.hudi_options import hudis_options
from tests.interop.test_writes import HUDIS_COLUMNS, SCHEMA, Model, Row, check, table_of
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
