"""A server for the tests of the page: two tables, a few readers of different speed, one of them fenced."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from penstock.engine.consumer import Consumer
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import PenstockError
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.proto.model.streams import EventTimeRule, StartAfter, StreamScope, WatermarkFallback

EVIL: Final = "returns" if os.environ.get("PENSTOCK_SCREENSHOTS") else "<img src=x onerror=document.title='hit'>"
"""The name of a table that contains markup characters."""
PLAIN: Final = "orders"


@dataclass(frozen=True)
class Watched:
    """The addresses of the server: gRPC, and HTTP."""

    address: str
    page: str


@contextlib.contextmanager
def watched(golden: Any, folder: pathlib.Path, seconds: float) -> Iterator[Watched]:
    """The server after `seconds` of work, which continues while the block runs."""
    file = folder / "penstock.toml"
    tables = {PLAIN: golden.copy("B_v9_colstats_cow", folder), EVIL: golden.table("A_merge_event_long_v9_h120")}
    properties = tables[PLAIN] / ".hoodie" / "hoodie.properties"
    utc = "hoodie.table.timeline.timezone=UTC"  # otherwise the time of an instant is unknown
    properties.write_text(properties.read_text().replace("hoodie.table.timeline.timezone=LOCAL", utc))
    named = "".join(f'"{name}" = "{path}"\n' for name, path in tables.items())
    file.write_text(f"pollIntervalMs = 200\nleaseMs = 3000\n[tables]\n{named}")
    log = folder / "server.log"
    command = [sys.executable, "-m", "penstock", "serve", "--config", str(file), "--metrics-listen", "0"]
    ended = threading.Event()
    with (
        log.open("wb") as stream,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stream, text=True) as process,
    ):
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        match = re.search(r"a page at (http://\S+)", log.read_text())
        assert match, log.read_text()
        threads = [
            threading.Thread(target=_reads, args=(address, PLAIN, "audit", "fast", 0.15, ended)),
            threading.Thread(target=_reads, args=(address, PLAIN, "audit", "slow", 0.6, ended)),
            threading.Thread(target=_reads, args=(address, EVIL, "copy", "one", 0.3, ended)),
            threading.Thread(target=_is_fenced, args=(address, ended)),
            threading.Thread(target=_streams, args=(address, ended)),
        ]
        try:
            for thread in threads:
                thread.start()
            time.sleep(seconds)
            yield Watched(address, match[1])
        finally:
            ended.set()
            for thread in threads:
                thread.join(20)
            process.terminate()
            process.wait(20)


def _reads(address: str, table: str, group: str, reader: str, pause_s: float, ended: threading.Event) -> None:
    """Reads the group again and again from its start, with a delay after each split."""
    options: dict[str, Any] = {"max_splits": 3, "max_commits_per_trigger": 1}
    with (
        contextlib.suppress(PenstockError),
        Consumer(address, table, group=group, reader_id=reader, **options) as member,
    ):
        while not ended.is_set():
            try:
                batch = member.poll(200)
                if batch is not None and batch.end_of_split:
                    ended.wait(pause_s)
                    member.commit()
                elif batch is None and member.caught_up and reader in ("fast", "one"):
                    member.seek("earliest")
            except PenstockError:
                member.join()


def _streams(address: str, ended: threading.Event) -> None:
    """A stream with the calls of Spark, repeatedly, so that the server reports its watermark."""
    client = EnumeratorClient(address)
    request = PlanRequest(table=PLAIN, query=Incremental(), event_time="et")
    rule = EventTimeRule(max_out_of_orderness_us=1_000_000, fallback=WatermarkFallback.COMMIT_TIME, timezone="UTC")
    scope = StreamScope(request=request, rule=rule)
    while not ended.wait(1):
        with contextlib.suppress(PenstockError):
            client.next_batch(scope, client.start_stream(scope, StartAfter(EARLIEST)))


def _is_fenced(address: str, ended: threading.Event) -> None:
    """Joins twice under one name: the server refuses all later calls of the first."""
    with contextlib.suppress(PenstockError):
        first = Consumer(address, PLAIN, group="audit", reader_id="twice", max_splits=1)
        first.join()
        second = Consumer(address, PLAIN, group="audit", reader_id="twice", max_splits=1)
        second.join()
        while not ended.is_set() and first.poll(100) is None:
            pass
