"""A Kafka cluster for tests: KRaft brokers from the release's jars (downloaded once by Maven, kept under `.cache/`).

    with KafkaBroker(folder) as kafka:      # or the session's, the fixture `kafka`
        kafka.create_topic("orders", partitions=3)
        kafka.bootstrap                     # no authentication; `kafka.sasl_bootstrap` requires a user of USERS
        kafka.kill(); kafka.start()         # a crash, then the same ports and data

Intervals are short (retention, cleaner and deletion run twice per second), so that tests can wait for them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from tests.loopback_ports import free_ports

RELEASE = "4.3.1"
CACHE = pathlib.Path(__file__).resolve().parents[1] / ".cache"
USERS = {"reader": "reader-secret", "stranger": "stranger-secret"}
"""Names and passwords (SASL PLAIN) of `sasl_bootstrap`. Without ACLs on a topic every user may read it."""

READY_SECONDS = 120
API_VERSIONS, METADATA = 18, 3

POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>penstock.tests</groupId><artifactId>kafka</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{release}</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
<version>2.25.4</version></dependency>
</dependencies></project>
"""

LOGGING = """status=error
appender.out.type=Console
appender.out.name=OUT
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{ISO8601} %p %c{1} %m%n
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=OUT
"""

SMALL_AND_QUICK = {
    "auto.create.topics.enable": "false",
    "background.threads": "2",
    "broker.heartbeat.interval.ms": "400",
    "broker.session.timeout.ms": "4000",  # a killed broker may be restarted when its session is over
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "4194304",  # the default is half of a small heap
    "log.cleaner.io.buffer.size": "131072",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "500",
    "num.io.threads": "2",
    "num.network.threads": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "socket.request.max.bytes": "16777216",
    "transaction.state.log.num.partitions": "1",
}

WITH_USERS = {
    "allow.everyone.if.no.acl.found": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "listener.name.guarded.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    + " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    + ";",
    "sasl.enabled.mechanisms": "PLAIN",
    "super.users": "User:ANONYMOUS",
}


def java() -> str | None:
    """The java that Spark uses, too."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(f"{home}/bin/java" if home else "java")


def jars(release: str = RELEASE) -> pathlib.Path:
    """The folder with every jar of a broker; Maven downloads them at the first call."""
    folder = CACHE / f"kafka-{release}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"kafka-{release}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
                (pathlib.Path(scratch) / "pom.xml").write_text(POM.format(release=release))
                goal = ("dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars")
                checked(["mvn", "-q", "--batch-mode", *goal], cwd=scratch)
                (pathlib.Path(scratch) / "jars").rename(folder)
    return folder


def checked(command: Sequence[str], cwd: str | pathlib.Path) -> str:
    """The output of a command. AssertionError: it failed; the text is its output."""
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
    if result.returncode:
        said = (result.stdout + result.stderr)[-3000:]
        raise RuntimeError(f"{command[0]} {command[-1]} failed ({result.returncode}): {said}")
    return result.stdout


def send_request(port: int, api: int, body: bytes = b"") -> bytes:
    """A request of version 0 in the protocol's bytes: the response after its length and correlation id."""
    request = struct.pack(">hhih5s", api, 0, 1, 5, b"tests") + body
    with socket.create_connection(("127.0.0.1", port), timeout=2) as line:
        line.sendall(struct.pack(">i", len(request)) + request)
        with line.makefile("rb") as answers:
            size = answers.read(4)
            answer = answers.read(struct.unpack(">i", size)[0]) if len(size) == 4 else b""
    if len(answer) < 8:
        raise ConnectionError(f"the broker at port {port} closed the connection")
    return answer[4:]


def known_brokers(port: int) -> int:
    """The number of brokers in the metadata of the one at `port`, itself included."""
    send_request(port, API_VERSIONS)
    return int(struct.unpack(">i", send_request(port, METADATA, struct.pack(">i", 0))[:4])[0])


