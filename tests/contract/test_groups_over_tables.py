"""Groups over tables: one contract for the embedded service and over gRPC, through `penstock.Consumer`."""

from __future__ import annotations

import logging
import pathlib
from collections import Counter
from typing import Any

import pytest

from penstock.engine.consumer import Consumer
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.server.auth.tokens import new_token
from penstock.enumerator.server.config.settings import AclRule, Settings
from penstock.enumerator.visibility import restricted
from penstock.proto.errors import (
    CorruptFile,
    Fenced,
    PositionExpired,
    TableError,
    TableNotFound,
    TooManyGroups,
)
from penstock.proto.model.groups import StartAt, StartSnapshot
from penstock.proto.model.positions import EARLIEST
from tests.contract.scripted_lake import ManyTables, many_tables


def rows_of(consumer: Consumer, *, commits: bool = True) -> Counter[tuple[str, str]]:
    """How many rows of each (table, split) the consumer returns now."""
    rows: Counter[tuple[str, str]] = Counter()
    while (batch := consumer.poll(0)) is not None:
        rows[batch.table, batch.split_id] += batch.batch.num_rows
        assert batch.watermark is None
        if commits:
            consumer.commit(batch)
    return rows


def both(commit: int, *tables: str) -> Counter[tuple[str, str]]:
    """All rows of a commit of tables."""
    return Counter({(table, f"{commit}/{split}"): 10 for table in tables for split in range(2)})


def test_rows_of_all_matching_tables_with_their_names(many: ManyTables) -> None:
    with many.consumer() as consumer:
        many.discover()
        assert rows_of(consumer) == both(1, "s.a", "s.b")
        many.script("s.b").newest = 2
        many.discover()
        many.clock.now_ms += 1_000
        assert rows_of(consumer) == both(2, "s.b")
        many.discover()
        many.clock.now_ms += 1_000
        assert consumer.poll(0) is None and consumer.caught_up and not consumer.table_errors


def test_members_share_the_splits_of_all_tables(many: ManyTables) -> None:
    many.serve(*(f"s.{number}" for number in range(8)))
    with many.consumer("r1", max_splits=2) as one, many.consumer("r2", max_splits=2) as two:
        many.discover()
        first, second = one.poll(0), two.poll(0)
        assert first is not None and second is not None and first.table != second.table
        rest = rows_of(one) + rows_of(two)
        for batch in (first, second):
            rest[batch.table, batch.split_id] += 10
        one.commit()
        two.commit()
        assert rest == both(1, *(f"s.{number}" for number in range(8)))


def test_tables_that_join_and_leave(many: ManyTables) -> None:
    with many.consumer() as consumer:
        many.discover()
        assert rows_of(consumer) == both(1, "s.a", "s.b")
        many.serve("s.a", "s.new", "other")
        many.script("s.b").newest = 2
        many.clock.now_ms += 1_000
        assert rows_of(consumer) == Counter(), "nothing is planned yet"
        many.discover()
        many.clock.now_ms += 1_000
        assert rows_of(consumer) == both(1, "s.new"), "from its beginning; s.b is not served"
        many.serve("s.a", "s.b", "s.new", "other")
        many.discover()
        many.clock.now_ms += 100_000
        many.discover()
        assert rows_of(consumer) == both(2, "s.b"), "it goes on at its position"


def test_latest_is_for_the_tables_that_are_there(many: ManyTables) -> None:
    with many.consumer(after="latest") as consumer:
        many.discover()
        assert rows_of(consumer) == Counter()
        many.serve("s.a", "s.b", "s.new")
        many.clock.now_ms += 1_000
        assert consumer.poll(0) is None
        many.script("s.a").newest = 2
        many.discover()
        many.clock.now_ms += 1_000
        assert rows_of(consumer) == both(2, "s.a") + both(1, "s.new")


def test_latest_reads_all_of_a_table_that_is_created_later(many: ManyTables) -> None:
    many.script("s.a").fails = [TableNotFound("it does not exist yet")]
    with many.consumer(after="latest") as consumer:
        consumer.join()
        for _ in range(2):
            many.discover()
            many.clock.now_ms += 100_000
        assert rows_of(consumer) == both(1, "s.a")


