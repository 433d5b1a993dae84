"""Only the embedded enumerator: table names, temporary plans, reports, the log. (Contract: tests/contract.)"""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.fs as pafs
import pytest

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.proto.errors import ConfigurationError, PenstockError, TableNotFound
from penstock.proto.logging import event_text
from penstock.proto.model.positions import EARLIEST, CommitRange, InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest, Snapshot
from penstock.proto.model.reports import EndOfSlot, SplitReport, TableDescription
from penstock.proto.model.splits import CommitTimeOrdering, FileRef, Plan, Scan, Split, VisibleInstants
from penstock.table.storage.filesystem import ArrowStorage, Storage, open_storage

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

URI = "s3://key:hush@bucket/orders?secret_key=hush"
SHOWN = "s3://bucket/orders"


@dataclass
class Script:
    """Tables whose paths start with '/lake'; each plan has two splits. `asked`: the requests."""

    asked: list[tuple[object, ...]] = field(default_factory=list)

    def check(self, path: str) -> None:
        self.asked.append(("check", path))
        if not path.startswith("/lake"):
            raise TableNotFound(f"no table at {path}")

    def describe(self, path: str, name: str) -> TableDescription:
        raise AssertionError("not asked here")

    def newest(self, path: str, after: Position | None, max_commits: int) -> Position:
        self.asked.append(("newest", path, after, max_commits))
        return Position(InstantTime("5"))

    def plan(self, path: str, name: str, request: PlanRequest) -> Plan:
        self.asked.append(("plan", path, name))
        scan = Scan(
            table=name,
            base_path=path,
            table_version=9,
            schema_json="{}",
            columns=("id",),
            merge=CommitTimeOrdering(),
            visible=VisibleInstants(frozenset()),
        )
        splits = tuple(
            Split(
                split_id=f"part a/{n}",
                partition="",
                partition_values=(),
                file_group=f"f{n}",
                order_key=InstantTime("1"),
                base=FileRef(f"f{n}.parquet", 10),
            )
            for n in range(2)
        )
        return Plan(scan=scan, commit_range=CommitRange(EARLIEST, EARLIEST), splits=splits)


def enumerator_of(script: Script, tables: dict[str, str] | None) -> EmbeddedEnumerator:
    """An enumerator with a manual clock, fixed ids and two CPUs."""
    return EmbeddedEnumerator(tables, reads=script, clock_ms=lambda: 0, new_id=lambda: "p", cpus=2)


def test_table_name_is_a_path_without_a_registry() -> None:
    script = Script()
    plan = enumerator_of(script, None).plan(PlanRequest(table="/lake/trips", query=Snapshot()))
    assert script.asked == [("plan", "/lake/trips", "/lake/trips")]
    assert (plan.scan.table, plan.scan.base_path) == ("/lake/trips", "/lake/trips")


def test_table_name_is_a_registered_name_with_a_registry() -> None:
    script = Script()
    enumerator = enumerator_of(script, {"trips": "/lake/trips"})
    enumerator.open_plan(PlanRequest(table="trips", query=Snapshot()))
    assert enumerator.newest_position("trips", EARLIEST, 3) == Position(InstantTime("5"))
    assert script.asked == [("plan", "/lake/trips", "trips"), ("newest", "/lake/trips", EARLIEST, 3)]


def test_unregistered_name_is_never_used_as_a_path() -> None:
    script = Script()
    enumerator = enumerator_of(script, {"trips": "/lake/trips", "cars": "/lake/cars"})
    with pytest.raises(TableNotFound, match=r"no table 'trip' .*did you mean 'trips'\?.; registered: cars, trips"):
        enumerator.describe_table("trip")
    with pytest.raises(TableNotFound, match="no table '/lake/trips' is registered here"):
        enumerator.plan(PlanRequest(table="/lake/trips", query=Snapshot()))
    assert script.asked == []


def test_check_opens_every_table_and_fails_on_an_invalid_one() -> None:
    script = Script()
    enumerator_of(script, {"a": "/lake/a", "b": "/lake/b"}).check_tables()
    assert script.asked == [("check", "/lake/a"), ("check", "/lake/b")]
    with pytest.raises(TableNotFound, match="no table at /elsewhere"):
        enumerator_of(script, {"a": "/elsewhere"}).check_tables()


@pytest.mark.parametrize("size", [0, -1])
def test_splits_without_a_size_are_refused(size: int) -> None:
    with pytest.raises(ConfigurationError, match=f"size of a split: got {size} bytes"):
        enumerator_of(Script(), None).plan(PlanRequest(table="/lake/a", query=Snapshot(), target_split_bytes=size))