def wait_for(true: Callable[[], Any], what: str, seconds: float = 120, step: float = 0.05) -> Any:
    """Polls until the result is true, and returns it. AssertionError: not within `seconds`; it names the condition."""
    deadline = time.monotonic() + seconds
    while not (answer := true()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(step)
    return answer


class KafkaBroker:
    """Brokers 1..nodes of one cluster with all files under `folder`; node 1 is the controller, too."""

    def __init__(
        self, folder: pathlib.Path, nodes: int = 1, heap_mb: int = 256, settings: Mapping[str, str] | None = None
    ) -> None:
        self._folder, self._heap_mb, self._settings = folder, heap_mb, dict(settings or {})
        self._nodes = range(1, nodes + 1)
        self._jars = jars()
        self._admin: Any = None
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "log4j2.properties").write_text(LOGGING)
        ports = free_ports(2 * nodes + 1)
        self._controller_port = ports.pop()
        self._ports = dict(zip(self._nodes, ports[:nodes], strict=True))
        self._sasl_ports = dict(zip(self._nodes, ports[nodes:], strict=True))
        self._cluster_id = self._storage_tool("random-uuid").strip()

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, without authentication."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    @property
    def sasl_bootstrap(self) -> str:
        """The same brokers for users and passwords (`security.protocol=SASL_PLAINTEXT`, `sasl.mechanism=PLAIN`)."""
        return ",".join(f"127.0.0.1:{port}" for port in self._sasl_ports.values())

    @property
    def pids(self) -> dict[int, int]:
        """Process ids of the brokers that run, by node."""
        return {node: process.pid for node, process in self._running.items() if process.poll() is None}

    def start(self, node: int | None = None) -> KafkaBroker:
        """Starts a node, or all of them; running ones are unchanged. Returns when they respond."""
        nodes = self._nodes if node is None else (node,)
        for one in nodes:
            if one not in self.pids:
                self._launch(one)
        for one in nodes:
            wait_for(lambda one=one: self._answers(one), f"broker {one} answers", READY_SECONDS)
        return self

    def kill(self, node: int = 1) -> None:
        """Crashes the broker: nothing is flushed, and there is no marker of a clean shutdown."""
        self._running[node].kill()
        self._running[node].wait()

    def pause(self, node: int = 1) -> None:
        """Suspends the broker until `resume`: it keeps its connections and does not respond."""
        self._running[node].send_signal(signal.SIGSTOP)

    def resume(self, node: int = 1) -> None:
        """Ends a pause."""
        self._running[node].send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Stops all running nodes, the controller last."""
        for node in sorted(self.pids, reverse=True):
            process = self._running[node]
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill(node)

    def __enter__(self) -> KafkaBroker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def admin(self) -> Any:
        """The tests' admin client (confluent-kafka)."""
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            settings = {"bootstrap.servers": self.bootstrap, "reconnect.backoff.max.ms": 1000, "log_level": 2}
            self._admin = AdminClient(settings)
        return self._admin

    def create_topic(self, name: str, partitions: int = 1, replicas: int = 1, **config: str) -> None:
        """Creates a topic, its settings written with `_` for a dot (`cleanup_policy="compact"`); returns when it has
        leaders."""
        from confluent_kafka.admin import NewTopic

        admin = self.admin()
        settings = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=settings)
        admin.create_topics([topic])[name].result(30)

        def leads() -> bool:
            partitions_by_id = admin.list_topics(name, timeout=10).topics[name].partitions
            return len(partitions_by_id) == partitions and all(
                one.leader > 0 and not one.error for one in partitions_by_id.values()
            )

        wait_for(leads, f"topic {name} has leaders")

    def delete_topic(self, name: str) -> None:
        """Deletes a topic; returns when the brokers no longer list it."""
        admin = self.admin()
        admin.delete_topics([name])[name].result(30)
        wait_for(lambda: name not in admin.list_topics(timeout=10).topics, f"topic {name} is gone")

    def produce(
        self, topic: str, records: Sequence[tuple[str | bytes | None, str | bytes | None]], partition: int = 0
    ) -> None:
        """Writes (key, value) records to a partition, in order; returns when the broker has acknowledged them."""
        from confluent_kafka import Producer

        settings = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 2, "log_level": 2}
        producer = Producer(settings)
        for key, value in records:
            producer.produce(topic, key=key, value=value, partition=partition)
        assert producer.flush(60) == 0

    def _answers(self, node: int) -> bool:
        process = self._running[node]
        if process.poll() is not None:
            raise RuntimeError(f"broker {node} ended:\n{self._log(node).read_text()[-3000:]}")
        try:
            return known_brokers(self._ports[node]) >= len(self.pids)
        except OSError:
            return False

    def _log(self, node: int) -> pathlib.Path:
        return self._folder / f"node{node}.log"

    def _launch(self, node: int) -> None:
        config = self._write_config(node)
        if not (self._folder / f"node{node}" / "meta.properties").exists():
            role = "--standalone" if node == 1 else "--no-initial-controllers"
            self._storage_tool("format", "-t", self._cluster_id, "-c", str(config), role)
        with self._log(node).open("ab") as log:
            self._running[node] = subprocess.Popen(
                self._java("kafka.Kafka", str(config), heap_mb=self._heap_mb),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _write_config(self, node: int) -> pathlib.Path:
        controller = f"127.0.0.1:{self._controller_port}"
        clients = f"OPEN://127.0.0.1:{self._ports[node]},GUARDED://127.0.0.1:{self._sasl_ports[node]}"
        replicas = str(min(len(self._nodes), 3))
        config = {
            "process.roles": "broker,controller" if node == 1 else "broker",
            "node.id": str(node),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": controller,
            "inter.broker.listener.name": "OPEN",
            "listeners": clients + (f",CONTROLLER://{controller}" if node == 1 else ""),
            "advertised.listeners": clients,
            "listener.security.protocol.map": "OPEN:PLAINTEXT,GUARDED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self._folder / f"node{node}"),
            "offsets.topic.replication.factor": replicas,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": "1",
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": "1",
            **SMALL_AND_QUICK,
            **WITH_USERS,
            **self._settings,
        }
        path = self._folder / f"node{node}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        return path

    def _java(self, *arguments: str, heap_mb: int) -> list[str]:
        memory = (f"-Xmx{heap_mb}m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        logging = f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}"
        return [java() or "java", *memory, logging, "-cp", f"{self._jars}/*", *arguments]

    def _storage_tool(self, *arguments: str) -> str:
        return checked(self._java("kafka.tools.StorageTool", *arguments, heap_mb=128), cwd=self._folder)


@contextlib.contextmanager
def running(folder: pathlib.Path) -> Iterator[KafkaBroker]:
    """One broker while the block runs. In CI it must start; elsewhere the test is skipped without Java or Maven."""
    missing = [] if java() else ["java"]
    if not shutil.which("mvn") and not (CACHE / f"kafka-{RELEASE}").exists():
        missing.append("mvn")
    if missing and not os.environ.get("CI"):
        pytest.skip(f"no Kafka broker without {' and '.join(missing)} on the PATH")
    broker = KafkaBroker(folder)
    try:
        yield broker.start()
    finally:
        broker.stop()
