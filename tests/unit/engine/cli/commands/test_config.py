"""`penstock config check`: one line for each problem of a server's or a client's file."""

from __future__ import annotations

import datetime
import json
import pathlib
from typing import TYPE_CHECKING

import pytest

from tests.certificates import Authority

if TYPE_CHECKING:
    from tests.unit.engine.cli.command_line import Cli


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "penstock.toml"


SERVER = 'lisen = "h:1"\nleaseMs = "soon"\n[tables.a]\npath = "x"\npolIntervalMs = 3\n'
CLIENT = 'batchRow = 3\neventTime = "ts"\n[tables.a]\npath = "x"\ncolumn = "b"\nserverCa = "nowhere.pem"\n'


@pytest.mark.parametrize(
    ("text", "kind", "messages"),
    [
        (
            SERVER,
            "server",
            [
                "unknown key 'lisen': did you mean listen?",
                "key 'leaseMs': got 'soon', expected",
                "unknown key 'tables.a.polIntervalMs': did you mean pollIntervalMs?",
            ],
        ),
        (
            CLIENT,
            "client",
            [
                "unknown key 'batchRow': did you mean batchRows?",
                "unknown key 'tables.a.column': did you mean columns?",
                "tables.a.serverCa: there is no file 'nowhere.pem'",
            ],
        ),
    ],
)
def test_config_check_prints_a_line_for_each_problem(
    cli: Cli, file: pathlib.Path, text: str, kind: str, messages: list[str]
) -> None:
    file.write_text(text)
    result = cli("config", "check", file)
    lines = result.stderr.splitlines()
    assert (result.code, result.stdout, len(lines)) == (2, b"", len(messages)), result.stderr
    for message in messages:
        (line,) = [line for line in lines if message in line]
        assert line.startswith("error [CONFIGURATION]: ")
        assert "penstock.toml" in line
    report = cli("config", "check", file, "--format", "json")
    assert report.code == 2
    assert (report.json["kind"], len(report.json["problems"])) == (kind, len(messages))
    as_json = [json.loads(line) for line in cli("--log-format", "json", "config", "check", file).stderr.splitlines()]
    assert [line["exit_code"] for line in as_json] == [2] * len(messages)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('[tables]\norders = "nowhere"\n', "server"),
        ('leaseMs = 30000\n[tables]\norders = "nowhere"\n', "server"),
        ('batchRows = 30000\n[tables]\norders = "nowhere"\n', "client"),
        ('server = "127.0.0.1:1"\n', "client"),
    ],
)
def test_config_check_detects_the_kind_of_file_by_its_keys(cli: Cli, file: pathlib.Path, text: str, kind: str) -> None:
    file.write_text(text)
    result = cli("config", "check", file)
    assert (result.code, result.stdout, result.stderr) == (0, b"", "")
    assert cli("config", "check", file, "--format", "json").json == {"file": str(file), "kind": kind, "problems": []}
    other = "client" if kind == "server" else "server"
    wrong = cli("config", "check", file, "--kind", other).code
    assert wrong == (0 if "leaseMs" not in text and kind == "server" else 2)


def test_config_check_reports_every_bad_certificate_token_and_secret(cli: Cli, file: pathlib.Path) -> None:
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=2)
    pair = Authority(file.parent / "pki").signed("server", begin=past, end=past + datetime.timedelta(days=1))
    file.write_text(
        f"""
        tokens = "none"
        acl = [{{ principal = "*", rights = ["read"] }}]
        [tls]
        cert = "{pair.cert}"
        key = "{pair.key}"
        [tables.a]
        path = "x"
        [tables.a.kafka]
        bootstrap.servers = "h"
        sasl.password = "${{env:NONE_SUCH}}"
        """
    )
    result = cli("config", "check", file)
    lines = result.stderr.splitlines()
    assert (result.code, len(lines)) == (2, 3), result.stderr
    assert "tls.cert: the certificate in" in lines[0] and "expired on" in lines[0]
    assert "'none'" in lines[1]
    assert "NONE_SUCH" in lines[2]
