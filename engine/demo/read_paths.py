"""The four ways in which the demo reads a table: Arrow, Spark with an embedded enumerator, Spark and command line
through a server. And a table that it writes, and reads back.

Each read path yields the rows that it read, with the rows that Hudi returned for the same query.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.arrow import read
from penstock.engine.demo.sample import SampleCommit
from penstock.engine.demo.stage import Stage
from penstock.proto.errors import PenstockError

COMMAND_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one query."""

    what: str
    """The query, in words."""
    actual: pa.Table
    """The rows that Penstock returned."""
    expected: pa.Table
    """The rows that Hudi returned."""


@dataclass(frozen=True, slots=True)
class ReadPath:
    """A way to read a table."""

    name: str
    """Its title in the output."""
    call: str
    """The call or command that a user would write."""
    answers: Callable[[Stage], Iterator[Answer]]
    """Runs the queries."""
    slots: int = 0
    """The least number of tasks that must have shared the splits of one plan, by the server's log."""


def _ranges(stage: Stage) -> Iterator[tuple[str, SampleCommit]]:
    """(after, commit) for each instant; its range is (`after`, order key of the commit]."""
    after = "earliest"
    for commit in stage.sample.commits:
        yield after, commit
        after = commit.order_key


def arrow_answers(stage: Stage) -> Iterator[Answer]:
    """The snapshot, and the range of each commit."""
    table = str(stage.table)
    yield Answer("snapshot", read(table).read_all(), stage.sample.snapshot)
    for after, commit in _ranges(stage):
        rows = read(table, query="incremental", after=after, upto=commit.order_key).read_all()
        yield Answer(f"range of: {commit.what}", rows, commit.rows)


def spark_answers(stage: Stage) -> Iterator[Answer]:
    """The snapshot as a batch. The driver plans; each task receives its splits with its partition."""
    yield Answer("snapshot", stage.spark.rows(str(stage.table), {}), stage.sample.snapshot)


def served_answers(stage: Stage) -> Iterator[Answer]:
    """The snapshot as a batch, then a stream with one commit per micro-batch. Tasks request splits from the server."""
    table, server = stage.sample.table, {"server": stage.server.address, "slots": "2"}
    yield Answer("snapshot, batch", stage.spark.rows(table, server), stage.sample.snapshot)
    options = server | {"after": "earliest", "maxCommitsPerTrigger": "1"}
    batches = [rows for rows in stage.spark.micro_batches(table, options) if rows.num_rows]
    commits = [commit for commit in stage.sample.commits if commit.rows.num_rows]
    no_rows = stage.sample.snapshot.slice(0, 0)
    for number, (rows, commit) in enumerate(zip_longest(batches, commits), 1):
        what = commit.what if commit else "no commit"
        expected = commit.rows if commit else no_rows
        yield Answer(f"stream, micro-batch {number}: {what}", no_rows if rows is None else rows, expected)


def command_answers(stage: Stage) -> Iterator[Answer]:
    """The snapshot and the newest range, each read by a `penstock read --server` process."""
    yield Answer("snapshot", _command(stage, "snapshot"), stage.sample.snapshot)
    *_, (after, commit) = _ranges(stage)
    arguments = ("--query", "incremental", "--after", after, "--upto", commit.order_key)
    yield Answer(f"range of: {commit.what}", _command(stage, "range", *arguments), commit.rows)


def written_answers(stage: Stage) -> Iterator[Answer]:
    """A table that Penstock wrote with Hudi's rows: its snapshot, and the range of its second commit."""
    from penstock.engine.demo.written_table import data_columns, new_splits, write_copy

    path, first = write_copy(stage)
    expected = data_columns(stage.sample.snapshot)
    yield Answer("snapshot of the written table", read(path, meta=False).read_all(), expected)
    splits = new_splits(path, first)
    rows = read(path, query="incremental", after=first, meta=False).read_all()
    yield Answer(f"range of its second commit, which the enumerator plans as {splits} splits", rows, expected)


def _command(stage: Stage, name: str, *arguments: str) -> pa.Table:
    file = stage.scratch / f"command-{name}.parquet"
    command = [sys.executable, "-m", "penstock", "read", stage.sample.table, "--server", stage.server.address]
    result = subprocess.run(
        [*command, *arguments, "-o", str(file)],
        cwd=stage.scratch,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
    )
    if result.returncode:
        raise PenstockError(f"`penstock read --server` ended with {result.returncode}: {result.stderr[-2000:]}")
    return pq.read_table(file)


READ_PATHS: dict[str, ReadPath] = {
    "arrow": ReadPath("Arrow", 'penstock.read("…/orders")', arrow_answers),
    "spark": ReadPath(
        "Spark batch, enumerator embedded", 'spark.read.format("penstock").load("…/orders")', spark_answers
    ),
    "served": ReadPath(
        "Spark batch and stream through a server",
        'spark.readStream.format("penstock").options(after="earliest", maxCommitsPerTrigger=1).load("orders")',
        served_answers,
        slots=2,
    ),
    "command": ReadPath(
        "Command line through a server", "penstock read orders --server … -o rows.parquet", command_answers
    ),
    "write": ReadPath(
        "A table that Penstock writes with these rows, read back",
        'penstock.create_table("…/written", …); penstock.write("…/written", rows)',
        written_answers,
    ),
}
