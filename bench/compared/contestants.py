"""Contestants, questions, the requests of a question for each contestant, and the processes that answer them.

A question is translated into each contestant's own options; all must return equal results.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from bench.compared.columns import sql_changes_fingerprint, sql_fingerprint
from bench.compared.processes import Worker
from bench.compared.tables import PreparedTable
from penstock.engine.spark import interpreter

HERE = pathlib.Path(__file__).parent


class Contestant(StrEnum):
    """A reader and the engine that receives its rows."""

    ARROW = "Penstock to Arrow"
    SYSTEM_POOL = "Penstock to Arrow, system pool"
    HUDI_RS_STREAM = "hudi-rs stream"
    HUDI_RS_CRATE = "hudi-rs 0.6.0-rc.1 stream"
    HUDI_RS = "hudi-rs eager"
    PYARROW = "pyarrow, base files"
    SPARK = "Penstock in Spark"
    SPARK_TABLE = "penstock.spark.table"
    SPARK_SQL = "penstock.spark.sql"
    PER_RECORD = "Penstock in Spark, per record"
    BARE = "a Python source of three rows in Spark"
    HUDI_SPARK = "Hudi's bundle in Spark"
    SPARK_PARQUET = "Spark's Parquet scan, base files"


ARROW_READERS = {
    Contestant.ARROW: "penstock",
    Contestant.SYSTEM_POOL: "penstock",
    Contestant.HUDI_RS_STREAM: "hudi-rs stream",
    Contestant.HUDI_RS_CRATE: "hudi-rs crate",
    Contestant.HUDI_RS: "hudi-rs",
    Contestant.PYARROW: "pyarrow",
}
SPARK_FORMATS = {
    Contestant.SPARK: "penstock",
    Contestant.SPARK_TABLE: "penstock.spark.table",
    Contestant.SPARK_SQL: "penstock.spark.sql",
    Contestant.PER_RECORD: "penstock_per_record",
    Contestant.BARE: "bare",
    Contestant.HUDI_SPARK: "hudi",
    Contestant.SPARK_PARQUET: "parquet",
}


class Kind(StrEnum):
    """The query kind of a question."""

    SNAPSHOT = "snapshot"
    INCREMENTAL = "incremental"
    CDC = "cdc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query of a table. Incremental and change queries read the range of the upsert."""

    kind: Kind = Kind.SNAPSHOT
    """Snapshot, incremental or change query."""
    columns: tuple[str, ...] = ()
    """Column names; () selects all."""
    ask: str = "all"
    """`all` rows, `count`, `sum` of the one column, or `sql`."""
    sql: str = ""
    """The query over the view `t`, for `ask` = `sql`."""


@dataclass(slots=True)
class Cast:
    """The processes of a run; each is started on first use."""

    hudi: list[str | pathlib.Path]
    """Command line of the PySpark process with Hudi's bundle."""
    _workers: dict[str, Worker] = field(default_factory=dict)

    def worker(self, contestant: Contestant) -> Worker:
        """The process of a contestant; Penstock in Spark and Spark's own scan share a session."""
        name = "Spark" if contestant in SPARK_FORMATS and contestant != Contestant.HUDI_SPARK else str(contestant)
        if name not in self._workers:
            self._workers[name] = self.fresh(contestant)
        return self._workers[name]

    def fresh(self, contestant: Contestant) -> Worker:
        """Starts a process; the caller stops it."""
        if contestant == Contestant.HUDI_SPARK:
            return Worker(self.hudi)
        if contestant in SPARK_FORMATS:
            command = [sys.executable, "-P", HERE / "spark_worker.py", "--penstock"]
            return Worker(command, environment={"PYSPARK_PYTHON": interpreter.command()})
        environment = {"ARROW_DEFAULT_MEMORY_POOL": "system"} if contestant == Contestant.SYSTEM_POOL else {}
        command = [sys.executable, "-m", "bench.compared.arrow_worker", ARROW_READERS[contestant]]
        return Worker(command, environment=environment)

    def stop(self, but: Callable[[str], bool] = lambda _: False) -> None:
        """Stops the processes, except those whose name matches `but`."""
        for name in [name for name in self._workers if not but(name)]:
            self._workers.pop(name).stop()


