"""A group over real tables: `penstock tail PATTERN` and `penstock.Consumer` against a served lake."""

from __future__ import annotations

import json
import pathlib
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from penstock.engine.arrow import read
from penstock.engine.consumer import Consumer
from penstock.enumerator.server.run import serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.tables.registry import CONFIG, TableEntry

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables
    from tests.unit.engine.cli.command_line import Cli

pytestmark = [pytest.mark.golden, pytest.mark.timeout(300)]
CASES = {
    "g.merged": "A_compaction_then_updates_v9_h120",
    "g.by_time": "A_merge_event_long_v6_h0150",
    "g.by_commit": "A_merge_commit_long_v6_h0150",
}
"""Tables of different versions and schemas."""


@pytest.fixture
def paths(golden: GoldenTables, tmp_path: pathlib.Path) -> dict[str, str]:
    """Copies of the tables, one of which tests may damage; the last two have the same splits."""
    found = {name: str(golden.copy(case, tmp_path / name)) for name, case in CASES.items()}
    return {**found, "g.copy": str(golden.copy(CASES["g.merged"], tmp_path / "g.copy"))}


@pytest.fixture
def served(paths: dict[str, str]) -> Iterator[tuple[str, EnumeratorService]]:
    service = EnumeratorService({**paths, "other": paths["g.merged"]}, poll_ms=50)
    service.start()
    with serve_enumerator(service, "127.0.0.1:0", groups=service) as server:
        yield server.address, service
    service.stop()


def keys_of(rows: list[dict[str, Any]]) -> list[str]:
    """The rows by their record keys, sorted."""
    return sorted(str(row["_hoodie_record_key"]) for row in rows)


def expected(paths: dict[str, str]) -> dict[str, list[str]]:
    """The record keys of each table."""
    return {
        name: keys_of(read(path, query="incremental", after="earliest").read_all().to_pylist())
        for name, path in paths.items()
    }


def test_tail_prints_the_rows_of_all_tables_with_their_names(
    cli: Cli, served: tuple[str, EnumeratorService], paths: dict[str, str]
) -> None:
    result = cli("tail", "g.*", "--server", served[0], "--group", "g", "--exit-at-end")
    assert result.code == 0, result.stderr
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in result.text.splitlines():
        row = json.loads(line)
        rows[row.pop("_penstock_table")].append(row)
    assert {name: keys_of(of_table) for name, of_table in rows.items()} == expected(paths)
    assert cli("tail", "g.*", "--server", served[0], "--group", "g", "--exit-at-end").text == "", "all is committed"


def test_output_folder_has_a_folder_of_each_table(
    cli: Cli, served: tuple[str, EnumeratorService], paths: dict[str, str], tmp_path: pathlib.Path
) -> None:
    out = tmp_path / "out"
    result = cli("tail", "g.*", "--server", served[0], "--group", "g", "--exit-at-end", "--output-dir", str(out))
    assert result.code == 0, result.stderr
    keys = {
        folder.name.replace("%2E", "."): keys_of(
            [row for file in folder.glob("*.parquet") for row in pq.read_table(file).to_pylist()]
        )
        for folder in out.iterdir()
        if folder.is_dir()
    }
    assert keys == expected(paths), "also of a copy of a table, whose splits have the same ids"


def test_damaged_table_does_not_stop_the_others(
    cli: Cli, served: tuple[str, EnumeratorService], paths: dict[str, str]
) -> None:
    for file in pathlib.Path(paths["g.by_time"]).rglob("*.parquet"):
        if ".hoodie" not in file.parts:
            file.write_bytes(b"PAR1" + bytes(file.stat().st_size - 8) + b"PAR1")
    result = cli("tail", "g.*", "--server", served[0], "--group", "g", "--exit-at-end")
    assert result.code == 3, result.stderr
    assert "table g.by_time" in result.stderr
    rows = [json.loads(line) for line in result.text.splitlines()]
    others = expected_without(paths, "g.by_time")
    assert {name: keys_of([row for row in rows if row["_penstock_table"] == name]) for name in others} == others
    assert {row["_penstock_table"] for row in rows} == set(others)


def expected_without(paths: dict[str, str], table: str) -> dict[str, list[str]]:
    """The record keys of the other tables."""
    return expected({name: path for name, path in paths.items() if name != table})


def test_batches_have_the_schema_of_their_table(served: tuple[str, EnumeratorService], paths: dict[str, str]) -> None:
    schemas = {}
    with Consumer(tables="g.*", group="g", server=served[0]) as consumer:
        while not consumer.caught_up:
            if (batch := consumer.poll(100)) is not None:
                schemas[batch.table] = batch.batch.schema
                consumer.commit(batch)
        entries = (TableEntry(name, path) for name, path in [*paths.items(), ("g.new", paths["g.copy"])])
        served[1].tables.put_source(CONFIG, entries)
        while (batch := consumer.poll(100)) is None:
            pass
        assert batch.table == "g.new", "a table that appears is read from its beginning"
    for name, path in paths.items():
        assert schemas[name] == read(path, query="incremental", after="earliest").schema
