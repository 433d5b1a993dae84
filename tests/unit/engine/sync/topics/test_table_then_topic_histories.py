"""A copy that begins with a table and continues in its topic: golden tables and random histories, whatever fails."""

from __future__ import annotations

import itertools
import json
import pathlib
import random
import zipfile
from dataclasses import replace
from typing import Any

import pytest

from penstock.engine.sync.feed import TableFeed
from penstock.engine.sync.topics.table_then_topic import parse_table_then_topic
from penstock.engine.sync.topics.then import table_options
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.run import serve_enumerator
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.errors import (
    TargetUnavailable,
)
from penstock.proto.model.hybrid import KafkaAccess, KafkaPlace
from tests.golden_tables import GOLDEN, GoldenTables
from tests.unit.engine.sync.scripted import MemoryTarget, RandomFaults, described
from tests.unit.engine.sync.topics.tables_then_topics import (
    EventTopic,
    Row,
    copied,
    entry_of,
    feed_of,
    random_table_then_topic,
    run_to_end,
    run_to_end_waiting,
    source_of,
    unpartitioned,
)

STREAMER, SINK = "C_v6_streamer", "C_v9_sink"


class Golden:
    """A golden table, whose topic is written again as Debezium's events, with other events from the hand-over on."""

    def __init__(self, golden: GoldenTables, name: str, folder: pathlib.Path) -> None:
        case = golden.case(name)
        self.ends = {int(number): end for number, end in case["handover"]["offsets"].items()}
        self.table = str(next(path.parent for path in golden.table(name).rglob(".hoodie") if path.is_dir()))
        columns = {"id": "string", "region": "string", "amount": "int64", "ts": "int64"}
        self.topic = EventTopic(case["handover"]["topic"], columns=columns, most=5)
        for line in (GOLDEN / case["kafka"]["topic_dump"]).read_text().splitlines():
            one = json.loads(line)
            if one["offset"] < self.ends[one["partition"]]:
                self.topic.put(one["partition"], one["value"], offset=one["offset"])
        self.topic.ends.update(self.ends)
        self.rows: dict[str, Row] = {
            row["id"]: {name: row[name] for name in columns} for row in golden.expected(name, "snapshot").to_pylist()
        }
        text = 'options.kafkaPartitioner = "any"\n'
        if "checkpoint" in case:
            with zipfile.ZipFile(GOLDEN / case["checkpoint"]) as packed:
                packed.extractall(folder / "checkpoint")
            text += f"options.kafkaCheckpoint = {json.dumps(str(folder / 'checkpoint'))}\n"
        self.source = source_of(entry_of(text), self.table, self.topic.topic)

    def put(self, partition: int, row: Row, op: str = "u") -> None:
        """An event after the hand-over."""
        self.topic.put(partition, row, op)
        self.rows = {key: one for key, one in self.rows.items() if key != row["id"]}
        if op != "d":
            self.rows[row["id"]] = row

    def feed(self, shift: tuple[int, int] = (0, 0)) -> Any:
        """A feed; `shift` moves the offset of a partition by a number."""
        entry = self.source.entry
        table = TableFeed(self.table, table_options(entry))
        table._embedded = table._enumerator = EmbeddedEnumerator(reads=OpenTables(1, open_topic=self.topic.open))
        exact = table.hand_over

        def shifted(position: str, hybrid: Any) -> KafkaPlace | None:
            place = exact(position, hybrid)
            assert place is not None
            moved = {number: at + shift[1] * (number == shift[0]) for number, at in place.starts}
            return replace(place, starts=tuple(moved.items()))

        table.hand_over = shifted  # type: ignore[method-assign]
        return feed_of(table, self.topic, entry)


def events_after(one: Golden) -> None:
    """A row whose last event below the offsets lost in the table, a delete at the offset, an insert, an update."""
    one.put(1, {**one.rows["o3"]}, "d")
    one.put(0, {**one.rows["o2"], "amount": 5})
    one.put(2, {"id": "o77", "region": "eu", "amount": 77, "ts": 1})


