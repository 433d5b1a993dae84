"""Files of a micro-batch are cleaned after its offset was written, before or after it was planned.

Real Hudi wrote the table: five commits, each followed by a clean. The test deletes the files that a cleaner which
retains one commit less would have deleted.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.engine.arrow import read
from penstock.engine.spark.load import loaded
from penstock.engine.spark.planning import schema_of
from penstock.engine.spark.stream.reader import PenstockStreamReader
from penstock.engine.stream_offsets import Offset
from penstock.proto.errors import CorruptFile, PositionExpired
from penstock.proto.options.registry import EntryPoint
from tests.scripted_timeline import ScriptedTimeline

pytestmark = pytest.mark.golden

CASE = "B_up_cow_cdc_v9"


class World:
    """The table as of commit `lost`; then its files are deleted and later commits are added."""

    def __init__(self, path: pathlib.Path, aside: pathlib.Path, lost: int = -3) -> None:
        self.path = path
        self.script = ScriptedTimeline(path, aside)
        self.begin, self.lost = self.script.data[lost - 1], self.script.data[lost]
        self.last = self.script.data[-1]
        self.script.remove_after(self.lost)

    def key(self, instant: str) -> str:
        return self.script.keys[instant]

    def stream(self, **options: str) -> PenstockStreamReader:
        options_map = {"path": str(self.path), "after": self.key(self.begin), "maxCommitsPerTrigger": "1", **options}
        load = loaded(options_map, EntryPoint.STREAM, {})
        return PenstockStreamReader(load, schema_of(load), pause=lambda seconds: None)

    def clean(self) -> None:
        for file in self.path.rglob(f"*{self.lost}*"):
            if ".hoodie" not in file.parts:
                file.unlink()
        self.script.give(*{name.name[:17] for name in self.script.aside.iterdir()})

    def expected(self, query: str, after: str, upto: str) -> list[str]:
        batch_rows = read(str(self.path), query=query, after=after, upto=upto)
        return texts(batch_rows.read_all())


@pytest.fixture
def world(golden: Any, tmp_path: pathlib.Path) -> World:
    return World(golden.copy(CASE, tmp_path), tmp_path / "aside")


def texts(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())


def rows(stream: PenstockStreamReader, partitions: list[InputPartition]) -> list[str]:
    return sorted(repr(row) for one in partitions for batch in stream.read(one) for row in batch.to_pylist())


def planned_end(stream: PenstockStreamReader) -> tuple[Offset, Offset]:
    """The first micro-batch as Spark stores it in the checkpoint."""
    start = stream.initialOffset()
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert end != start
    return start, end


def later_rows(stream: PenstockStreamReader, start: Offset, *, one_by_one: bool = True) -> list[str]:
    """The rows of all later micro-batches: one per commit, or one for all commits."""
    result: list[str] = []
    limit = stream.getDefaultReadLimit() if one_by_one else ReadAllAvailable()
    while (end := stream.latestOffset(start, limit)) != start:
        result += rows(stream, stream.partitions(start, end))
        start = end
    return sorted(result)


LOSES = [{"failOnDataLoss": "false"}, {"onLostRange": "earliest"}]


@pytest.mark.parametrize(("lost", "left"), [(-4, 1), (-3, 0)])
@pytest.mark.parametrize("option", [*LOSES, {"onLostRange": "snapshot"}])
def test_batch_of_rows_lost_before_planning_has_the_rows_not_overwritten_later(
    golden: Any, tmp_path: pathlib.Path, option: dict[str, str], lost: int, left: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The query restarts from its checkpoint, where it would otherwise fail for ever. No row is lost or repeated."""
    world = World(golden.copy(CASE, tmp_path), tmp_path / "aside", lost)
    start, end = planned_end(world.stream(**option))
    world.clean()
    again = world.stream(**option)
    first = rows(again, again.partitions(start, end))
    assert len(first) == left and all(f"'_hoodie_commit_time': '{world.lost}'" in row for row in first)
    assert f"the micro-batch up to {world.key(world.lost)} can no longer be planned" in caplog.text
    everything = world.expected("incremental", world.key(world.begin), world.key(world.last))
    assert rows(again, again.partitions(start, end)) == first, "planned again, it is the same"
    assert sorted(first + later_rows(again, end, one_by_one=False)) == everything


@pytest.mark.parametrize("option", LOSES)
def test_batch_of_changes_lost_before_planning_is_skipped(
    world: World, option: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    start, end = planned_end(world.stream(query="cdc", **option))
    world.clean()
    again = world.stream(query="cdc", **option)
    assert rows(again, again.partitions(start, end)) == []
    assert f"the micro-batch up to {world.key(world.lost)} can no longer be planned" in caplog.text
    assert later_rows(again, end) == world.expected("cdc", world.key(world.lost), world.key(world.last)) != []


@pytest.mark.parametrize("query", ["incremental", "cdc"])
@pytest.mark.parametrize("option", [{}, {"failOnDataLoss": "true"}, {"onLostRange": "fail"}])
def test_lost_batch_ends_the_stream_by_default(world: World, query: str, option: dict[str, str]) -> None:
    stream = world.stream(query=query, **option)
    start, end = planned_end(stream)
    partitions = stream.partitions(start, end)
    world.clean()
    with pytest.raises((CorruptFile, PositionExpired)):
        rows(stream, partitions)
    again = world.stream(query=query, **option)
    with pytest.raises(PositionExpired):
        again.partitions(start, end)


@pytest.mark.parametrize("query", ["incremental", "cdc"])
def test_file_deleted_before_its_task_reads_it_is_skipped(
    world: World, query: str, caplog: pytest.LogCaptureFixture
) -> None:
    stream = world.stream(query=query, failOnDataLoss="false")
    start, end = planned_end(stream)
    partitions = stream.partitions(start, end)
    expected = rows(stream, partitions)
    world.clean()
    assert expected and rows(stream, partitions) == []
    assert "everything after its first 0 rows was lost before it was read" in caplog.text
    rest = later_rows(stream, end, one_by_one=False)
    assert rest == world.expected(query, world.key(world.lost), world.key(world.last)) != []


def test_corrupt_file_is_not_a_lost_range(world: World) -> None:
    """A file that exists but cannot be read ends the stream for every value of the option."""
    stream = world.stream(failOnDataLoss="false")
    start, end = planned_end(stream)
    partitions = stream.partitions(start, end)
    for file in world.path.rglob(f"*{world.lost}*.parquet"):
        if ".hoodie" not in file.parts:
            file.write_bytes(b"PAR1 this is no file PAR1" * 1000)
    with pytest.raises(CorruptFile):
        rows(stream, partitions)
