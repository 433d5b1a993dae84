"""The tables, server, topic, certificates and tokens that the pages name, and the values that replace their names."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import pathlib
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.demo.sample import packaged_data, unpack_table
from penstock.enumerator.server.run import serve
from tests.certificates import Authority
from tests.unit.engine.sync.topics.debezium_events import Events, simulated_events, value_schema

SERVED = "127.0.0.1:7432"
"""The server's address on every page. A page that starts a server gets a free port for it; the others share one
server."""

BROKER: Final = "//broker1:9092"
"""The address of the Kafka broker on every page."""
TOPIC: Final = "shop.public.orders"
"""Its topic, of Debezium's events."""

CONNECT: Final = "sc://127.0.0.1:15002"
"""The URL of the Spark Connect server on every page."""


@dataclass(frozen=True, slots=True)
class World:
    """The tables and files that exist before a page is followed."""

    lake: pathlib.Path
    etc: pathlib.Path
    server: str
    brokers: str

    @property
    def environment(self) -> dict[str, str]:
        """Variables that pages name."""
        return {"PENSTOCK_TOKEN": (self.etc / "token").read_text().strip(), "KAFKA_PASSWORD": "secret"}

    def stands_for(self, folder: pathlib.Path, served: str, connect: str = "") -> Mapping[str, str]:
        """The values of the names on a page that is followed in `folder`."""
        return {
            "/lake": str(self.lake),
            "/etc/penstock": str(self.etc),
            "/var/lib/penstock": str(folder / "state"),
            "/checkpoints": str(folder / "checkpoints"),
            '"lake/': f'"{folder}/lake/',  # Spark's JVM, started before, has another working directory
            '"checkpoints/': f'"{folder}/checkpoints/',
            BROKER: f"//{self.brokers}",
            SERVED: served,
            CONNECT: connect,
        }


def with_names(text: str, names: Mapping[str, str]) -> str:
    """The text with its names replaced by their values."""
    for name, value in names.items():
        before = "" if name.startswith('"') else r"(?<![\w./])"
        after = "" if name.endswith("/") else r"(?![\w-])"
        text = re.sub(before + re.escape(name) + after, lambda _, to=value: to, text)
    return text


@contextlib.contextmanager
def world(folder: pathlib.Path) -> Iterator[World]:
    """Creates the tables and one server for both, and a topic on a simulated broker."""
    lake, etc = folder / "lake", folder / "etc"
    unpack_table(packaged_data(), lake / "orders")
    _write_clicks(lake / "clicks")
    _fill(etc)
    server = serve(
        {"orders": str(lake / "orders"), "clicks": str(lake / "clicks")}, "127.0.0.1:0", poll_interval_ms=200
    )
    try:
        with simulated_events() as events:
            _send_orders(events)
            yield World(lake, etc, server.address, events.brokers)
    finally:
        server.stop(5)


def _send_orders(events: Events) -> None:
    """Forty orders of five hours, of which some change, and some are deleted."""
    events.schema = value_schema(placed_at="string", amount="int64")
    for image in events.schema["fields"][:2]:
        image["fields"][1]["name"] = "io.debezium.time.ZonedTimestamp"
    begin = dt.datetime(2026, 11, 20, 8, tzinfo=dt.UTC)
    for number in range(40):
        placed = begin + dt.timedelta(minutes=7 * number)
        events.upsert(TOPIC, {"id": number, "placed_at": placed.isoformat(), "amount": number})
    for number in range(0, 40, 10):
        events.upsert(TOPIC, {**events.rows[TOPIC][number], "amount": 100})
        events.delete(TOPIC, number + 1)
    events.producer.flush(60)


def _fill(etc: pathlib.Path) -> None:
    authority = Authority(etc)
    pair = authority.signed("server", "127.0.0.1", "localhost")
    client = authority.signed("spark", "spark.example")
    for certificate, name in ((pair, "server"), (client, "client")):
        for source, suffix in ((certificate.cert, "pem"), (certificate.key, "key")):
            if pathlib.Path(source).name != f"{name}.{suffix}":
                shutil.copy(source, etc / f"{name}.{suffix}")
    (etc / "tokens").write_text(f"spark:sha256:{'0' * 64}:2099-01-31\n")
    (etc / "token").write_text("not-a-real-token\n")
    (etc / "kafka-password").write_text("secret\n")


def _write_clicks(table: pathlib.Path) -> None:
    """A table of clicks of the customers of `orders`, in one commit, with the file layout of Hudi's version 6."""
    instant, begin = "20261120233736000", dt.datetime(2025, 10, 9, 8, 53, 20, tzinfo=dt.UTC)
    customers = ("Aino", "Berta", "Ciro", "Dara", "Eino", "Fleur", "Goran")
    name = f"clicks-0_0-1-1_{instant}.parquet"
    keys = [f"c{number:02d}" for number in range(56)]
    columns = {
        "_hoodie_commit_time": [instant] * len(keys),
        "_hoodie_commit_seqno": [f"{instant}_0_{number}" for number in range(len(keys))],
        "_hoodie_record_key": keys,
        "_hoodie_partition_path": [""] * len(keys),
        "_hoodie_file_name": [name] * len(keys),
        "click_id": keys,
        "customer": [customers[number % len(customers)] for number in range(len(keys))],
        "page": [("cart", "search", "help")[number % 3] for number in range(len(keys))],
        "ts": pa.array([begin + dt.timedelta(minutes=2 * n) for n in range(len(keys))], pa.timestamp("us", "UTC")),
    }
    timeline = table / ".hoodie"
    timeline.mkdir(parents=True)
    pq.write_table(pa.table(columns), table / name)
    properties = {
        "hoodie.table.name": "clicks",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "6",
        "hoodie.timeline.layout.version": "1",
        "hoodie.table.recordkey.fields": "click_id",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.populate.meta.fields": "true",
        "hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    }
    (timeline / "hoodie.properties").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    kinds = {"ts": {"type": "long", "logicalType": "timestamp-micros"}}
    fields = [key for key in columns if not key.startswith("_hoodie_")]
    schema = {
        "type": "record",
        "name": "clicks",
        "fields": [{"name": key, "type": ["null", kinds.get(key, "string")], "default": None} for key in fields],
    }
    stat = {
        "fileId": "clicks-0",
        "path": name,
        "prevCommit": "null",
        "numWrites": len(keys),
        "numInserts": len(keys),
        "numDeletes": 0,
        "numUpdateWrites": 0,
        "partitionPath": "",
        "fileSizeInBytes": (table / name).stat().st_size,
    }
    commit = {
        "partitionToWriteStats": {"": [stat]},
        "compacted": False,
        "operationType": "INSERT",
        "extraMetadata": {"schema": json.dumps(schema)},
    }
    (timeline / f"{instant}.commit").write_text(json.dumps(commit))
