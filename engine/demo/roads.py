"""The four roads from a table to rows: Arrow, Spark with the enumerator embedded, Spark through a server, command line.

Each road yields what it read together with the rows Hudi returned for the same question. Not here: comparing, printing.
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
    """What was asked, what came, what Hudi returned."""

    what: str
    got: pa.Table
    want: pa.Table


@dataclass(frozen=True, slots=True)
class Road:
    """A way to read: its name, the call a user would write, and the answers it brings.

    `slots`: at least so many tasks must have shared the splits of one plan, by the server's log.
    """

    name: str
    call: str
    answers: Callable[[Stage], Iterator[Answer]]
    slots: int = 0


def _ranges(stage: Stage) -> Iterator[tuple[str, SampleCommit]]:
    """(after, commit) of every instant: its range is (after, its own order key]."""
    after = "earliest"
    for commit in stage.sample.commits:
        yield after, commit
        after = commit.order_key


def arrow_answers(stage: Stage) -> Iterator[Answer]:
    """The snapshot, and every commit's range."""
    table = str(stage.table)
    yield Answer("snapshot", read(table).read_all(), stage.sample.snapshot)
    for after, commit in _ranges(stage):
        rows = read(table, query="incremental", after=after, upto=commit.order_key).read_all()
        yield Answer(f"range of: {commit.what}", rows, commit.rows)


def spark_answers(stage: Stage) -> Iterator[Answer]:
    """The snapshot in a batch; the driver plans, each task gets its splits with its partition."""
    yield Answer("snapshot", stage.spark.rows(str(stage.table), {}), stage.sample.snapshot)


def served_answers(stage: Stage) -> Iterator[Answer]:
    """The snapshot in a batch, then a stream with one commit a micro-batch; tasks pull splits from the server."""
    table, server = stage.sample.table, {"server": stage.server.address, "slots": "2"}
    yield Answer("snapshot, batch", stage.spark.rows(table, server), stage.sample.snapshot)
    given = server | {"after": "earliest", "maxCommitsPerTrigger": "1"}
    batches = [rows for rows in stage.spark.micro_batches(table, given) if rows.num_rows]
    wanted = [commit for commit in stage.sample.commits if commit.rows.num_rows]
    nothing = stage.sample.snapshot.slice(0, 0)
    for number, (rows, commit) in enumerate(zip_longest(batches, wanted), 1):
        what = commit.what if commit else "no commit"
        want = commit.rows if commit else nothing
        yield Answer(f"stream, micro-batch {number}: {what}", nothing if rows is None else rows, want)


def command_answers(stage: Stage) -> Iterator[Answer]:
    """The snapshot and the newest range, each by a `penstock read` process that asks the server."""
    yield Answer("snapshot", _command(stage, "snapshot"), stage.sample.snapshot)
    *_, (after, commit) = _ranges(stage)
    given = ("--query", "incremental", "--after", after, "--upto", commit.order_key)
    yield Answer(f"range of: {commit.what}", _command(stage, "range", *given), commit.rows)


def _command(stage: Stage, name: str, *given: str) -> pa.Table:
    file = stage.scratch / f"command-{name}.parquet"
    command = [sys.executable, "-m", "penstock", "read", stage.sample.table, "--server", stage.server.address]
    result = subprocess.run(
        [*command, *given, "-o", str(file)],
        cwd=stage.scratch,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
    )
    if result.returncode:
        raise PenstockError(f"`penstock read --server` ended with {result.returncode}: {result.stderr[-2000:]}")
    return pq.read_table(file)


ROADS: dict[str, Road] = {
    "arrow": Road("Arrow", 'penstock.read("…/orders")', arrow_answers),
    "spark": Road("Spark batch, enumerator embedded", 'spark.read.format("penstock").load("…/orders")', spark_answers),
    "served": Road(
        "Spark batch and stream through a server",
        'spark.readStream.format("penstock").options(after="earliest", maxCommitsPerTrigger=1).load("orders")',
        served_answers,
        slots=2,
    ),
    "command": Road(
        "Command line through a server", "penstock read orders --server … -o rows.parquet", command_answers
    ),
}