def test_full_table_joins_once_there_is_room(many: ManyTables, caplog: pytest.LogCaptureFixture) -> None:
    many.service.coordinator.settings = CoordinatorSettings(lease_ms=10_000_000, max_groups_of_table=1)
    other = Consumer(table="s.a", group="other", reader_id="o", enumerator=many.enumerator())
    other.join()
    other.close()
    with many.consumer() as consumer, caplog.at_level(logging.WARNING, logger="penstock"):
        many.discover()
        for _ in range(3):
            rows_of(consumer)
            many.clock.now_ms += 1_000
        assert "limits.groupsPerTable" in str(consumer.table_errors["s.a"])
        [line] = [record for record in caplog.records if "take no further group" in record.getMessage()]
        assert "s.a" in line.getMessage() + str(vars(line))
        many.enumerator().delete_group("s.a", "other")
        assert consumer.poll(0) is None
        many.discover()
        many.clock.now_ms += 1_000
        assert rows_of(consumer) == both(1, "s.a") and not consumer.table_errors


def test_tables_of_a_principal_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """A caller with the right `consume` on all tables cannot create more groups than the limit, by any group name."""
    token, line = new_token("one")
    (tmp_path / "tokens").write_text(line)
    (tmp_path / "one").write_text(token)
    acl = (AclRule(principal="token:one", rights=("read", "consume")),)
    settings = Settings(tokens=str(tmp_path / "tokens"), acl=acl)
    with many_tables(monkeypatch, served=True, settings=settings) as many:
        many.service.coordinator.settings = CoordinatorSettings(lease_ms=10_000_000, max_group_tables_of_principal=5)
        many.serve(*(f"s.{number}" for number in range(3)))
        for number in range(4):
            consumer = Consumer(
                tables="s.*", group=f"g{number}", reader_id="r", enumerator=many.enumerator(str(tmp_path / "one"))
            )
            if number == 0:
                consumer.join()
                continue
            with pytest.raises(TooManyGroups, match=r"groupTablesPerPrincipal allows 5.*a pattern with fewer tables"):
                consumer.join()
        assert len(many.service.list_groups()) == 4
        many.serve("s.0", "s.1")
        with many.consumer(tables="s.*", token=str(tmp_path / "one")) as consumer:
            many.serve(*(f"s.{number}" for number in range(3)))
            many.clock.now_ms += 1_000
            many.discover()
            assert rows_of(consumer) == both(1, "s.0", "s.1")
            assert "groupTablesPerPrincipal" in str(consumer.table_errors["s.2"])


def test_members_with_different_rights_do_not_repeat_the_addition_of_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with many_tables(monkeypatch, served=False) as many, many.consumer() as consumer:
        consumer.join()
        handle, added = many.service.coordinator.handle, list[ev.AddTables]()

        def counted(event: Any) -> Any:
            if isinstance(event, ev.AddTables):
                added.append(event)
            return handle(event)

        monkeypatch.setattr(many.service.coordinator, "handle", counted)
        for _ in range(5):
            for hidden in ("s.a", "s.b", ""):
                with restricted(lambda right, table, group, hidden=hidden: table != hidden):
                    many.service.groups.over_tables.present(GroupKey("s.*", "g"))
        assert len(added) == 3, "once for each set of tables"
        many.serve("s.a", "s.b", "s.new")
        many.service.groups.over_tables.present(GroupKey("s.*", "g"))
        assert len(added) == 4


@pytest.mark.parametrize(("after", "old"), [("snapshot", 0), ("earliest", 1)])
def test_each_table_starts_with_its_snapshot(many: ManyTables, after: str, old: int) -> None:
    """The negative control is `earliest`, which reads the commits before the newest one too."""
    many.script("s.a").newest = 2
    with many.consumer(after=after) as consumer:
        many.discover()
        expected = both(2, "s.a") + both(1, "s.b")
        assert rows_of(consumer) == expected + (both(1, "s.a") if old else Counter())
        many.script("s.a").newest = 3
        many.serve("s.a", "s.b", "s.new")
        many.script("s.new").newest = 2
        many.clock.now_ms += 1_000
        assert consumer.poll(0) is None
        many.discover()
        many.clock.now_ms += 1_000
        later = both(3, "s.a") + both(2, "s.new") + (both(1, "s.new") if old else Counter())
        assert rows_of(consumer) == later, "then commit after commit; a later table starts with its snapshot too"


