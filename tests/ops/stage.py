"""A service under load and faults, and a Prometheus server that scrapes it every second. For tests of deploy/.

Two processes of `penstock serve`: one with eight tables, readers and a topic; the other waits for the first one's state
and refuses every call. Only the durations of the alert rules are shortened.
"""

from __future__ import annotations

import contextlib
import json
import logging
import pathlib
import re
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Producer

import penstock as package
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import PenstockError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import Assignments, GroupScope, GroupSpec, OnLostRange, SplitProgress, StartAt
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import Changes, Incremental, PlanRequest
from penstock.proto.model.service_splits import ServiceOutcome, ServiceRequest
from penstock.proto.model.streams import EventTimeRule, StartAfter, StreamScope, WatermarkFallback
from tests.faults.served import ONCE, RETRY_DELAYS, end, penstock, until
from tests.loopback_ports import free_port
from tests.ops.places import ALERTS

LEASE_MS: Final = 6_000
WINDOW: Final = "40s"
"""The shortened ranges of rules and panels: longer than the 30 s between two measurements of lag."""
HANDED_OVER: Final = {0: 17, 1: 12, 2: 6}
"""The end offset of the table C_v6_streamer in its topic."""
TABLES: Final = {
    "merged": "A_merge_event_long_v9_h120",
    "changes": "B_v9_cdc_mor_data_before_after",
    "damaged": "A_corrupt_middle_v9_h120",
    "timed": "B_v9_colstats_cow",
    "cleaned": "A_archive_v9_h120",
    "lost": "B_v9_arch_cow",
    "vanishing": "A_positions_v9_h120",
    "orders": "C_v6_streamer",
}


def shortened(rules: str) -> str:
    """The alert rules with shorter durations."""
    rules = re.sub(r"for: \d+m", "for: 2s", re.sub(r"oldest_due_seconds > \d+", "oldest_due_seconds > 2", rules))
    return re.sub(r"\[\d+m\]", f"[{WINDOW}]", rules)


