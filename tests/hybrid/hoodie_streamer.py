"""The real HoodieStreamer: its process, and its job that writes a topic of JSON records into a table of version 6.

The arguments, properties and schemas are those of a user of the Streamer. `lake_rounds` decides when a round runs,
`streamer_environment` where.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pytest

from tests.hybrid import streamer_environment
from tests.interop.peer_process import PeerProcess

UTILITIES: Final = "org.apache.hudi.utilities"
PAYLOAD: Final = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
"""The record with the highest ordering value wins, among equal ones the later; `_hoodie_is_deleted` deletes."""
CHECKPOINT_KEY: Final = "deltastreamer.checkpoint.key"
PROPERTIES: Final = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "group.id": "streamer",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.streamer.transformer.sql": (
        "SELECT id, region, ts, n, CAST(at AS TIMESTAMP) AS at, amount, note,"
        " coalesce(_hoodie_is_deleted, false) AS _hoodie_is_deleted FROM <SRC>"
    ),
}
TIME: Final = {"type": "long", "logicalType": "timestamp-micros"}
READ: Final = {"id": "string", "region": "string", "ts": "long", "n": "long", "at": "string", "amount": "double"}
TRAILING_COLUMNS: Final = {"note": "string", "_hoodie_is_deleted": "boolean"}


class HoodieStreamer(PeerProcess):
    """The Streamer of Hudi 0.14.0, in one JVM."""

    def sync(self, arguments: Sequence[str]) -> None:
        """A round: from the end of the table's last commit to the end of the topic, or to its limit. Without records it
        commits nothing."""
        self._ask({"do": "sync", "arguments": list(arguments)})


class StreamerJob:
    """A table and its topic. `operation`: UPSERT orders the records of an id by `ts`; INSERT and BULK_INSERT keep each
    record, with keys that Hudi generates."""

    def __init__(
        self,
        streamer: HoodieStreamer,
        folder: pathlib.Path,
        table: pathlib.Path,
        *,
        bootstrap: str,
        topic: str,
        operation: str,
        table_type: str,
        options: Mapping[str, str],
    ) -> None:
        self._streamer, self._table = streamer, table
        schemas: dict[str, Mapping[str, Any]] = {
            "source": READ | TRAILING_COLUMNS,
            "target": READ | {"at": TIME} | TRAILING_COLUMNS,
        }
        settings = {
            **PROPERTIES,
            **options,
            "bootstrap.servers": bootstrap,
            "hoodie.streamer.source.kafka.topic": topic,
        }
        for role, fields in schemas.items():
            path = folder / f"{role}.avsc"
            path.write_text(json.dumps(_schema(fields)))
            settings[f"hoodie.streamer.schemaprovider.{role}.schema.file"] = str(path)
        if operation == "UPSERT":
            settings["hoodie.datasource.write.recordkey.field"] = "id"
        properties = folder / "streamer.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in sorted(settings.items())))
        self._arguments = [
            *("--table-type", table_type, "--op", operation, "--target-base-path", str(table), "--target-table", "t"),
            *("--source-class", f"{UTILITIES}.sources.JsonKafkaSource", "--props", str(properties)),
            *("--schemaprovider-class", f"{UTILITIES}.schema.FilebasedSchemaProvider"),
            *("--transformer-class", f"{UTILITIES}.transform.SqlQueryBasedTransformer"),
            *("--source-ordering-field", "ts", "--payload-class", PAYLOAD),
        ]

    def run(self, *, at_most: int, compacts: bool) -> None:
        """Runs a round of about this many records. `compacts`: compacts after it if the table has enough delta
        commits."""
        more = () if compacts else ("--disable-compaction",)
        self._streamer.sync([*self._arguments, "--source-limit", str(at_most), *more])

    def hand_overs(self) -> list[dict[int, int]]:
        """The offsets that the Streamer stored in each of its commits: the next offset to read by partition."""
        commits = sorted(path for path in (self._table / ".hoodie").glob("*commit") if path.stat().st_size)
        stored = [json.loads(path.read_text())["extraMetadata"].get(CHECKPOINT_KEY) for path in commits]
        return [_offsets(text) for text in stored if text]


@contextlib.contextmanager
def running(folder: pathlib.Path) -> Iterator[HoodieStreamer]:
    """The running process. In CI a failed start is an error; elsewhere the test is skipped with the reason."""
    try:
        peer = HoodieStreamer(streamer_environment.command(), folder)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"HoodieStreamer {streamer_environment.RELEASE} could not be set up: {error}")
    try:
        peer.started()
        yield peer
    finally:
        peer.stop()


def _schema(fields: Mapping[str, Any]) -> dict[str, Any]:
    listed = [{"name": name, "type": ["null", type_], "default": None} for name, type_ in fields.items()]
    return {"type": "record", "name": "record", "namespace": "topic", "fields": listed}


def _offsets(text: str) -> dict[int, int]:
    """`topic,0:17,1:8`; a topic's name has no comma."""
    return {int(number): int(offset) for number, offset in (part.split(":") for part in text.split(",")[1:])}
