"""Table-valued functions without a session: their arguments, and the plan that a task reads."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import IntegerType, StringType, TimestampType
from pyspark.sql.udtf import AnalyzeArgument

from penstock.engine.spark.catalog.functions import (
    ANALYZERS,
    PlannedRows,
    analyze_changes,
    analyze_splits,
    analyze_timeline,
    register_functions,
)
from penstock.enumerator.server.run import serve
from penstock.errors import ConfigurationError, TableNotFound

CASE = "B_v9_inc_mor"


def constant(value: object, kind: Any = None) -> AnalyzeArgument:
    return AnalyzeArgument(kind or StringType(), value, isTable=False, isConstantExpression=True)


def rows(planned: Any) -> pa.Table:
    """The rows that a task returns, in which only the pickled plan arrives."""
    return pa.Table.from_batches(PlannedRows(pickle.loads(pickle.dumps(planned))).eval())


def changes_of(golden: Any, options: dict[str, str], name: str, **arguments: object) -> pa.Table:
    return rows(analyze_changes(options, constant(name), **{k: constant(v) for k, v in arguments.items()}))


def test_changes_are_those_of_the_arrow_reader(golden: Any) -> None:
    import penstock

    table = str(golden.table(CASE))
    expected = penstock.read(table, query="cdc", after="earliest").read_all()
    result = changes_of(golden, {}, table, after="earliest", upto=None)
    assert expected.num_rows > 3
    assert sorted(map(repr, result.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    columns = ["_change_type", *expected.schema.names[5:6]]
    narrow = changes_of(golden, {}, table, after="earliest", columns=",".join(columns), where="_change_type = '+I'")
    assert narrow.schema.names == columns
    assert set(narrow["_change_type"].to_pylist()) == {"+I"}


def test_plan_pins_its_range_while_commits_follow(golden: Any) -> None:
    """The slots name files, so a task reads what `analyze` planned."""
    table = str(golden.table(CASE))
    planned = analyze_changes({}, constant(table), constant("earliest"))
    assert len(planned.partitions) == 1
    assert rows(planned).equals(rows(planned))


def test_server_resolves_names(golden: Any) -> None:
    with serve({"orders": str(golden.table(CASE))}, "127.0.0.1:0") as server:
        served = changes_of(golden, {"server": server.address}, "orders", after="earliest")
        assert rows(analyze_timeline({"server": server.address}, constant("orders"))).num_rows > 0
    embedded = changes_of(golden, {}, str(golden.table(CASE)), after="earliest")
    assert sorted(map(repr, served.to_pylist())) == sorted(map(repr, embedded.to_pylist()))


def test_range_without_start_is_an_error(golden: Any) -> None:
    with pytest.raises(ConfigurationError, match="query=cdc needs the option after"):
        analyze_changes({}, constant(str(golden.table(CASE))))


def test_missing_table_is_an_error() -> None:
    for analyze in (analyze_timeline, analyze_splits):
        with pytest.raises(TableNotFound):
            analyze({}, constant("/no/such/table"))


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        (constant(None), "the argument table is NULL"),
        (constant(7, TimestampType()), "no table|not exist|TableNotFound"),
        (constant(1.5, TimestampType()), "has the type timestamp, expected STRING"),
        (constant(True, IntegerType()), "has the type int, expected STRING"),
        (AnalyzeArgument(StringType(), None, isTable=False, isConstantExpression=False), "is not a constant"),
        (AnalyzeArgument(StringType(), None, isTable=True, isConstantExpression=False), "is not a constant"),
    ],
)
def test_argument_that_is_no_constant_text_is_an_error(argument: AnalyzeArgument, text: str) -> None:
    with pytest.raises((ConfigurationError, TableNotFound), match=text):
        analyze_timeline({}, argument)


class Registry:
    """`spark.udtf` of a session."""

    def __init__(self) -> None:
        self.functions: dict[str, Any] = {}
        self.udtf = self

    def register(self, name: str, function: Any) -> None:
        self.functions[name] = function


def test_functions_are_registered_with_their_options(golden: Any) -> None:
    session: Any = Registry()
    register_functions(session, timeline_timezone="UTC")
    assert session.functions.keys() == ANALYZERS.keys()
    handler = pickle.loads(cloudpickle.dumps(session.functions["penstock_timeline"].func))
    planned = handler.analyze(constant(str(golden.table("B_v6_inc_mor"))))
    assert rows(planned)["requested_at"].null_count == 0  # the option reached `analyze`


def test_unknown_option_is_an_error_at_registration() -> None:
    session: Any = Registry()
    with pytest.raises(ConfigurationError, match="timeline_timezon"):
        register_functions(session, timeline_timezon="UTC")
    assert session.functions == {}