def request(contestant: Contestant, question: Question, table: PreparedTable, *, prove: bool = False) -> dict[str, Any]:
    """The request of a question for a contestant; with `prove` the answer has a fingerprint of the rows."""
    if contestant in ARROW_READERS:
        return _arrow_request(contestant, question, table, prove)
    return _spark_request(contestant, question, table, prove)


def _arrow_request(contestant: Contestant, question: Question, table: PreparedTable, prove: bool) -> dict[str, Any]:
    options: dict[str, str] = {}
    if question.kind is not Kind.SNAPSHOT:
        options = {"query": str(question.kind), "after": table.first_completed, "upto": table.last_completed}
    if question.kind is Kind.CDC:
        options["cdc_format"] = "hudi"
    request_fields = {"path": str(table.path), "columns": list(question.columns), "options": options}
    if prove:
        request_fields["count"] = "fingerprint"
        if question.kind is not Kind.CDC:
            request_fields["kinds"] = [[column.name, column.kind] for column in _columns(question, table)]
    return request_fields


def _spark_request(contestant: Contestant, question: Question, table: PreparedTable, prove: bool) -> dict[str, Any]:
    request_fields: dict[str, Any] = {
        "do": "query",
        "format": SPARK_FORMATS[contestant],
        "path": str(table.path),
        "options": {},
    }
    match contestant:
        case Contestant.SPARK_PARQUET:
            request_fields |= {"path": f"{table.path}/*.parquet", "columns": list(question.columns)}
        case Contestant.HUDI_SPARK:
            request_fields |= {"options": _hudi_range(question.kind, table), "columns": list(question.columns)}
        case _:
            request_fields["options"] = _penstock_options(question, table)
    match question.ask:
        case "sum":
            request_fields["ask"] = ["sum", question.columns[0]]
        case "count":
            request_fields["ask"] = "count"
        case "sql":
            request_fields["ask"] = ["sql", question.sql]
        case _:
            request_fields["ask"] = "noop"
            if prove:
                changes = question.kind is Kind.CDC
                values = sql_changes_fingerprint() if changes else sql_fingerprint(_columns(question, table))
                request_fields["ask"] = ["select", values]
    return request_fields


def _penstock_options(question: Question, table: PreparedTable) -> dict[str, str]:
    options = {"columns": ",".join(question.columns)} if question.columns else {}
    if question.kind is not Kind.SNAPSHOT:
        options |= {"query": str(question.kind), "after": table.first_completed, "upto": table.last_completed}
    if question.kind is Kind.CDC:
        options["cdcFormat"] = "hudi"
    return options


def _hudi_range(kind: Kind, table: PreparedTable) -> dict[str, str]:
    """Hudi bounds ranges by completion times, and changes by requested times."""
    if kind is Kind.SNAPSHOT:
        return {}
    begin, end = (table.first_completed, table.last_completed)
    if kind is Kind.CDC:
        begin, end = (table.first_requested, table.last_requested)
    named = {"query.type": "incremental", "read.begin.instanttime": begin, "read.end.instanttime": end}
    if kind is Kind.CDC:
        named["query.incremental.format"] = "cdc"
    return {f"hoodie.datasource.{name}": value for name, value in named.items()}


def _columns(question: Question, table: PreparedTable) -> list[Any]:
    every = {column.name: column for column in table.table.all_columns}
    return [every[name] for name in question.columns] if question.columns else list(every.values())


def values_of(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """The values of an answer that must be equal for all contestants: a fingerprint, or the query's result."""
    return tuple(answer["values"] or ())
