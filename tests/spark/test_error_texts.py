"""The whole text that a user sees: Spark's name of the step, the sentence of Penstock's error, and no traceback."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import penstock
from penstock.errors import PenstockError
from penstock.spark import register_functions
from tests.loopback_ports import free_port

CASE = "B_v9_inc_mor"
CREATED = "[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: "
PLANNED = "[PYTHON_DATA_SOURCE_ERROR] Failed to generate Python data source read partitions: "
STATE = "\n SQLSTATE: 38000"


def sentence(table: pathlib.Path, **options: str) -> str:
    """The error of the same read in Python, as Spark names it."""
    with pytest.raises(PenstockError) as caught:
        penstock.read(str(table), **options).read_all()
    assert "\n" not in str(caught.value)
    return f"penstock.proto.errors.{type(caught.value).__name__}: {caught.value}"


def batch_text(spark: SparkSession, table: pathlib.Path | str, **options: str) -> str:
    """The text of the error of a batch."""
    with pytest.raises(PySparkException) as caught:
        spark.read.format("penstock").options(**options).load(str(table)).count()
    return str(caught.value)


def stream_text(spark: SparkSession, table: pathlib.Path, folder: pathlib.Path, schema: str | None = None) -> str:
    """The text of the error of a stream."""
    reader = spark.readStream.format("penstock")
    with pytest.raises(PySparkException) as caught:
        stream = (reader if schema is None else reader.schema(schema)).load(str(table))
        writer = stream.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
    return str(caught.value)


@pytest.fixture
def damaged(golden: Any, tmp_path: pathlib.Path) -> pathlib.Path:
    """A table in which every base file is damaged."""
    table: pathlib.Path = golden.copy(CASE, tmp_path)
    for file in table.rglob("*.parquet"):
        if ".hoodie" not in file.parts:
            file.write_bytes(b"PAR1 damaged PAR1")
    return table


def test_missing_table(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    missing = tmp_path / "nothing"
    assert batch_text(spark, missing) == f"{CREATED}{sentence(missing)}{STATE}"


@pytest.mark.exhaustive
def test_damaged_file(spark: SparkSession, damaged: pathlib.Path) -> None:
    """The task fails, four times in this session."""
    shown = batch_text(spark, damaged, columns="ts")
    *step, text = shown.strip().splitlines()
    assert len(step) == 1 and step[0].strip().startswith("An exception was thrown from the Python worker"), shown
    assert text.startswith(f"penstock.proto.errors.CorruptFile: table {damaged}: base file p=")


@pytest.mark.exhaustive
def test_client_of_spark_connect(connect: SparkSession, damaged: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The sentence comes first. Spark appends the stack of the JVM, which a setting of Spark leaves out."""
    missing = tmp_path / "nothing"
    text = f"{CREATED}{sentence(missing)}{STATE}"
    assert batch_text(connect, missing).startswith(f"{text}\n\nJVM stacktrace:\n")
    connect.conf.set("spark.sql.connect.serverStacktrace.enabled", "false")
    try:
        assert batch_text(connect, missing) == text
        shown = batch_text(connect, damaged, columns="ts")
    finally:
        connect.conf.unset("spark.sql.connect.serverStacktrace.enabled")
    assert (
        f"An exception was thrown from the Python worker: penstock.proto.errors.CorruptFile: table {damaged}:" in shown
    )
    assert "Traceback" not in shown