@pytest.mark.parametrize("then", ["snapshot", "earliest"])
def test_reset_to_snapshot_is_also_for_tables_that_join_later(many: ManyTables, then: str) -> None:
    """The negative control is a second reset, to the earliest position."""
    with many.consumer() as consumer:
        consumer.join()
    reset = many.enumerator().reset_group
    reset("s.*", "g", StartSnapshot(), dry_run=False)
    if then == "earliest":
        reset("s.*", "g", StartSnapshot(), dry_run=True)
        reset("s.*", "g", StartAt(EARLIEST), dry_run=False)
    many.serve("s.a", "s.b", "s.new")
    many.script("s.new").newest = 2
    with many.consumer() as consumer:
        many.clock.now_ms += 1_000
        assert consumer.poll(0) is None
        many.discover()
        many.clock.now_ms += 1_000
        new = both(2, "s.new") if then == "snapshot" else both(1, "s.new") + both(2, "s.new")
        assert rows_of(consumer) == both(1, "s.a", "s.b") + new


def test_snapshot_that_cannot_be_planned_stops_its_table_only(many: ManyTables) -> None:
    many.script("s.a").fails = [PositionExpired("a file was cleaned meanwhile"), TableError("it cannot be read")]
    with many.consumer(after="snapshot") as consumer:
        many.discover()
        assert rows_of(consumer) == both(1, "s.b")
        many.clock.now_ms += 100_000
        many.discover()
        many.clock.now_ms += 1_000
        assert consumer.poll(0) is None and [*consumer.table_errors] == ["s.a"]
        many.enumerator().reset_group("s.*", "g", StartSnapshot(), dry_run=False)
    with many.consumer() as consumer:
        many.discover()
        assert rows_of(consumer) == both(1, "s.a", "s.b")


def test_table_that_stops_does_not_stop_the_others(many: ManyTables) -> None:
    with many.consumer() as consumer:
        many.script("s.a").fails = [TableError("it cannot be read")]
        many.discover()
        assert rows_of(consumer) == both(1, "s.b")
        many.discover()
        many.clock.now_ms += 1_000
        assert consumer.poll(0) is None and consumer.caught_up
        assert [*consumer.table_errors] == ["s.a"] and "it cannot be read" in str(consumer.table_errors["s.a"])
        assert isinstance(consumer.table_errors["s.a"], TableError)
        description = many.enumerator().describe_group("s.*", "g")
        assert [(each.summary.table, each.summary.state) for each in description.tables] == [
            ("s.a", "stopped"),
            ("s.b", "running"),
        ]
        assert (description.summary.state, description.error_code) == ("running", TableError.code)
        many.enumerator().reset_group("s.a", "g", StartAt(EARLIEST), dry_run=False)
        many.discover()
        many.clock.now_ms += 1_000
        assert rows_of(consumer) == both(1, "s.a") and not consumer.table_errors


def test_table_that_this_reader_cannot_read_is_set_aside(many: ManyTables) -> None:
    many.reading.fails = {("1/0", 0): CorruptFile("damaged")}
    with many.consumer(max_splits=1) as consumer:
        many.discover()
        rows = rows_of(consumer)
        [failed] = consumer.table_errors
        other = {"s.a": "s.b", "s.b": "s.a"}[failed]
        assert rows == both(1, other), "the rest of the failed table is not requested"
        with many.consumer("r2") as second:
            assert rows_of(second) == Counter({(failed, "1/1"): 10}), "another reader reads what was not handed out"
        many.clock.now_ms += 1_000
        assert rows_of(consumer) == Counter({(failed, "1/0"): 10}) and not consumer.table_errors


def test_reset_of_a_table_fences_its_splits_only(many: ManyTables) -> None:
    with many.consumer(max_splits=10) as consumer:
        many.discover()
        assert rows_of(consumer, commits=False) == both(1, "s.a", "s.b")
        many.enumerator().reset_group("s.a", "g", StartAt(EARLIEST), dry_run=False)
        with pytest.raises(Fenced, match=r"table s\.a"):
            consumer.commit()
        consumer.commit()
        many.discover()
        many.clock.now_ms += 1_000
        assert rows_of(consumer) == both(1, "s.a"), "s.b is committed"


def test_reader_that_joins_again_receives_what_it_did_not_commit(many: ManyTables) -> None:
    with many.consumer(max_splits=10) as old, many.consumer(max_splits=10) as new:
        many.discover()
        new.join()
        assert rows_of(new) == both(1, "s.a", "s.b")
        with pytest.raises(Fenced):
            rows_of(old)
        old.join()
        assert rows_of(old) == Counter()