@pytest.mark.golden
@pytest.mark.parametrize("name", [STREAMER, SINK])
def test_golden_table_and_then_its_topic(golden: GoldenTables, tmp_path: pathlib.Path, name: str) -> None:
    one, target = Golden(golden, name, tmp_path), MemoryTarget()
    run_to_end(one.feed, target, one.source)
    assert copied(target) == one.rows and len(one.rows) > 20
    at = parse_table_then_topic(target.tables["t"].positions[one.source.source], one.topic.topic)
    assert (at.point, dict(at.topic.offsets)) == ("", one.ends) and at.instant
    events_after(one)
    run_to_end(one.feed, target, one.source)
    assert copied(target) == one.rows and "o3" not in one.rows
    assert all(one.topic.lowest[number] >= 0 for number in one.ends)


@pytest.mark.golden
def test_golden_table_of_a_server_and_then_its_topic(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    """The server resolves the offsets with its own settings of the topic."""
    one, target = Golden(golden, STREAMER, tmp_path), MemoryTarget()
    events_after(one)
    access = KafkaAccess(client=(("bootstrap.servers", "of the server"),))
    name = one.topic.topic
    reads = OpenTables(1, open_topic=one.topic.open, topics={name: access})
    with serve_enumerator(EmbeddedEnumerator({name: one.table}, reads=reads), "127.0.0.1:0") as server:
        entry = entry_of(f'server = "{server.address}"\noptions.kafkaPartitioner = "any"\n')

        def feed() -> Any:
            return feed_of(TableFeed(name, table_options(entry)), one.topic, entry)

        run_to_end(feed, target, source_of(entry, name, name))
    assert copied(target) == one.rows


@pytest.mark.golden
@pytest.mark.parametrize("shift", [(1, -1), (1, 1), (0, 1)])
def test_offset_beside_the_hand_over_gives_other_rows(
    golden: GoldenTables, tmp_path: pathlib.Path, shift: tuple[int, int]
) -> None:
    """The last event of partition 1 below the hand-over is older by its ordering field: the table did not take it."""
    one, target = Golden(golden, STREAMER, tmp_path), MemoryTarget()
    events_after(one)
    run_to_end(lambda: one.feed(shift), target, one.source)
    assert copied(target) != one.rows


@pytest.mark.golden
@pytest.mark.parametrize("name", [STREAMER])
def test_golden_table_under_kills_at_every_step(golden: GoldenTables, tmp_path: pathlib.Path, name: str) -> None:
    one = Golden(golden, name, tmp_path)
    events_after(one)
    calls = itertools.count()
    target = MemoryTarget(lambda where: next(calls) and None)
    run_to_end(one.feed, target, one.source)
    for killed in range(next(calls)):
        target = MemoryTarget(DiesOnce(killed))
        assert run_to_end(one.feed, target, one.source) == 2
        assert copied(target) == one.rows


class DiesOnce:
    """Raises at the call after so many."""

    def __init__(self, calls: int) -> None:
        self._left = calls

    def __call__(self, where: str) -> None:
        """Perhaps raises."""
        self._left -= 1
        if self._left == -1:
            raise TargetUnavailable(where)


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_random_histories_end_with_the_rows_of_the_topic(seed: int, moves: bool) -> None:
    rng = random.Random(seed)
    table, rows = random_table_then_topic(rng, moves=moves)
    table.now = described(partition_fields=("p",) if moves else ())
    table.topic.pending = 3
    if not moves:  # rows of an unpartitioned table have an empty partition
        table.feed = unpartitioned(table.feed)
    target = MemoryTarget(RandomFaults(rng, most=10))
    table.feed.fault = table.topic.fault = target.fault
    entry = entry_of()
    run_to_end_waiting(lambda: feed_of(table, table.topic, entry), target, source_of(entry))
    assert copied(target) == rows
