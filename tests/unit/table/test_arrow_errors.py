"""What Arrow and the allocator raise leaves reader and planner as a named error."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.connect import embedded_enumerator
from penstock.enumerator.planning import plan
from penstock.proto.errors import (
    CorruptFile,
    FormatError,
    InvariantViolation,
    OutOfMemory,
    PenstockError,
    StorageError,
)
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.reader.base import file
from penstock.table.arrow_errors import translated_error, with_translated_errors

FAILURES: list[tuple[Exception, type[PenstockError]]] = [
    (pa.ArrowMemoryError("malloc of size 2146435072 failed"), OutOfMemory),
    (MemoryError(), OutOfMemory),
    (pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes"), OutOfMemory),
    (pa.ArrowInvalid("Column data for field 0 with type int64 is inconsistent"), FormatError),
    (pa.ArrowNotImplementedError("no such cast"), FormatError),
    (OSError("Corrupt snappy compressed data."), FormatError),
    (OSError(5, "Input/output error"), StorageError),
]


@pytest.mark.parametrize(("error", "kind"), FAILURES, ids=lambda context: getattr(context, "__name__", None))
def test_each_failure_has_a_name(error: Exception, kind: type[PenstockError]) -> None:
    result = translated_error(error, "table t: split s")
    assert type(result) is kind
    assert str(result).startswith(f"table t: split s: {type(error).__name__}")


@pytest.mark.golden
@pytest.mark.parametrize("error", [pa.ArrowMemoryError("malloc failed"), MemoryError()])
@pytest.mark.parametrize("case", ["A_merge_event_long_v6_h0150", "B_v9_arch_cow"])
def test_read_that_has_no_memory_says_so(
    golden: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, case: str
) -> None:
    def fails(*_: object, **__: object) -> Any:
        raise error

    monkeypatch.setattr(file.BaseFile, "_as_table_columns", fails)
    with pytest.raises(OutOfMemory, match=r"table .*: split .*: the process has not enough memory"):
        list(penstock.read(str(golden.table(case))))


@pytest.mark.golden
@pytest.mark.parametrize(("error", "kind"), FAILURES, ids=lambda context: getattr(context, "__name__", None))
def test_plan_that_fails_in_arrow_names_its_table(
    golden: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[PenstockError]
) -> None:
    def fails(*_: object, **__: object) -> Any:
        raise error

    monkeypatch.setattr(plan, "plan_request", fails)
    path = str(golden.table("B_v9_arch_cow"))
    with pytest.raises(PenstockError, match=r"table .*B_v9_arch_cow") as caught:
        embedded_enumerator().plan(PlanRequest(table=path, query=Snapshot()))
    assert type(caught.value) is kind


@pytest.mark.parametrize("error", [CorruptFile("named"), InvariantViolation("a bug"), KeyError("a bug")])
def test_named_errors_and_bugs_are_not_translated(error: BaseException) -> None:
    def batches() -> Generator[int, None, None]:
        yield 1
        raise error

    with pytest.raises(type(error)) as caught:
        list(with_translated_errors(batches(), "here"))
    assert caught.value is error


def test_closing_closes_the_batches() -> None:
    closed: list[int] = []

    def batches() -> Generator[int, None, None]:
        try:
            yield 1
        finally:
            closed.append(1)

    result = with_translated_errors(batches(), "here")
    next(result)
    result.close()
    assert closed
