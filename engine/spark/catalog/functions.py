"""The table-valued functions `penstock_changes`, `penstock_timeline` and `penstock_splits` of Spark's SQL.

Each is a Python UDTF that returns Arrow batches. `analyze` runs in a process of the driver: it returns the schema, and
plans the read. One task then reads the plan, so every attempt of the task, and every action of a DataFrame, returns the
same rows. The decorator of Spark 4.2 and 4.3 for Arrow UDTFs refuses `analyze` (SPARK-53286), but Spark runs it for a
UDTF whose type is SQL_ARROW_UDTF; `UserDefinedTableFunction` gives it that type.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult
from pyspark.util import PythonEvalType

from penstock.engine.spark.tracebacks import hidden_traceback
from penstock.proto.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import InputPartition

    from penstock.engine.spark.batch_reader import PenstockBatchReader
    from penstock.proto.options.registry import ParsedOptions


def register_functions(spark: SparkSession, server: str | None = None, **options: object) -> None:
    """Registers the table-valued functions of Penstock with this session, classic or Spark Connect.

    * `penstock_changes(table, after, upto)`: the changes of the instants of (`after`, `upto`], with `query=cdc`.
    * `penstock_timeline(table)`: the active instants of the table.
    * `penstock_splits(table)`: the splits of a snapshot; with `after` and `upto`, of a range.

    `table` is a path or URI; with `server` (HOST:PORT) the name of a table that it serves. `options` apply to every
    call: the options of a batch read in snake_case, such as `timeline_timezone`. Calling it again replaces the
    functions. ConfigurationError: an unknown option.
    """
    from penstock.proto.options.registry import EntryPoint, parse_options

    given = {name: str(value) for name, value in {**options, "server": server}.items() if value is not None}
    parse_options(given, entry_point=EntryPoint.BATCH, environment={})
    for name, analyze in ANALYZERS.items():
        spark.udtf.register(name, _table_function(spark, name, analyze, given))


def _table_function(spark: SparkSession, name: str, analyze: Callable[..., Planned], options: Mapping[str, str]) -> Any:
    """The UDTF for the kind of the session, which is also the class that its `register` accepts."""
    handler = type(name, (PlannedRows,), {"analyze": staticmethod(partial(analyze, options))})
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect.udtf import UserDefinedTableFunction as ConnectFunction

        return ConnectFunction(handler, None, name, PythonEvalType.SQL_ARROW_UDTF)
    from pyspark.sql.udtf import UserDefinedTableFunction

    return UserDefinedTableFunction(handler, None, name, PythonEvalType.SQL_ARROW_UDTF)


@dataclass
class Planned(AnalyzeResult):
    """The result of `analyze`, which Spark passes to the task."""

    batches: Sequence[pa.RecordBatch] = ()
    """The rows, if `analyze` has read them."""
    reader: PenstockBatchReader | None = None
    """The reader of `partitions`, or None. It is pickled as a SlotReader."""
    partitions: Sequence[InputPartition] = ()
    """The planned slots."""


class PlannedRows:
    """Returns the rows of a plan. The base of the handlers: `analyze` depends on the function."""

    def __init__(self, planned: Planned) -> None:
        self._planned = planned

    def eval(self, *arguments: object, **named: object) -> Iterator[pa.RecordBatch]:
        """The batches of the plan. `analyze` has used the arguments."""
        with hidden_traceback():
            yield from self._planned.batches
            if self._planned.reader is not None:
                for partition in self._planned.partitions:
                    yield from self._planned.reader.read(partition)


@hidden_traceback()
def analyze_changes(
    options: Mapping[str, str],
    table: AnalyzeArgument,
    after: AnalyzeArgument | None = None,
    upto: AnalyzeArgument | None = None,
    columns: AnalyzeArgument | None = None,
    where: AnalyzeArgument | None = None,
) -> Planned:
    """Plans the changes of a range. Errors: `penstock.errors`."""
    from penstock.engine.spark.source import PenstockDataSource

    given = {"table": table, "after": after, "upto": upto, "columns": columns, "where": where}
    texts = _texts("penstock_changes", given)
    source = PenstockDataSource({**options, "query": "cdc", "slots": "1", "path": texts.pop("table"), **texts})
    schema = source.schema()
    reader = source.reader(schema)
    return Planned(schema=schema, reader=reader, partitions=reader.partitions())


@hidden_traceback()
def analyze_timeline(options: Mapping[str, str], table: AnalyzeArgument) -> Planned:
    """Reads the timeline of a table. Errors: `penstock.errors`."""
    from penstock.engine.spark.catalog.listings import timeline_of

    texts = _texts("penstock_timeline", {"table": table})
    return _listed(timeline_of(texts["table"], _parsed(options)))


@hidden_traceback()
def analyze_splits(
    options: Mapping[str, str],
    table: AnalyzeArgument,
    after: AnalyzeArgument | None = None,
    upto: AnalyzeArgument | None = None,
) -> Planned:
    """Plans a snapshot or a range of a table, and lists the splits. Errors: `penstock.errors`."""
    from penstock.engine.spark.catalog.listings import splits_of

    texts = _texts("penstock_splits", {"table": table, "after": after, "upto": upto})
    path = texts.pop("table")
    if texts:
        texts["query"] = "incremental"
    return _listed(splits_of(path, _parsed({**options, **texts})))


ANALYZERS: Final[Mapping[str, Callable[..., Planned]]] = {
    "penstock_changes": analyze_changes,
    "penstock_splits": analyze_splits,
    "penstock_timeline": analyze_timeline,
}
"""The function `analyze` of each table-valued function; its first argument are the options of the session."""


def _listed(rows: pa.RecordBatch) -> Planned:
    from penstock.engine.spark.schema.types import spark_schema

    return Planned(schema=spark_schema(rows.schema), batches=(rows,))


def _parsed(options: Mapping[str, str]) -> ParsedOptions:
    from penstock.proto.options.registry import EntryPoint, parse_options

    return parse_options(options, entry_point=EntryPoint.BATCH, environment=os.environ)


def _texts(function: str, arguments: Mapping[str, AnalyzeArgument | None]) -> dict[str, str]:
    """The arguments that are given and not NULL, as texts. ConfigurationError: not a constant text or whole number."""
    texts: dict[str, str] = {}
    for name, argument in arguments.items():
        if argument is None:
            continue
        if argument.isTable or not argument.isConstantExpression:
            raise ConfigurationError(
                f"{function}: the argument {name} is not a constant: give a text such as '/lake/t'"
            )
        if argument.value is None:
            continue
        if isinstance(argument.value, bool) or not isinstance(argument.value, str | int):
            raise ConfigurationError(
                f"{function}: the argument {name} has the type {argument.dataType.simpleString()}, expected STRING: "
                "give times as text, such as '2026-01-31T23:59:59Z'"
            )
        texts[name] = str(argument.value)
    if "table" not in texts:
        raise ConfigurationError(f"{function}: the argument table is NULL: give the path of a table")
    return texts
