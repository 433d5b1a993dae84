"""Streams that end early, and tables that change between the plan of a flight and its read."""

from __future__ import annotations

import gc
import os
import pathlib
import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.flight as fl
import pyarrow.parquet as pq
import pytest

import penstock
from tests.unit.engine.flight.served import Client, open_files, served, wait_until

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

pytestmark = pytest.mark.golden
COW, MOR = "B_v9_inc_cow", "A_compaction_then_updates_v9_h120"


def test_client_that_reads_half_a_stream(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    with served({"cow": golden.table(COW)}) as running:
        for _ in range(3):
            reader = Client(running.address).get(Client(running.address).ticket("cow", batchRows=1))
            assert reader.read_chunk().data.num_rows == 1
            assert running.streams.open_count <= 1
            reader.cancel()
            del reader
            gc.collect()
            wait_until(lambda: running.streams.open_count == 0)
        assert open_files(golden.table(COW)) == []


def test_too_many_streams(golden: GoldenTables, big_table: pathlib.Path) -> None:
    with served({"big": big_table}, streams=2) as running:
        client = Client(running.address)
        tickets = [client.ticket("big", batchRows=100) for _ in range(3)]
        readers = [client.get(ticket) for ticket in tickets[:2]]
        for reader in readers:
            reader.read_chunk()
        with pytest.raises(fl.FlightUnavailableError, match="OVERLOADED: 2 streams are open, at most 2"):
            client.get(tickets[2]).read_all()
        readers.pop().cancel()
        wait_until(lambda: running.streams.open_count == 1)
        assert client.get(tickets[2]).read_all().num_rows
        readers.pop().cancel()


@pytest.fixture
def big_table(golden: GoldenTables, tmp_path: pathlib.Path) -> pathlib.Path:
    """A table whose base file has so many rows that no buffer of gRPC holds them."""
    folder = golden.copy(COW, tmp_path)
    for file in folder.glob("*/*.parquet"):
        rows = pq.read_table(file)
        pq.write_table(rows.take(np.arange(100_000) % rows.num_rows), file)
    return folder


def test_idle_stream_of_a_client_that_does_not_read(big_table: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are released although the call is still in progress; the client gets the error when it reads on."""
    later_s = [0.0]
    real = time.monotonic
    monkeypatch.setattr("penstock.engine.flight.run.time.monotonic", lambda: real() + later_s[0])
    with served({"big": big_table}, idle_ms=60_000) as running:
        client = Client(running.address)
        reader = client.get(client.ticket("big", batchRows=1000))
        reader.read_chunk()
        assert (running.streams.open_count, len(open_files(big_table))) == (1, 1)
        running.streams.close_idle()
        assert running.streams.open_count == 1

        def closed_after_a_minute() -> bool:
            """The server may still have sent batches, up to the buffers' size, after the previous minute."""
            later_s[0] += 61.0
            running.streams.close_idle()
            return running.streams.open_count == 0

        wait_until(closed_after_a_minute)
        assert open_files(big_table) == []
        with pytest.raises(fl.FlightUnavailableError, match="its client requested no batch for 60 s"):
            reader.read_all()


def test_cleaned_file_is_an_expired_position(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    folder = golden.copy(MOR, tmp_path)
    with served({"mor": folder}) as running:
        client = Client(running.address)
        tickets = [endpoint.ticket for endpoint in client.info("mor").endpoints]
        for file in [*folder.glob("*/*.parquet"), *folder.glob("*/.*.log.*")]:
            file.unlink()
        for ticket in tickets:
            with pytest.raises(fl.FlightServerError, match=r"POSITION_EXPIRED: .*request the flight again") as caught:
                client.get(ticket).read_all()
            assert caught.value.extra_info == b"POSITION_EXPIRED"


def test_commit_between_plan_and_read(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    """The rows are those of the plan: the commit's instant file appears after it."""
    folder = golden.copy(COW, tmp_path)
    timeline = folder / ".hoodie" / "timeline"
    last = max(file for file in timeline.iterdir() if file.suffix in (".commit", ".deltacommit"))
    hidden = tmp_path / last.name
    last.rename(hidden)
    with served({"cow": folder}) as running:
        client = Client(running.address)
        before = penstock.read(str(folder)).read_all()
        tickets = [endpoint.ticket for endpoint in client.info("cow").endpoints]
        hidden.rename(last)
        rows = pa.concat_tables([client.get(ticket).read_all() for ticket in tickets])
        assert rows.equals(before)
        after = penstock.read(str(folder)).read_all()
        assert not rows.equals(after), "the commit changes rows"
        assert client.rows("cow").equals(after)


def test_damaged_file(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    folder = golden.copy(COW, tmp_path)
    with served({"cow": folder}) as running:
        client = Client(running.address)
        ticket = client.ticket("cow")
        for file in folder.glob("*/*.parquet"):
            file.write_bytes(b"PAR1" + os.urandom(1000) + b"PAR1")
        with pytest.raises(fl.FlightServerError, match="CORRUPT_FILE: ") as caught:
            client.get(ticket).read_all()
        assert caught.value.extra_info == b"CORRUPT_FILE"


def test_table_that_cannot_be_opened_is_not_listed(
    golden: GoldenTables, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served({"cow": golden.table(COW), "none": tmp_path}) as running:
        assert sorted(Client(running.address).tables()) == ["cow"]
    assert "table none is not listed: TABLE_NOT_FOUND" in caplog.text


def test_errors_have_the_name_of_a_table_and_no_path(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    folders = {name: golden.copy(COW, tmp_path / name) for name in ("properties", "file", "commit")}
    folders |= {"empty": tmp_path / "empty", "nowhere": tmp_path / "nowhere"}
    folders["empty"].mkdir()
    (folders["properties"] / ".hoodie" / "hoodie.properties").write_text("x")
    for file in folders["file"].glob("*/*.parquet"):
        file.unlink()
    for file in (folders["commit"] / ".hoodie" / "timeline").glob("*.commit"):
        file.write_text("{")
    with served(folders) as running:
        client = Client(running.address)
        for table in folders:
            for call in (client.info, client.schema):
                if (table, call) == ("file", client.schema):
                    continue
                with pytest.raises(Exception, match=rf"[A-Z]: .*\b{table}\b") as caught:
                    call(table)
                assert str(tmp_path) not in str(caught.value), table
