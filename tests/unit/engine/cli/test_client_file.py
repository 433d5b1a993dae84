"""The client's file: precedence of settings, tables by name, one line for each problem."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import pytest

from penstock.engine.cli.client_file import load_client_file
from penstock.engine.cli.shell import Shell, given_options
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import EntryPoint

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables
    from tests.unit.engine.cli.command_line import Cli

V9 = "A_merge_event_long_v9_h120"

TEXT = """
batch-rows = 100
server = "127.0.0.1:7070"
serverToken = "env:T"
[tables]
short = "/lake/short"
[tables.orders]
path = "/lake/orders"
batchRows = 7
timelineTimezone = "Europe/Berlin"
kafka.bootstrap.servers = "h:9092"
kafka.topic = "orders"
[tables.trips]
columns = ["id", "v"]
"""


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "client.toml"
    path.write_text(TEXT)
    return path


def test_precedence_is_flag_environment_table_file(file: pathlib.Path) -> None:
    shell = Shell(config=str(file))

    def rows(table: str | None, flag: str | None = None, environment: dict[str, str] | None = None) -> int:
        return given_options(shell, {"batchRows": flag}, environment=environment or {}, table=table).batch_rows

    assert [rows(None), rows("trips"), rows("orders"), rows("another")] == [100, 100, 7, 100]
    assert rows("orders", environment={"PENSTOCK_BATCH_ROWS": "8"}) == 8
    assert rows("orders", "9", {"PENSTOCK_BATCH_ROWS": "8"}) == 9


def test_table_with_a_path_needs_no_server_and_others_are_read_by_name(file: pathlib.Path) -> None:
    shell = Shell(config=str(file))
    orders = given_options(shell, {}, environment={}, table="orders")
    assert (orders.server, orders.server_token, orders.timeline_timezone) == (None, "", "Europe/Berlin")
    assert shell.file.path_of("orders", orders.server) == "/lake/orders"
    assert shell.file.path_of("short", None) == "/lake/short"
    trips = given_options(shell, {}, environment={}, table="trips")
    assert (trips.server, trips.server_token, trips.columns) == ("127.0.0.1:7070", "env:T", ("id", "v"))
    assert shell.file.path_of("trips", trips.server) == "trips"
    flagged = given_options(shell, {"server": "127.0.0.1:1"}, environment={}, table="orders")
    assert shell.file.path_of("orders", flagged.server) == "orders"
    assert shell.file.path_of("/elsewhere", None) == "/elsewhere"


def test_settings_of_kafka_clients_reach_only_streams_and_consumers(file: pathlib.Path) -> None:
    shell = Shell(config=str(file))
    assert given_options(shell, {}, environment={}, table="orders").kafka == ()
    consumer = given_options(shell, {}, environment={}, table="orders", entry_point=EntryPoint.CONSUMER)
    assert (consumer.kafka, consumer.kafka_topic) == ((("bootstrap.servers", "h:9092"),), "orders")


@pytest.mark.golden
def test_commands_resolve_tables_by_name(
    cli: Cli, golden: GoldenTables, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.toml"
    file.write_text(f'server = "127.0.0.1:1"\n[tables.orders]\npath = "{golden.table(V9)}"\nlimit = 2\n')
    rows = cli("--config", file, "read", "orders", "--format", "jsonl")
    assert (rows.code, len(rows.text.splitlines())) == (0, 2), rows.stderr
    monkeypatch.setenv("PENSTOCK_CONFIG", str(file))
    for command in (["timeline"], ["splits", "plan"], ["table", "desc"]):
        report = cli(*command, "orders", "--format", "json")
        assert report.code == 0, report.stderr
    assert report.json["base_path"] == str(golden.table(V9))
    result = cli("--config", file, "serve")
    assert (result.code, result.stdout) == (2, b"")
    assert "--config before `serve` is the client's file" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sever = 'h:1'", "unknown key 'sever': did you mean server?"),
        ("[tables.a]\nclumns = 'x'", "unknown key 'tables.a.clumns': did you mean columns?"),
        ("[tables.a]\npth = 'x'", "unknown key 'tables.a.pth': did you mean path?"),
        ("batchRows = 'many'", "batchRows: got 'many', expected a whole number"),
        ("batchRows = 1\nbatch_rows = 2", "batchRows is given twice"),
        ("[tables.a]\npath = 3", "key 'tables.a.path': expected a path or URI"),
        ("tables = 3", "tables: expected [tables.NAME]"),
        ("[tables]\na = 3", "tables.a: expected a path, or a table of options"),
        ("[tables.a]\npath = 'p'\nserver = '127.0.0.1:1'", "tables.a: path and server exclude each other"),
        ("serverCert = 'c'", "option serverCert is given without serverKey"),
        ("a = [", "is not TOML"),
    ],
)
def test_client_file_problems(tmp_path: pathlib.Path, text: str, message: str) -> None:
    file = tmp_path / "client.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_client_file(str(file))
    assert message in str(caught.value)
    assert "client.toml" in str(caught.value)


def test_several_problems_are_counted(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "client.toml"
    file.write_text("a = 1\nb = 2\n")
    with pytest.raises(ConfigurationError, match=r"\(and 1 more: penstock config check .*client\.toml\)"):
        load_client_file(str(file))


def test_missing_or_too_large_client_file(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        load_client_file(str(tmp_path / "none.toml"))
    (tmp_path / "large.toml").write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(ConfigurationError, match="larger than"):
        load_client_file(str(tmp_path / "large.toml"))


def test_repr_contains_no_secret_of_the_client_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "client.toml"
    file.write_text('[tables.a]\npath = "s3://k:hidden@b"\nkafka.sasl.password = "hidden"\n')
    assert "hidden" not in repr(load_client_file(str(file)))
