"""A group over real tables: `penstock tail PATTERN` and `penstock.Consumer` against a served lake."""

from __future__ import annotations

import json
import pathlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from penstock.engine.arrow import read
from penstock.engine.cli.output.moments import moment
from penstock.engine.consumer import ConsumedBatch, Consumer
from penstock.engine.event_time_scan import scan_event_time
from penstock.enumerator.core.rounds import Round
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.server.run import serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.enumerator.tables.registry import CONFIG, TableEntry
from penstock.proto.model.positions import EARLIEST

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


def test_tail_starts_with_a_snapshot_of_each_table(
    cli: Cli, served: tuple[str, EnumeratorService], paths: dict[str, str]
) -> None:
    result = cli("tail", "g.*", "--server", served[0], "--group", "g", "--from", "snapshot", "--exit-at-end")
    assert result.code == 0, result.stderr
    rows: defaultdict[str, list[str]] = defaultdict(list)
    for line in result.text.splitlines():
        row = json.loads(line)
        rows[row["_penstock_table"]].append(row["_hoodie_record_key"])
    snapshots = {
        name: sorted(map(str, read(path, query="snapshot").read_all().column("_hoodie_record_key").to_pylist()))
        for name, path in paths.items()
    }
    assert {name: sorted(keys) for name, keys in rows.items()} == snapshots


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


TIMED = {"t.logs": "A_positions_v9_h120", "t.files": "B_v9_colstats_cow"}
"""Tables with a column of event times."""
EVENT_TIMES = {"event_time": "ts", "event_time_unit": "ms", "max_out_of_orderness": "1 ms"}
ONE_FILE = {"max_commits_per_trigger": 1, "max_files_per_trigger": 1, "max_splits": 1}


@pytest.fixture
def timed(golden: GoldenTables) -> Iterator[tuple[str, EnumeratorService]]:
    paths = {name: str(golden.table(case)) for name, case in TIMED.items()}
    service = EnumeratorService(paths, reads=OpenTables(scan_event_time=scan_event_time), poll_ms=50)
    service.start()
    with serve_enumerator(service, "127.0.0.1:0", groups=service) as server:
        yield server.address, service
    service.stop()


def timed_batches(
    server: str, *, before_poll: Callable[[], object] = lambda: None, **options: Any
) -> Iterator[ConsumedBatch]:
    """The batches of all tables, each committed before the next one is requested."""
    with Consumer(tables="t.*", group="g", server=server, **EVENT_TIMES, **ONE_FILE, **options) as consumer:
        while not consumer.caught_up:
            before_poll()
            if (batch := consumer.poll(100)) is not None:
                yield batch
                consumer.commit(batch)


def late_rows(batches: Iterable[ConsumedBatch]) -> dict[str, int]:
    """By table: rows at or below a watermark that a batch of the table had before them, or has itself."""
    late: Counter[str] = Counter()
    marks: dict[str, datetime] = {}
    for each in batches:
        if each.watermark is not None:
            assert each.watermark.tzinfo is UTC and each.watermark >= marks.get(each.table, each.watermark)
            marks[each.table] = each.watermark
        if each.table in marks:
            times = (datetime.fromtimestamp(at / 1000, UTC) for at in each.batch.column("ts").to_pylist())
            late[each.table] += sum(at <= marks[each.table] for at in times)
    assert set(marks) == set(TIMED), "batches of each table have a watermark"
    return dict(late)


def test_each_batch_has_the_watermark_of_its_table(cli: Cli, timed: tuple[str, EnumeratorService]) -> None:
    batches = list(timed_batches(timed[0]))
    assert late_rows(batches) == dict.fromkeys(TIMED, 0)
    marks = {name: {each.watermark for each in batches if each.table == name} - {None} for name in TIMED}
    assert len(marks["t.files"]) > 1, "it advances while rows are still to come"
    described = {name: timed[1].describe_group(name, "g").watermark_us for name in TIMED}
    assert len(set(described.values())) == len(TIMED), "each table has its own"
    lowest_us = min(at_us for at_us in described.values() if at_us is not None)
    whole = json.loads(cli("groups", "describe", "t.*", "g", "--server", timed[0], "--format", "json").text)
    assert whole["watermark"] == moment(lowest_us // 1000)
    assert {each["table"]: each["watermark"] for each in whole["by_table"]} == {
        name: moment(at_us // 1000) for name, at_us in described.items() if at_us is not None
    }
    statuses = {each.summary.table: each.watermark_us for each in timed[1].describe_server().groups}
    assert statuses == {**described, "t.*": lowest_us}


def test_watermark_that_forgets_unfinished_splits_is_above_rows_to_come(timed: tuple[str, EnumeratorService]) -> None:
    """The negative control of the test above. The last round is planned before the rows of the round before it are
    read: the watermark then depends on these rows alone."""

    def wait_for_plans() -> None:
        while not is_planned_to_the_end(timed[1]):
            pass

    with patch.object(Round, "remaining_span", lambda self: EventTimeSpan()):
        assert late_rows(timed_batches(timed[0], before_poll=wait_for_plans))["t.files"]


def is_planned_to_the_end(service: EnumeratorService) -> bool:
    """Whether nothing of `t.files` remains to be planned, or nothing is planned yet: the first request begins that."""
    planned = service.describe_group("t.files", "g").summary.planned.order_key
    return planned in (EARLIEST.order_key, service.newest_position("t.files").order_key)


def test_tail_prints_the_lowest_watermark_of_the_tables(cli: Cli, timed: tuple[str, EnumeratorService]) -> None:
    flags = ("--event-time", "ts", "--event-time-unit", "ms", "--max-out-of-orderness", "1 ms")
    result = cli("tail", "t.*", "--server", timed[0], "--group", "g", *flags, "--exit-at-end")
    assert result.code == 0, result.stderr
    lines = [line.split()[1] for line in result.stderr.splitlines() if line.startswith("watermark ")]
    described = [timed[1].describe_group(name, "g").watermark_us for name in TIMED]
    lowest = datetime.fromtimestamp(min(at_us for at_us in described if at_us is not None) / 1e6, UTC)
    assert lines and lines[-1] == lowest.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert lines == sorted(lines), "no table joined meanwhile"


def test_commit_times_of_local_timelines_are_checked_by_table(golden: GoldenTables) -> None:
    """A group over tables takes `watermarkFallback=commitTime` without `timelineTimezone`: UTC timelines need none."""
    options = {**EVENT_TIMES, "watermark_fallback": "commitTime"}
    assert Consumer(tables="t.*", group="g", server="127.0.0.1:1", **options) is not None
