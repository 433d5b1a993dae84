"""Errors of tasks that reach the driver as texts of Spark."""

from __future__ import annotations

import pytest

from penstock.engine.spark.write.task_table import error_in
from penstock.proto.errors import SchemaMismatch, WriteConflict

STACK = "Job aborted: Traceback (most recent call last):\n  File x\n{error}\n\n\tat org.apache.spark.api.python.x"


@pytest.mark.parametrize("kind", [SchemaMismatch, WriteConflict])
def test_error_of_a_task_is_raised_as_itself(kind: type[Exception]) -> None:
    error = error_in(STACK.format(error=f"penstock.proto.errors.{kind.__name__}: table t: got x: expected y"))
    assert type(error) is kind and str(error) == "table t: got x: expected y"


def test_other_errors_are_none_of_penstock() -> None:
    assert error_in(STACK.format(error="ValueError: penstock")) is None
    assert error_in(STACK.format(error="penstock.proto.errors.Unknown: x")) is None
    assert error_in(STACK.format(error="penstock.proto.errors.Final: x")) is None