def test_reports_can_be_read_by_entry_and_in_total() -> None:
    enumerator = enumerator_of(Script(), None)
    enumerator.open_plan(PlanRequest(table="/lake/a", query=Snapshot(), slots=1))
    for index in range(2):
        enumerator.next_split("p", 0, index)
        enumerator.finish_split("p", 0, index, SplitReport(rows=index + 1, size_bytes=10))
    assert {place: report.rows for place, report in enumerator.reports("p").items()} == {(0, 0): 1, (0, 1): 2}
    assert enumerator.totals("p") == SplitReport(rows=3, size_bytes=20)


def test_log_has_one_line_per_event_and_replays_only_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    enumerator = enumerator_of(Script(), None)
    with caplog.at_level(logging.DEBUG, "penstock.enumerator"):
        enumerator.open_plan(PlanRequest(table="/lake/a", query=Snapshot(), slots=1))
        for index in (0, 0, 1, 2, 2):
            enumerator.next_split("p", 0, index)
        enumerator.finish_split("p", 0, 0, SplitReport(rows=7, size_bytes=10, phase_ms=(("open", 1.0), ("emit", 0.5))))
    assert enumerator.next_split("p", 0, 2) == EndOfSlot()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "plan opened plan=p table=/lake/a query=Snapshot splits=2 slots=1 bytes=20 ms=0"),
        ("DEBUG", 'split assigned plan=p slot=0 index=0 split="part a/0"'),
        ("DEBUG", 'split repeated plan=p slot=0 index=0 split="part a/0"'),
        ("DEBUG", 'split assigned plan=p slot=0 index=1 split="part a/1"'),
        ("INFO", "slot sealed plan=p slot=0 splits=2"),
        ("DEBUG", "slot sealed plan=p slot=0 splits=2"),
        ("DEBUG", "split finished plan=p slot=0 index=0 rows=7 bytes=10 ms=1.5"),
    ]


def test_log_values_cannot_forge_a_line_or_a_field() -> None:
    assert event_text("x", a="b c=d\ne\u2028", n=3, empty="") == 'x a="b c=d\\ne\\u2028" n=3 empty=""'


@pytest.fixture
def behind_uri(monkeypatch: pytest.MonkeyPatch) -> Callable[[pathlib.Path], None]:
    """Opens a local table for the URI, whose store needs a password; other paths are opened unchanged."""

    def put(folder: pathlib.Path) -> None:
        def opened(path: str) -> Storage:
            return ArrowStorage(URI, pafs.LocalFileSystem(), str(folder)) if path == URI else open_storage(path)

        monkeypatch.setattr("penstock.table.hudi_table.open_storage", opened)

    return put


@pytest.mark.golden
@pytest.mark.parametrize("name", [None, "orders"])
def test_credentials_of_a_uri_are_never_reported(
    name: str | None,
    golden: GoldenTables,
    tmp_path: pathlib.Path,
    behind_uri: Callable[[pathlib.Path], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = golden.copy("A_merge_event_long_v9_h120", tmp_path)
    behind_uri(folder)
    table, called = (URI, SHOWN) if name is None else (name, name)
    enumerator = EmbeddedEnumerator(None if name is None else {name: URI})
    caplog.set_level(logging.DEBUG)

    description = enumerator.describe_table(table)
    scan = enumerator.open_plan(PlanRequest(table=table, query=Snapshot())).scan
    assert (description.table, description.base_path, scan.table) == (called, SHOWN, called)
    assert "hush" not in repr(description)
    assert scan.base_path == (URI if name is None else SHOWN), "plans that leave the process hold no credentials"

    failures: list[PenstockError] = []

    def fails(query: Snapshot | Incremental, **asked: tuple[str, ...]) -> None:
        with pytest.raises(PenstockError) as caught:
            enumerator.open_plan(PlanRequest(table=table, query=query, **asked))  # type: ignore[arg-type]
        failures.append(caught.value)

    fails(Snapshot(), columns=("none",))
    fails(Incremental(EARLIEST, Position(InstantTime("20000101000000000"))), columns=("none",))
    for file in folder.rglob("*.parquet"):
        if ".hoodie" not in file.parts:
            file.unlink()
    fails(Snapshot())
    (folder / ".hoodie" / "hoodie.properties").write_text("hoodie.table.version=99\n")
    fails(Snapshot())
    with pytest.raises(PenstockError) as unknown:
        EmbeddedEnumerator({"a": "/lake/a"}).describe_table(URI)
    reported = [*map(str, failures), str(unknown.value), *(record.getMessage() for record in caplog.records)]
    assert any(called in text for text in reported) and any("plan opened" in text for text in reported)
    assert [text for text in reported if "hush" in text] == []
