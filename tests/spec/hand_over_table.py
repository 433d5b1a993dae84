"""A table whose commits hold the offsets of a topic, written as Hudi's Streamer writes them, and that topic.

Record `o` of partition `p` has the key `p-o`. A commit has one file for each partition of which it has new records.
"""

from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.scripted_topic import ScriptedTopic
from tests.simulated_lake import PROPERTIES, SCHEMA

TOPIC: Final = "t"
STREAMER_KEY: Final = "streamer.checkpoint.key.v2"
_META: Final = ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")


def instant_of(commit: int) -> str:
    """The requested time of a commit of the specification."""
    return f"202601010{commit:02d}000000"


def completion_of(commit: int) -> str:
    """The completion time of a commit, which is its place in commit order."""
    return f"202601010{commit:02d}500000"


def key_of(partition: int, offset: int) -> str:
    """The record key of a record."""
    return f"{partition}-{offset}"


def partition_of(file_group: str) -> int:
    """The partition of the topic whose records a split has, by its file group."""
    return int(file_group.rpartition("/")[2].rpartition("-")[2])


@dataclass(slots=True)
class HandOverTable:
    """A table without partitions. One thread."""

    path: pathlib.Path
    """Its base path."""
    maps: list[tuple[int, ...]] = field(default_factory=lambda: [(0, 0)])
    """The offsets that each commit holds; the first entry is before all commits."""

    def create(self) -> None:
        """Writes the folders and the properties."""
        (self.path / ".hoodie" / "timeline").mkdir(parents=True)
        (self.path / ".hoodie" / "hoodie.properties").write_text(PROPERTIES.format(name="t"))
        (self.path / ".hoodie_partition_metadata").touch()

    def commit(self, offsets: tuple[int, ...]) -> None:
        """Commits the records up to these offsets."""
        number, begin = len(self.maps), self.maps[-1]
        instant = instant_of(number)
        stats = [
            self._write(instant, partition, first, end)
            for partition, (first, end) in enumerate(zip(begin, offsets, strict=True))
            if first < end
        ]
        checkpoint = ",".join([TOPIC, *(f"{partition}:{offset}" for partition, offset in enumerate(offsets))])
        commit = {
            "partitionToWriteStats": {"": stats} if stats else {},
            "operationType": "INSERT",
            "extraMetadata": {"schema": SCHEMA, STREAMER_KEY: checkpoint},
        }
        timeline = self.path / ".hoodie" / "timeline"
        (timeline / f"{instant}.commit.requested").touch()
        (timeline / f"{instant}.commit.inflight").touch()
        (timeline / f"{instant}_{completion_of(number)}.commit").write_text(json.dumps(commit))
        self.maps.append(offsets)

    def _write(self, instant: str, partition: int, first: int, end: int) -> dict[str, object]:
        keys = [key_of(partition, offset) for offset in range(first, end)]
        group = f"{instant:0>32}-{partition}"
        base = f"{group}_0-1-1_{instant}.parquet"
        values: dict[str, list[str]] = {
            "commit_time": [instant] * len(keys),
            "commit_seqno": [f"{instant}_0_{number}" for number in range(len(keys))],
            "record_key": keys,
            "partition_path": [""] * len(keys),
            "file_name": [base] * len(keys),
        }
        columns: dict[str, pa.Array] = {f"_hoodie_{name}": pa.array(values[name], pa.string()) for name in _META}
        columns |= {"id": pa.array(keys, pa.string()), "v": pa.array(range(first, end), pa.int64())}
        pq.write_table(pa.table(columns), self.path / base)
        return {
            "fileId": group,
            "path": base,
            "prevCommit": "null",
            "numWrites": len(keys),
            "numInserts": len(keys),
            "fileSizeInBytes": (self.path / base).stat().st_size,
        }


def topic_of(partitions: int, top: int) -> ScriptedTopic:
    """A topic with all records that a trace may have; its ends say which of them exist."""
    topic = ScriptedTopic(topic=TOPIC)
    for partition in range(partitions):
        for offset in range(top):
            key = key_of(partition, offset)
            topic.append(partition, key, {"id": key, "v": offset})
        topic.ends[partition] = 0
    return topic
