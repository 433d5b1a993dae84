"""Fault 28: secrets. A run with credentials in every setting that accepts them; then all its output is searched."""

from __future__ import annotations

import logging
import pathlib
import pickle
import subprocess
import sys
from collections.abc import Callable

import pyarrow.fs as pafs
import pytest
from prometheus_client import generate_latest

from penstock.engine.spark.source import PenstockDataSource
from penstock.enumerator.server.assembly import running_service
from penstock.enumerator.server.auth.tokens import new_token
from penstock.enumerator.server.config.settings import AclRule, Settings, TableSettings, TlsSettings
from penstock.enumerator.server.metrics.prometheus import Metrics
from penstock.enumerator.server.run import serve_enumerator
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.codec import serialized
from penstock.proto.codec.serialized import decode_scan
from penstock.proto.errors import ConfigurationError, PenstockError
from penstock.proto.model.access import ServerAccess
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.proto.model.reports import NextSplit, SplitReport
from penstock.table.storage import filesystem
from penstock.table.storage.filesystem import ArrowStorage, Storage, open_storage
from penstock.table.storage.uris import uri_without_credentials
from tests.certificates import Authority

V9 = "A_merge_event_long_v9_h120"
ONCE = CallLimits(deadline_ms=60_000, plan_deadline_ms=60_000, attempts=1)
URI = "s3://AKIAHUSH:hush-password@bucket/orders?access_key=hush-key&secret_key=hush-secret&region=eu-west-1"
SHARED = "s3://bucket/orders?region=eu-west-1"


