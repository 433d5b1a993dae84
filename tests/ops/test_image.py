"""Runs the command of the image: the wheel of its build context, its command line and variables, a read-only root, an
unprivileged user, TLS and probes. Without a container engine it does not test the base image, its `RUN` lines, and
pip's installation of the dependencies there."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import penstock
from penstock.enumerator.server.auth.tokens import new_token
from penstock.enumerator.server.config.load import load_settings
from tests.certificates import Authority
from tests.faults.served import end, until
from tests.loopback_ports import free_port
from tests.ops import image
from tests.ops.places import DEPLOY
from tests.progress import PROGRESS_S

pytestmark = [pytest.mark.ops, pytest.mark.golden]
CASE = "A_merge_event_long_v9_h120"


@dataclass
class Running:
    """A running command of the image."""

    process: subprocess.Popen[str]
    log: pathlib.Path
    address: str
    health: str
    metrics: str
    confined: bool
    client: dict[str, str]

    def serves(self) -> str:
        """Status that probes get; empty without an answer."""
        with grpc.insecure_channel(self.health) as channel:
            try:
                response = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=2)
            except grpc.RpcError:
                return ""
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The command `penstock` of a wheel that is built from the image's build context."""
    folder = tmp_path_factory.mktemp("image")
    image.lay_out_context(folder / "src")
    return image.installed(folder / "src", folder)


@pytest.fixture
def running(binary: pathlib.Path, golden: Any, tmp_path: pathlib.Path) -> Iterator[Running]:
    """Serves one table with certificates, tokens and state; the root is read-only except for three folders."""
    writable = tmp_path / "writable"
    for name in ("state", "cache", "scratch"):
        (writable / name).mkdir(parents=True)
        os.chown(writable / name, image.UID if os.geteuid() == 0 else -1, -1)
    authority = Authority(tmp_path / "pki")
    server, client = authority.signed("server", "127.0.0.1"), authority.signed("client", "reader.spark.svc")
    token, line = new_token("spark-1")
    (tmp_path / "tokens").write_text(line + "\n")
    (tmp_path / "token").write_text(token)
    (tmp_path / "token").chmod(0o600)
    address, health, metrics = (f"127.0.0.1:{free_port()}" for _ in range(3))
    config = tmp_path / "penstock.toml"
    config.write_text(
        f'listen = "{address}"\nhealthListen = "{health}"\nmetricsListen = "{metrics}"\n'
        f'state = "{writable}/state/own"\ntokens = "{tmp_path}/tokens"\ndrainMs = 2000\n'
        f'[tables]\nt = "{golden.table(CASE)}"\n'
        f'[tls]\ncert = "{server.cert}"\nkey = "{server.key}"\nclientCa = "{authority.ca}"\n'
        '[[acl]]\nprincipal = "token:spark-*"\nrights = ["read", "plan"]\n'
    )
    arguments = [str(config) if word == "/etc/penstock/penstock.toml" else word for word in image.command()]
    prefix = image.confining(writable)
    variables = image.environment() | {"NUMBA_CACHE_DIR": f"{writable}/cache", "TMPDIR": f"{writable}/scratch"}
    log = tmp_path / "log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [*prefix, str(binary), *arguments[1:]],
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **variables},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd="/",
        )
    access = {
        "server_ca": authority.ca,
        "server_cert": client.cert,
        "server_key": client.key,
        "server_token": str(tmp_path / "token"),
    }
    running = Running(process, log, address, health, metrics, bool(prefix), access)
    try:
        yield running
    finally:
        end(process)


def test_image_serves_probes_readers_and_prometheus_and_stops_cleanly(running: Running, golden: Any) -> None:
    until(lambda: running.serves() == "SERVING" or running.process.poll() is not None, "probes get SERVING")
    assert running.process.poll() is None, running.log.read_text()
    rows = penstock.read("t", server=running.address, **running.client).read_all()
    assert rows.num_rows == golden.expected(CASE, "snapshot").num_rows > 0
    with grpc.insecure_channel(running.address) as channel, pytest.raises(grpc.RpcError):
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
    with urllib.request.urlopen(f"http://{running.metrics}/metrics", timeout=10) as answer:
        assert b"penstock_reader_records_total" in answer.read()
    if running.confined:
        status = pathlib.Path(f"/proc/{running.process.pid}/status").read_text()
        assert f"Uid:\t{image.UID}\t{image.UID}" in status and "NoNewPrivs:\t1" in status
        mounts = [
            line.split() for line in pathlib.Path(f"/proc/{running.process.pid}/mountinfo").read_text().splitlines()
        ]
        (root,) = (fields for fields in mounts if fields[4] == "/")
        assert "ro" in root[5].split(",")
    assert '"level"' in running.log.read_text()
    running.process.send_signal(signal.SIGTERM)
    until(lambda: running.serves() == "NOT_SERVING", "probes get NOT_SERVING", 5)
    assert running.process.wait(PROGRESS_S) == 0, running.log.read_text()


def test_missing_configuration_is_one_line_and_exit_code_2(binary: pathlib.Path) -> None:
    command = [str(binary), *image.command()[1:]]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stdout == "" and ended.stderr.count("\n") == 1
    assert "/etc/penstock/penstock.toml" in ended.stderr


def test_image_is_not_root_and_writes_only_to_its_mounts() -> None:
    user, group = image.last("USER").split(":")
    assert int(user) == int(group) == image.UID
    assert image.last("STOPSIGNAL") == "SIGTERM"
    assert image.command()[:1] == ["penstock"]
    assert image.environment()["NUMBA_CACHE_DIR"] == "/var/cache/penstock"
    settings = load_settings(str(DEPLOY / "penstock.toml"))
    exposed = {int(port) for port in image.last("EXPOSE").split()}
    listening = {settings.listen, settings.health_listen, settings.metrics_listen}
    assert exposed == {int(listener.rpartition(":")[2]) for listener in listening}
    assert settings.state == "/var/lib/penstock"
    running = [rest for word, rest in image.instructions((DEPLOY / "Dockerfile").read_text()) if word == "RUN"][-1]
    assert "install -d -o 10001 -g 10001 /var/lib/penstock /var/cache/penstock" in running
