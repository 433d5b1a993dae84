"""`penstock serve`: the address on stdout, the log on stderr, a clean shutdown."""

from __future__ import annotations

import pathlib
import re
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.engine.cli.commands.serve import metrics_address, milliseconds, named_tables
from penstock.enumerator.server.auth.tokens import new_token, parse_tokens
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import ConfigurationError
from tests.certificates import Authority

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables
    from tests.unit.engine.cli.command_line import Cli

V9 = "A_merge_event_long_v9_h120"


def test_named_tables() -> None:
    assert named_tables(["a=/x", "b=s3://y/z=1"]) == {"a": "/x", "b": "s3://y/z=1"}


@pytest.mark.parametrize("pairs", [["a"], ["=x"], ["a="], ["a=x", "a=y"]])
def test_bad_tables(pairs: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="--table"):
        named_tables(pairs)


@pytest.mark.parametrize(
    "pairs", [["s3://k:secret@b"], ["=s3://k:secret@b"], ["a=s3://k:secret@b", "a=s3://k:secret@c"]]
)
def test_errors_of_bad_tables_contain_no_credentials(pairs: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="--table") as caught:
        named_tables(pairs)
    assert "secret" not in str(caught.value)


def test_serve_without_tables_is_a_usage_error(cli: Cli) -> None:
    result = cli("serve")
    assert (result.code, result.stdout) == (2, b"")
    assert result.stderr.startswith("error [CONFIGURATION]: no table to serve: name at least one, as NAME=PATH")


def test_wrong_table_fails_at_once(cli: Cli, tmp_path: pathlib.Path) -> None:
    result = cli("serve", "--table", f"a={tmp_path}")
    assert (result.code, result.stdout) == (1, b"")
    assert result.stderr.startswith("error [TABLE_NOT_FOUND]: ")


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "nowhere", "127.0.0.1:99999"])
def test_wrong_address_is_refused(cli: Cli, tmp_path: pathlib.Path, listen: str) -> None:
    result = cli("serve", "--table", f"a={tmp_path}", "--listen", listen)
    assert (result.code, result.stdout) == (2, b"")


@pytest.mark.golden
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_server_process(golden: GoldenTables, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "penstock", "serve", "--table", f"orders={golden.table(V9)}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert re.fullmatch(r"127\.0\.0\.1:\d+", address)
            assert EnumeratorClient(address).describe_table("orders").table_version == 9
            process.send_signal(number)
            rest, log = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, rest) == (0, "")
    assert "Traceback" not in log


@pytest.mark.golden
def test_port_in_use_is_a_one_line_error(golden: GoldenTables) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        command = [sys.executable, "-m", "penstock", "serve", "--table", f"a={golden.table(V9)}", "--listen", address]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error [CONFIGURATION]: cannot listen at {address}")


# --- configuration, tokens, metrics ---


def test_times_and_metrics_addresses_of_flags() -> None:
    assert [milliseconds("--lease", text) for text in ("500ms", "5s", "5", "1.5s", "2m", "1h")] == [
        500,
        5000,
        5000,
        1500,
        120_000,
        3_600_000,
    ]
    for text in ("", "5x", "-1s", "s", "1 2"):
        with pytest.raises(ConfigurationError, match=r"--lease .*: expected a time such as"):
            milliseconds("--lease", text)
    assert [metrics_address(text) for text in ("9100", ":9100", "0.0.0.0:9100")] == [
        "127.0.0.1:9100",
        "127.0.0.1:9100",
        "0.0.0.0:9100",
    ]


def test_configuration_is_checked(cli: Cli, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[tables]\norders = "nowhere"\n')
    result = cli("config", "check", str(file))
    assert (result.code, result.text) == (0, "")
    for text, message in (
        ("lisen = 1", "unknown key 'lisen': did you mean listen?"),
        ("", "tables: got none, expected at least one"),
        ('[tables]\na = "x"\n[tls]\ncert = "none"\nkey = "none"', "tls.key: file 'none' cannot be read: No such file"),
        (
            '[tables.a]\npath = "x"\n[tables.a.kafka]\nbootstrap.servers = "h"\nsasl.password = "${env:NONE_SUCH}"',
            "option kafka.sasl.password: environment variable NONE_SUCH is not set in this process",
        ),
    ):
        file.write_text(text)
        result = cli("config", "check", str(file))
        assert (result.code, result.stdout) == (2, b"")
        assert message in result.stderr
        assert "error [CONFIGURATION]: " in result.stderr


def test_new_token_is_printed_once_with_its_line(cli: Cli) -> None:
    result = cli("token", "new", "spark", "--expires", "2030-01-01")
    assert result.code == 0
    token, line = result.stdout.decode().splitlines()
    assert token.startswith("pst_")
    assert [entry.name for entry in parse_tokens(line, "it")] == ["spark"]
    assert line.endswith(":2030-01-01")
    assert cli("token", "new", "a b").code == 2
    assert cli("token", "new", "a", "--expires", "soon").code == 2


@pytest.mark.golden
def test_configured_server_with_tls_tokens_and_metrics(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    authority = Authority(tmp_path / "pki")
    pair = authority.signed("server", "127.0.0.1")
    token, line = new_token("spark")
    (tmp_path / "tokens").write_text(line)
    (tmp_path / "token").write_text(token)
    file = tmp_path / "penstock.toml"
    file.write_text(
        f"""
        listen = "10.0.0.1:1"
        tokens = "{tmp_path}/tokens"
        [tables]
        orders = "{golden.table(V9)}"
        [tls]
        cert = "{pair.cert}"
        key = "{pair.key}"
        [[acl]]
        principal = "token:spark"
        rights = ["read"]
        """
    )
    command = [sys.executable, "-m", "penstock", "serve", "--config", str(file), "--listen", "127.0.0.1:0"]
    command += ["--metrics-listen", "0", "--lease", "9s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            desc = [sys.executable, "-m", "penstock", "table", "desc", "orders", "--server", address]
            known = ["--server-ca", authority.ca, "--server-token", str(tmp_path / "token")]
            result = subprocess.run([*desc, *known], capture_output=True, text=True, timeout=60, check=False)
            unknown = subprocess.run([*desc, *known[:2]], capture_output=True, text=True, timeout=60, check=False)
            process.send_signal(signal.SIGTERM)
            rest, log = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (result.returncode, result.stderr) == (0, "")
    assert (unknown.returncode, unknown.stdout) == (4, "")
    assert unknown.stderr.startswith("error [UNAUTHENTICATED]: no token was sent")
    assert (process.returncode, rest) == (0, "")
    assert re.search(r"metrics at http://127\.0\.0\.1:\d+/metrics", log)
    assert "DescribeTable from ipv4:127.0.0.1 refused: UNAUTHENTICATED" in log
    assert token not in log


@pytest.mark.golden
def test_metrics_name_their_missing_extra_and_a_server_without_metrics_runs(golden: GoldenTables) -> None:
    script = """
import sys
for name in ("prometheus_client", "grpc_reflection"):
    sys.modules[name] = None
from penstock.engine.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
    command = [sys.executable, "-c", script, "serve", "--table", f"orders={golden.table(V9)}"]
    result = subprocess.run(
        [*command, "--metrics-listen", "0"], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 2
    assert 'metrics need the extra `server`: pip install "penstock[server]"' in result.stderr
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert EnumeratorClient(process.stdout.readline().strip()).describe_table("orders").table_version == 9
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 0
