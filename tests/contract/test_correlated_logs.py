"""Log lines of a server and of a reader have the same ids for a split."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.engine.cli.output.log_format import JsonLines, TextLines
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.errors import PenstockError

pytestmark = pytest.mark.golden
CASE = "A_merge_event_long_v9_h120"
Line = dict[str, Any]


def lines_of(text: str) -> list[Line]:
    """Log lines in JSON; every line must be valid JSON."""
    return [json.loads(line) for line in text.splitlines() if line]


@pytest.fixture
def served(golden: Any, tmp_path: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    """A server process and its log."""
    log = tmp_path / "server.log"
    command = [sys.executable, "-m", "penstock", "-vv", "--log-format", "json", "serve"]
    command += ["--table", f"orders={golden.table(CASE)}", "--poll-interval", "100ms"]
    with (
        log.open("wb") as stream,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stream, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), log
        finally:
            process.terminate()
            process.wait(timeout=30)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", "-vv", "--log-format", "json", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env={**os.environ})


def test_split_has_the_same_ids_in_the_logs_of_server_and_reader(served: tuple[str, pathlib.Path]) -> None:
    address, log = served
    read = run("tail", "orders", "--server", address, "--group", "audit", "--reader-id", "r1", "--exit-at-end")
    server, reader = lines_of(log.read_text()), lines_of(read.stderr)
    received = [line for line in reader if line["message"] == "split received"]
    assert received
    for split in received:
        ids = {name: split[name] for name in ("table", "group", "reader", "plan", "index")}
        assert (ids["table"], ids["group"], ids["reader"]) == ("orders", "audit", "r1")

        def line_of(lines: list[Line], what: str, ids: Line = ids) -> Line:
            (line,) = [one for one in lines if one["message"] == what and ids.items() <= one.items()]
            return line

        planned = [one for one in server if one["message"] == "round planned" and one["plan"] == ids["plan"]]
        assert len(planned) == 1
        assigned = line_of(server, "split assigned")
        assert (assigned["split"], assigned["request"], assigned["call"]) == (
            split["split"],
            split["request"],
            "RequestSplits",
        )
        begun, done = line_of(reader, "split begun"), line_of(reader, "split read")
        assert begun["split"] == done["split"] == split["split"]
        finished = line_of(server, "split finished")
        assert finished["rows"] == done["rows"]
        commits = [one for one in reader if one["message"] == "split committed" and ids.items() <= one.items()]
        assert finished["request"] in {one["request"] for one in commits if one["finished"]}
        assert finished["call"] == "CommitSplits"


@pytest.mark.exhaustive
def test_log_lines_of_a_request_have_its_ids(served: tuple[str, pathlib.Path]) -> None:
    address, log = served
    read = run("read", "orders", "--server", address, "--format", "jsonl")
    server, client = lines_of(log.read_text()), lines_of(read.stderr)
    of_calls = [line for line in server if "call" in line]
    assert all(line["request"] for line in of_calls)
    requested = {line["request"]: line["call"] for line in client if line["message"] == "call answered"}
    answered = {line["request"]: line["call"] for line in of_calls if line["message"] == "call answered"}
    assert requested and requested == answered
    (opened,) = [line for line in server if line["message"] == "plan opened"]
    assert (opened["call"], opened["table"]) == ("OpenPlan", "orders")
    splits = [line for line in server if line["message"] == "split assigned"]
    assert splits and all(line["call"] == "NextSplit" and line["plan"] == opened["plan"] for line in splits)
    done = [(line["plan"], line["split"]) for line in client if line["message"] == "split read"]
    assert sorted(done) == sorted((line["plan"], line["split"]) for line in splits)


def test_log_lines_of_refused_and_failed_calls_have_their_ids(served: tuple[str, pathlib.Path]) -> None:
    address, log = served
    client = EnumeratorClient(address, CallLimits(attempts=1))
    with pytest.raises(PenstockError):
        client.describe_plan("no such\nplan")
    (line,) = [line for line in lines_of(log.read_text()) if "failed: UNKNOWN_PLAN" in line["message"]]
    assert (line["call"], line["plan"]) == ("DescribePlan", "no such\nplan")
    assert line["request"] in line["message"]


@pytest.mark.parametrize("form", [TextLines(), JsonLines()], ids=["text", "json"])
def test_log_line_with_foreign_text_stays_one_line(form: logging.Formatter) -> None:
    from penstock.proto.logging import log_context

    record = logging.LogRecord("penstock.x", logging.INFO, "f", 1, "said\n%s", ("a\x1b[31m",), None)
    record.__dict__["table"] = "t\nlevel=error"
    with log_context(reader="r\r\n\x00", message="x", level="y"):
        line = form.format(record)
    assert len(line.splitlines()) == 1 and "\x1b" not in line and "\x00" not in line
    if isinstance(form, JsonLines):
        assert json.loads(line)["level"] == "info"