class Stage:
    """The context manager starts everything under load, and stops it at the end."""

    def __init__(self, golden: Any, prometheus: str, folder: pathlib.Path) -> None:
        self.folder = folder
        self._prometheus = prometheus
        self.tables = {name: golden.copy(case, folder) for name, case in TABLES.items()}
        properties = self.tables["cleaned"] / ".hoodie" / "hoodie.properties"
        utc = "hoodie.table.timeline.timezone=UTC"  # otherwise the seconds to loss are unknown
        properties.write_text(re.sub("hoodie.table.timeline.timezone=LOCAL", utc, properties.read_text()))
        self.address = f"127.0.0.1:{free_port()}"
        self.metrics_address = f"127.0.0.1:{free_port()}"
        self.second = f"127.0.0.1:{free_port()}"
        self.second_metrics = f"127.0.0.1:{free_port()}"
        self.port = free_port()
        self._processes: list[subprocess.Popen[str]] = []
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self.failures: Counter[str] = Counter()
        """The errors of the load, with their numbers."""

    def __enter__(self) -> Self:
        self._producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 2})
        broker = next(iter(self._producer.list_topics(timeout=10).brokers.values()))
        self.brokers = f"{broker.host}:{broker.port}"
        for partition, count in HANDED_OVER.items():
            self._produce(partition, [b"{}"] * count)
        for _ in range(
            12
        ):  # a mock broker keeps about 5 MiB of a partition, so the records after the table's offset are gone
            self._produce(2, [b'{"id":"%s","region":"eu","amount":1,"ts":1}' % (b"x" * 100_000)] * 8)
        try:
            self._begin()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(30)
        for process in self._processes:
            end(process)

    # --- Prometheus

    def scrape(self) -> str:
        """The page of metrics."""
        with urllib.request.urlopen(f"http://{self.metrics_address}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
        return text

    def query_api(self, path: str, **query: object) -> Any:
        """The response of the API of Prometheus."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)["data"]

    def values(self, expression: str) -> list[float]:
        """Every sample of the expression within the last two minutes."""
        now = time.time()
        result = self.query_api("query_range", query=expression, start=now - 120, end=now, step=1)
        return [float(value) for series in result["result"] for _, value in series["values"]]

    def firing(self) -> set[str]:
        """The alerts that are firing."""
        return {one["labels"]["alertname"] for one in self.query_api("alerts")["alerts"] if one["state"] == "firing"}

    def kill_second(self) -> None:
        """Kills the second server with SIGKILL."""
        end(self._processes[1])

    # --- set-up

    def _begin(self) -> None:
        logging.getLogger("penstock").setLevel(logging.ERROR)  # readers log each damaged block
        self._processes.append(self._server("server", self.address, self.metrics_address))
        self.client = EnumeratorClient(self.address, RETRY_DELAYS)
        until(lambda: self._processes[0].stdout and self._processes[0].stdout.readline(), "the server is up")
        self._processes.append(self._server("second", self.second, self.second_metrics))
        over = GroupScope(request=PlanRequest(table="*", query=Incremental()), over_tables=True)
        self.client.join_group("everything", "r", GroupSpec(scope=over), "everything-first")
        self.client.join_group("times", "r", TIMED_GROUP, "times-first")
        for group, table in (("idle", "merged"), ("behind", "cleaned"), ("nobody", "vanishing")):
            self.client.join_group(group, "r", spec(table), f"{group}-first")
        self.client.join_group("stopped", "r", spec("lost", Changes(ChangeFormat.ROWS)), "stopped-first")
        self._watch()
        until(lambda: "nobody" in self.scrape(), "the groups are followed")
        self.tables["vanishing"].rename(self.folder / "gone")
        works = (self._read, self._follow, self._go_away, self._stream, self._lagging, self._refused, self._topic)
        for work in (*works, self._fail_service):
            thread = threading.Thread(target=self._again, args=(work,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _server(self, name: str, listen: str, metrics: str) -> subprocess.Popen[str]:
        lines = [
            f'listen = "{listen}"',
            f'metricsListen = "{metrics}"',
            f'state = "{self.folder / "state"}"',
            "pollIntervalMs = 200",
            f"leaseMs = {LEASE_MS}",
            f'[catalog.more]\nfile = "{self._catalog_file()}"\nrefreshIntervalMs = 1000',
            f'[catalog.broken]\nfile = "{self.folder / "none.toml"}"\nrefreshIntervalMs = 1000',
            *(f'[tables.{table}]\npath = "{path}"' for table, path in self.tables.items()),
            f'[tables.orders.kafka]\nbootstrap.servers = "{self.brokers}"',
            '[tables.merged.services]\nrun = ["compact"]\ncompactAfter = 1',
        ]
        file = self.folder / f"{name}.toml"
        file.write_text("\n".join(lines) + "\n")
        return penstock("serve", "--config", file, log=self.folder / f"{name}.log")

    def _catalog_file(self) -> pathlib.Path:
        """A catalog with a table, and with a problem."""
        file = self.folder / "tables.toml"
        file.write_text(f'[tables]\ncopy = "{self.tables["merged"]}"\n"a b" = "/none"\n')
        return file

    def _watch(self) -> None:
        (self.folder / "alerts.yml").write_text(shortened(ALERTS.read_text()))
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["alerts.yml"],
            "scrape_configs": [
                {
                    "job_name": "penstock",
                    "static_configs": [{"targets": [self.metrics_address, self.second_metrics]}],
                }
            ],
        }
        file = self.folder / "prometheus.yml"
        file.write_text(json.dumps(config))
        log = (self.folder / "prometheus.log").open("w")
        command = [self._prometheus, f"--config.file={file}", f"--storage.tsdb.path={self.folder / 'tsdb'}",
                   f"--web.listen-address=127.0.0.1:{self.port}"]  # fmt: skip
        self._processes.append(subprocess.Popen(command, stdout=log, stderr=log, text=True))
        log.close()
        until(self._is_watched, f"Prometheus has scraped; {(self.folder / 'prometheus.log').read_text()[-1000:]}")

    def _is_watched(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(self.values(f'up{{instance="{self.metrics_address}"}} == 1'))
        return False

    # --- load and faults

    def _again(self, work: Callable[[], None]) -> None:
        while not self._ended.is_set():
            try:
                work()
            except (PenstockError, AssertionError) as error:
                self.failures[f"{work.__name__}: {type(error).__name__}: {str(error)[:300]}"] += 1
            self._ended.wait(0.5)

    def _read(self) -> None:
        """Reads tables through the plan API; damaged log blocks are skipped."""
        package.read("merged", server=self.address).read_all()
        package.read("damaged", server=self.address, on_corrupt="skip").read_all()

    def _follow(self) -> None:
        """A group reads everything, repeatedly."""
        with package.Consumer(self.address, "changes", group="load", reader_id="r", query="cdc") as reader:
            until(lambda: self._took_all(reader), "the group is caught up")
        self.client.reset_group("changes", "load", StartAt(EARLIEST), dry_run=False)

    def _go_away(self) -> None:
        """A reader gets a split, lets its lease expire, and returns too late."""
        member = self.client.join_group("zombies", "r", spec("merged"), f"join-{time.time_ns()}").member
        assignments = until(lambda: self._request_splits(member), "a split is there")
        self._ended.wait(LEASE_MS / 1000 + 1)
        stale = SplitProgress(ref=assignments.splits[0].ref, ordinal=1, finished=True)
        with contextlib.suppress(PenstockError):
            self.client.commit_splits(member, (stale,))

    def _fail_service(self) -> None:
        """A member of the worker group gets a split of a table service, and fails."""
        split = self.client.request_service_split(ServiceRequest(member="w", table="merged")).split
        if split is not None:
            failed = ServiceOutcome(code="STORAGE", text="the disk is full")
            self.client.finish_service_split(split.id, "w", split.attempt, failed)

    def _request_splits(self, member: Any) -> Any:
        answer = self.client.request_splits(member, 1, time.time_ns() // 1_000_000)
        return answer if isinstance(answer, Assignments) and answer.splits else None

    def _stream(self) -> None:
        """The calls of a Spark stream, with event times."""
        scope = StreamScope(request=TIMED, rule=_TIMES)
        self.client.next_batch(scope, self.client.start_stream(scope, StartAfter(EARLIEST)))
        self._ended.wait(1)

    def _lagging(self) -> None:
        """A stream that repeats its first batch until the cleaner overtakes it, and one whose range is lost."""
        lagging = StreamScope(request=PlanRequest(table="cleaned", query=Incremental()), name="lagging")
        self.client.next_batch(lagging, self.client.start_stream(lagging, StartAfter(EARLIEST)))
        lost = StreamScope(request=PlanRequest(table="lost", query=Changes(ChangeFormat.ROWS)), name="lost")
        with contextlib.suppress(PenstockError):
            self.client.next_batch(lost, self.client.start_stream(lost, StartAfter(EARLIEST)))
        self._ended.wait(1)

    def _refused(self) -> None:
        """Calls for an unknown table, and calls at the second server, which has no state."""
        second = EnumeratorClient(self.second, ONCE)
        for client, table in ((self.client, "nothing"), (second, "merged")):
            with contextlib.suppress(PenstockError):
                client.describe_table(table)
        second.close()

    def _topic(self) -> None:
        """A group reads the table, then its topic, to which new records are written; one in ten is invalid."""
        assignments: dict[str, Any] = {"group": "topic", "reader_id": "r", "hybrid": "append", "kafka_topic": "orders"}
        assignments |= {
            "kafka": {"bootstrap.servers": self.brokers},
            "on_lost_range": "earliest",
            "max_rows_per_trigger": 5,
        }
        dead_letters = str(self.folder / "letters")
        with package.Consumer(self.address, "orders", dead_letter_path=dead_letters, **assignments) as reader:
            while not self._ended.is_set():
                self._ended.wait(0.2)
                self._produce(0, [b'{"id":"new","region":"eu","amount":1,"ts":1}'] * 9 + [b"no json"])
                self._took_all(reader)

    def _took_all(self, reader: Any) -> bool:
        while not self._ended.is_set() and (consumed := reader.poll(100)) is not None:
            reader.commit(consumed)
        return bool(reader.caught_up) or self._ended.is_set()

    def _produce(self, partition: int, values: list[bytes]) -> None:
        for value in values:
            self._producer.produce("orders", key=b"k", value=value, partition=partition)
        self._producer.flush(20)


_TIMES: Final = EventTimeRule(max_out_of_orderness_us=1_000_000, fallback=WatermarkFallback.COMMIT_TIME, timezone="UTC")
TIMED: Final = PlanRequest(table="timed", query=Incremental(), event_time="ts", event_time_unit="ms")
TIMED_GROUP: Final = GroupSpec(scope=GroupScope(request=TIMED, rule=_TIMES))


def spec(table: str, query: Incremental | Changes = Incremental()) -> GroupSpec:  # noqa: B008
    """All of the table from its start; a lost range stops the group."""
    return GroupSpec(scope=GroupScope(request=PlanRequest(table=table, query=query), on_lost_range=OnLostRange.FAIL))