@pytest.mark.exhaustive
class TestOtherErrors:
    """One error of each step."""

    def test_unknown_option(self, spark: SparkSession, golden: Any) -> None:
        shown = batch_text(spark, golden.table(CASE), colums="ts")
        text = "penstock.proto.errors.ConfigurationError: unknown option 'colums': did you mean columns?"
        assert shown == f"{CREATED}{text}{STATE}"

    def test_unknown_column(self, spark: SparkSession, golden: Any) -> None:
        table = golden.table(CASE)
        assert batch_text(spark, table, columns="nosuch") == f"{CREATED}{sentence(table, columns='nosuch')}{STATE}"

    @pytest.mark.parametrize("where", ["nosuch = 3", "soundex(name) = 'A'", "ts ="])
    def test_filter_that_cannot_be_used(self, spark: SparkSession, golden: Any, where: str) -> None:
        table = golden.table(CASE)
        assert batch_text(spark, table, where=where) == f"{PLANNED}{sentence(table, where=where)}{STATE}"

    def test_server_that_does_not_run(self, spark: SparkSession) -> None:
        port = free_port()
        shown = batch_text(spark, "orders", server=f"127.0.0.1:{port}", retryTimeout="0s")
        first, *rest = shown.splitlines()
        assert first.startswith(
            f"{CREATED}penstock.proto.errors.ServerUnavailable: DescribeTable of the enumerator at "
            f"127.0.0.1:{port}: the server cannot be reached"
        )
        assert rest == [" SQLSTATE: 38000"]

    def test_schema_of_another_type(self, spark: SparkSession, golden: Any) -> None:
        with pytest.raises(PySparkException) as caught:
            spark.read.format("penstock").schema("ts string").load(str(golden.table(CASE))).count()
        first, *rest = str(caught.value).splitlines()
        assert first.startswith(f"{PLANNED}penstock.proto.errors.ConfigurationError: column ts: the table's type is")
        assert rest == [" SQLSTATE: 38000"]

    def test_stream_of_a_missing_table(self, spark: SparkSession, tmp_path: pathlib.Path) -> None:
        missing = tmp_path / "nothing"
        assert stream_text(spark, missing, tmp_path) == f"{CREATED}{sentence(missing)}{STATE}"

    def test_stream_that_plans(self, spark: SparkSession, golden: Any, tmp_path: pathlib.Path) -> None:
        shown = stream_text(spark, golden.table(CASE), tmp_path, schema="ts string")
        first = shown.splitlines()[0]
        assert " terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python " in first
        assert f"latestOffset: penstock.proto.errors.SchemaMismatch: table {golden.table(CASE)} no longer fits" in first
        assert "Traceback" not in shown

    def test_stream_that_reads(self, spark: SparkSession, damaged: pathlib.Path, tmp_path: pathlib.Path) -> None:
        shown = stream_text(spark, damaged, tmp_path)
        first = shown.splitlines()[0]
        start = "An exception was thrown from the Python worker: penstock.proto.errors.CorruptFile: table "
        assert f"{start}{damaged}: base file p=" in first
        assert "Traceback" not in shown

    @pytest.mark.parametrize(
        ("expression", "condition"), [("nosuch", "UNRESOLVED_COLUMN"), ("nosuch(ts)", "UNRESOLVED_ROUTINE")]
    )
    def test_names_that_spark_resolves(self, spark: SparkSession, golden: Any, expression: str, condition: str) -> None:
        with pytest.raises(PySparkException) as caught:
            spark.read.format("penstock").load(str(golden.table(CASE))).selectExpr(expression)
        assert str(caught.value).startswith(f"[{condition}")
        assert "`nosuch`" in str(caught.value).splitlines()[0]

    @pytest.mark.parametrize("function", ["penstock_changes", "penstock_timeline", "penstock_splits"])
    def test_table_valued_function(self, spark: SparkSession, tmp_path: pathlib.Path, function: str) -> None:
        register_functions(spark)
        missing = tmp_path / "nothing"
        arguments = f"'{missing}', 'earliest', 'latest'" if function == "penstock_changes" else f"'{missing}'"
        with pytest.raises(PySparkException) as caught:
            spark.sql(f"SELECT * FROM {function}({arguments})")
        first = str(caught.value).splitlines()[0]
        condition = "[TABLE_VALUED_FUNCTION_FAILED_TO_ANALYZE_IN_PYTHON]"
        step = f"{condition} Failed to analyze the Python user defined table function: "
        assert first == f"{step}{sentence(missing)} SQLSTATE: 38000; line 1 pos 14"
        assert "Traceback" not in str(caught.value)