@pytest.fixture
def folder(golden: object, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A table whose URI contains the secret too."""
    table_copy: pathlib.Path = golden.copy(V9, tmp_path)  # type: ignore[attr-defined]

    def opened(path: str) -> Storage:
        return ArrowStorage(URI, pafs.LocalFileSystem(), str(table_copy)) if path == URI else open_storage(path)

    monkeypatch.setattr("penstock.table.hudi_table.open_storage", opened)
    return table_copy


@pytest.mark.golden
@pytest.mark.usefixtures("folder")
def test_spark_tasks_hold_no_secret_of_the_path() -> None:
    """The driver plans with the credentials of the path, tasks read with those of executors."""
    source = PenstockDataSource({"path": URI})
    reader = source.reader(source.schema())
    (slot,) = [partition.value for partition in reader.partitions()]
    assert decode_scan(slot.scan).base_path == SHARED
    sent = pickle.dumps((reader, slot))
    assert not [secret for secret in (b"hush", b"AKIAHUSH") if secret in sent]


@pytest.mark.golden
def test_output_logs_and_files_of_a_run_hold_no_secret(
    folder: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path / "pki")
    pair = authority.signed("server", "127.0.0.1")
    (token, line), (wrong, _) = new_token("spark"), new_token("wrong")
    (tmp_path / "tokens").write_text(line)
    (tmp_path / "token").write_text(token)
    (tmp_path / "wrong").write_text(wrong)
    settings = Settings(
        tables={"orders": TableSettings(path=URI)},
        tls=TlsSettings(cert=pair.cert, key=pair.key),
        tokens=str(tmp_path / "tokens"),
        acl=(AclRule(principal="token:spark", rights=("read", "plan")),),
    )
    left: list[object] = [settings]
    metrics = Metrics()
    with (
        caplog.at_level(logging.DEBUG),
        running_service(settings, metrics) as enumerator,
        serve_enumerator(enumerator, settings=settings, observer=metrics) as server,
    ):
        access = ServerAccess(ca=authority.ca, token=str(tmp_path / "token"))
        client = EnumeratorClient(server.address, ONCE, access)
        left += [client, pickle.dumps(client), access, client.describe_table("orders")]
        plan = client.open_plan(PlanRequest(table="orders", query=Snapshot(), slots=1))
        left += [plan, serialized.encode_scan(plan.scan), client.describe_plan(plan.plan_id)]
        answer = client.next_split(plan.plan_id, 0, 0)
        assert isinstance(answer, NextSplit)
        left += [answer, serialized.encode_split(answer.split)]
        client.finish_split(plan.plan_id, 0, 0, SplitReport(rows=1, size_bytes=1))
        for ask in _failing(server.address, authority, tmp_path, client):
            with pytest.raises(PenstockError) as caught:
                ask()
            left += [caught.value, caught.value.__cause__, caught.value.__context__]
        (folder / ".hoodie" / "hoodie.properties").write_text("hoodie.table.name=x")
        with pytest.raises(PenstockError) as caught:
            client.describe_table("orders")
        left += [caught.value, caught.value.__cause__]
        server.stop(0)
    left += [generate_latest(metrics.registry).decode(), caplog.text]
    left += [record.__dict__ for record in caplog.records]
    assert plan.scan.base_path == SHARED, "readers get the address of the table and use their own credentials"
    secrets = ["hush", "AKIAHUSH", token, wrong, token.removeprefix("pst_")]
    for thing in left:
        for text in (str(thing), repr(thing)):
            assert not [secret for secret in secrets if secret.lower() in text.lower()], text[:2000]


def _failing(
    address: str, authority: Authority, folder: pathlib.Path, client: EnumeratorClient
) -> list[Callable[[], object]]:
    wrong = EnumeratorClient(address, ONCE, ServerAccess(ca=authority.ca, token=str(folder / "wrong")))
    nowhere = EnumeratorClient("127.0.0.1:1", ONCE, ServerAccess(ca=authority.ca, token=str(folder / "token")))
    return [
        lambda: client.describe_table(URI),
        lambda: client.describe_table("ordres"),
        lambda: client.open_plan(PlanRequest(table="orders", query=Snapshot(), columns=("none",))),
        lambda: client.describe_plan("none"),
        lambda: wrong.describe_table("orders"),
        lambda: nowhere.describe_table("orders"),
    ]


@pytest.mark.parametrize(
    ("uri", "shared"),
    [
        (URI, SHARED),
        ("s3://key:pa/ss@b/t", "s3://b/t"),
        ("gs://anonymous@b/t?retry_limit_seconds=3&access_token=hush", "gs://b/t"),
        (
            "s3://b/t?endpoint_override=localhost:9000&scheme=http",
            "s3://b/t?endpoint_override=localhost:9000&scheme=http",
        ),
        ("s3://b/t?endpoint_override=http%3A%2F%2Fu%3Ahush%40h", "s3://b/t"),
        ("s3://k:hush?region=x@b/t", "s3://b/t"),
        ("s3://b/t?SECRET_KEY=hush&Region=x", "s3://b/t?Region=x"),
        ("/lake/orders?x=1", "/lake/orders?x=1"),
    ],
)
def test_uri_is_printed_without_secrets(uri: str, shared: str) -> None:
    assert uri_without_credentials(uri) == shared


def test_token_instead_of_its_file_is_refused_and_not_printed() -> None:
    token, _ = new_token("spark")
    with pytest.raises(ConfigurationError, match="option serverToken holds a token: give the file") as caught:
        ServerAccess(token=token)
    assert token not in str(caught.value)


@pytest.mark.parametrize("broken", ["s3://AKIAHUSH:hush@bucket/nothing", "hdfs://hush:hush@127.0.0.1:1/x?token=hush"])
def test_server_logs_no_secret_of_a_table_that_cannot_be_opened(
    broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Unreachable:
        @staticmethod
        def from_uri(uri: str) -> object:
            raise OSError(f"no way to {uri}")

    monkeypatch.setattr(filesystem.pafs, "FileSystem", Unreachable)
    with (
        caplog.at_level(logging.DEBUG),
        running_service(Settings(tables={"orders": TableSettings(path=broken)})) as service,
    ):
        status = repr(service.describe_server())
    assert "table cannot be opened" in caplog.text
    assert "cannot be opened" in status
    assert "hush" not in (caplog.text + status).lower()


def test_command_line_output_holds_no_secret(tmp_path: pathlib.Path) -> None:
    (tmp_path / "penstock.toml").write_text('listen = 5\n[tables]\norders = "s3://AKIAHUSH:hush@bucket/x"\n')
    for arguments in (
        ["config", "check", str(tmp_path / "penstock.toml")],
        ["serve", "--table", "orders=nosuch://AKIAHUSH:hush@bucket/x?secret_key=hush"],
        ["serve", "--table", "s3://AKIAHUSH:hush@bucket/x"],
        ["read", "orders", "--server", "127.0.0.1:1", "--server-token", "pst_hush"],
    ):
        result = subprocess.run(
            [sys.executable, "-m", "penstock", "-vv", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 2, result.stderr
        assert "hush" not in (result.stdout + result.stderr).lower()
