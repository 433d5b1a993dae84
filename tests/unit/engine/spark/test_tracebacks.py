"""Spark hides the traceback of an error of Penstock that leaves a Python process of Spark, and of no other error."""

from __future__ import annotations

import inspect
import io
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType
from pyspark.util import handle_worker_exception

from penstock.engine.spark.batch_reader import PenstockBatchReader
from penstock.engine.spark.source import PenstockDataSource
from penstock.engine.spark.stream.reader import PenstockStreamReader, RefusedStreamReader
from penstock.engine.spark.task.input_partitions import SlotReading
from penstock.engine.spark.task.reader import SlotReader
from penstock.engine.spark.tracebacks import HIDE_TRACEBACK, hidden_traceback
from penstock.proto.errors import InvariantViolation, PenstockError, TableNotFound


@pytest.fixture(autouse=True)
def a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a Python process of Spark."""
    monkeypatch.setenv(HIDE_TRACEBACK, "")
    monkeypatch.delenv(HIDE_TRACEBACK)
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "secret")


def shown(error: BaseException, call: Callable[[], object] | None = None) -> str:
    """The text that PySpark sends to the JVM when `call`, which raises the error, is a method of a source."""

    @hidden_traceback()
    def method() -> None:
        raise error

    sent = io.BytesIO()
    try:
        (call or method)()
    except type(error) as left:
        handle_worker_exception(left, sent)
    return sent.getvalue()[8:].decode()


def test_text_of_an_error_is_all_that_is_shown() -> None:
    assert shown(TableNotFound("no table at /a")) == "penstock.proto.errors.TableNotFound: no table at /a\n"


def test_cause_is_hidden_too() -> None:
    error = TableNotFound("no table at /a")
    error.__cause__ = OSError("no such file")
    assert shown(error) == "penstock.proto.errors.TableNotFound: no table at /a\n"


@pytest.mark.parametrize("error", [InvariantViolation("a bug"), ValueError("a bug"), KeyboardInterrupt()])
def test_every_other_error_keeps_its_traceback(error: BaseException) -> None:
    assert shown(error).startswith("Traceback (most recent call last):\n")


def test_socket_of_a_worker_may_be_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHON_WORKER_FACTORY_SECRET")
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SOCK_DIR", "/run")
    assert shown(PenstockError("text")) == "penstock.proto.errors.PenstockError: text\n"


def test_user_can_keep_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HIDE_TRACEBACK, "")
    assert shown(TableNotFound("no table")).startswith("Traceback (most recent call last):\n")


def test_process_of_the_user_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHON_WORKER_FACTORY_SECRET")
    assert shown(TableNotFound("no table")).startswith("Traceback (most recent call last):\n")
    assert HIDE_TRACEBACK not in os.environ


def test_nothing_is_hidden_before_an_error_leaves() -> None:
    with hidden_traceback():
        pass
    assert HIDE_TRACEBACK not in os.environ


def test_error_while_reading_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a slot are a generator: the error leaves when Spark requests the next batch."""

    def failing(partition: Any, reading: Any) -> Iterator[Any]:
        yield "a batch"
        raise TableNotFound("no table")

    monkeypatch.setattr("penstock.engine.spark.task.read.read_partition", failing)
    reading = SlotReading(schema=None, limit_rows=None, batch_rows=1, event_time="")  # type: ignore[arg-type]
    batches = SlotReader(reading).read(InputPartition(None))
    assert next(batches) == "a batch"  # type: ignore[comparison-overlap]
    assert HIDE_TRACEBACK not in os.environ
    assert shown(TableNotFound(), lambda: next(batches)) == "penstock.proto.errors.TableNotFound: no table\n"


@pytest.mark.parametrize(
    ("cls", "names"),
    [
        (PenstockDataSource, ["schema", "reader", "writer", "streamWriter"]),
        (RefusedStreamReader, ["initialOffset", "latestOffset", "partitions"]),
        (PenstockBatchReader, ["partitions"]),
        (
            PenstockStreamReader,
            ["initialOffset", "getDefaultReadLimit", "prepareForTriggerAvailableNow", "latestOffset", "partitions"],
        ),
    ],
)
def test_every_call_of_spark_hides_it(cls: type, names: list[str]) -> None:
    """All public methods but those that cannot fail, and `read`, which is SlotReader's."""
    cannot_fail = {"name", "read", "commit", "stop", "streamReader"}
    public = [name for name in vars(cls) if not name.startswith("_") and inspect.isfunction(vars(cls)[name])]
    assert sorted(set(public) - cannot_fail) == sorted(names)
    assert [name for name in names if not hasattr(vars(cls)[name], "__wrapped__")] == []


def test_refused_stream_fails_in_its_first_call_with_the_sentence_alone() -> None:
    """PySpark hides an error of streamReader() itself: it stops a reader that it never assigned."""
    reader = PenstockDataSource({"path": "/a", "query": "cdc", "limit": "1"}).streamReader(StructType())
    assert isinstance(reader, RefusedStreamReader)
    text = shown(reader.error, reader.latestOffset)
    assert text.startswith("penstock.proto.errors.ConfigurationError: ") and text.count("\n") == 1
    reader.stop()
