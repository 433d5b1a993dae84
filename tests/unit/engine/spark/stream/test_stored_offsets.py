"""Offsets of Spark streams that an earlier release wrote: the stream continues to the same offsets and splits.

The offsets are in tests/fixtures/releases, of streams in the table and across the hand-over to a topic.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pyarrow.fs as pafs
import pytest

from penstock.engine.event_time_scan import scan_event_time
from penstock.engine.spark.load import loaded
from penstock.engine.spark.planning import schema_of
from penstock.engine.spark.stream.reader import PenstockStreamReader
from penstock.engine.spark.task.input_partitions import PackedSlot
from penstock.engine.stream_offsets import Offset, ScopeId, offset_of, point_of
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.codec.serialized import decode_split
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import Position
from penstock.proto.options.registry import EntryPoint
from penstock.table.storage.filesystem import ArrowStorage
from tests.recorded_calls import STREAMS, TABLES, URI
from tests.scripted_topic import ScriptedTopic

pytestmark = pytest.mark.golden

TESTS = pathlib.Path(__file__).parents[4]
RELEASES = TESTS / "fixtures" / "releases"
STORED = {folder.name: folder / "streams.json" for folder in RELEASES.iterdir() if (folder / "streams.json").exists()}
CASES = [(version, stream) for version in sorted(STORED) for stream in STREAMS]


def stored(version: str, stream: str) -> tuple[list[Offset], list[list[str]]]:
    """The offsets of a stream, and the split ids of the micro-batches between them."""
    content = json.loads(STORED[version].read_text(encoding="utf-8"))[stream]
    return content["offsets"], content["splits"]


@pytest.fixture
def tables(golden: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The golden tables at the addresses that the earlier release used."""
    folders = {URI + name: str(golden.table(case)) for name, case in TABLES.items()}

    def opened(path: str) -> ArrowStorage:
        return ArrowStorage(path, pafs.LocalFileSystem(), folders[path])

    monkeypatch.setattr("penstock.table.hudi_table.open_storage", opened)
    return golden


class Driver:
    """Current drivers in sequence: each reader has only the checkpoint."""

    def __init__(self, golden: Any, stream: str) -> None:
        self._load = loaded(STREAMS[stream], EntryPoint.STREAM, {})
        self._schema = schema_of(self._load)
        topic = ScriptedTopic.of_golden(TESTS / "golden", golden.case(TABLES["orders"]))
        self._reads = OpenTables(open_topic=topic.open, scan_event_time=scan_event_time)

    def reader(self) -> PenstockStreamReader:
        """A new reader."""
        return PenstockStreamReader(self._load, self._schema, enumerator=EmbeddedEnumerator(reads=self._reads))


def split_ids(reader: PenstockStreamReader, start: Offset, end: Offset) -> list[str]:
    """The splits of the micro-batch between two offsets."""
    slots = [partition.value for partition in reader.partitions(start, end)]
    return sorted(
        decode_split(split).split_id for slot in slots if isinstance(slot, PackedSlot) for split in slot.splits
    )


@pytest.mark.parametrize(("version", "stream"), CASES)
def test_stored_offsets_are_followed_by_the_same_offsets(tables: Any, version: str, stream: str) -> None:
    offsets, _ = stored(version, stream)
    driver = Driver(tables, stream)
    for begin in range(len(offsets)):
        resumed = driver.reader()
        resumed.prepareForTriggerAvailableNow()
        following = resumed.latestOffset(offsets[begin], resumed.getDefaultReadLimit())
        assert json.dumps(following) == json.dumps(offsets[min(begin + 1, len(offsets) - 1)]), begin


@pytest.mark.parametrize(("version", "stream"), CASES)
def test_stored_offsets_enclose_the_same_splits(tables: Any, version: str, stream: str) -> None:
    """A micro-batch that was planned but not committed is planned again from only its two offsets."""
    offsets, splits = stored(version, stream)
    driver = Driver(tables, stream)
    for index, ids in enumerate(splits):
        assert split_ids(driver.reader(), offsets[index], offsets[index + 1]) == ids, index


@pytest.mark.parametrize(("version", "stream"), CASES)
def test_stored_offsets_are_written_again_as_the_same_text(version: str, stream: str) -> None:
    """Spark compares offsets by their text."""
    for offset in stored(version, stream)[0]:
        scope, upto = ScopeId.parse(str(offset["scope"])), offset["upto"]
        assert upto is None
        point = point_of(offset, scope)
        assert isinstance(point.progress.position, Position)
        assert json.dumps(offset_of(point, scope)) == json.dumps(offset)


def test_stored_offsets_of_a_mangled_scope_are_refused(tables: Any) -> None:
    """Negative control: the digest of the scope contains the name of the query."""
    offsets, _ = stored("0.1.0", "cdc")
    mangled = {**offsets[0], "scope": stored("0.1.0", "incremental")[0][0]["scope"]}
    with pytest.raises(ConfigurationError, match="stream with other options"):
        Driver(tables, "cdc").reader().latestOffset(mangled)
