"""Contestants of the bench return equal results, on small tables of each shape; nothing is timed here."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import cloudpickle

from bench.compared import per_record
from bench.compared.arrow_worker import answer
from bench.compared.columns import LINEITEM, WIDE, changes_fingerprint, fingerprint, select
from bench.compared.contestants import ARROW_READERS, Contestant, Kind, Question, request, values_of
from bench.compared.programme import Q1, Q1_COLUMNS, turns
from bench.compared.spark_worker import query, register
from bench.compared.tables import BenchTable, PreparedTable, check_table, standard_tables

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ROWS = 2000
PLAIN = BenchTable(name="plain", rows=ROWS, updated_rows=200)
TABLES = (
    PLAIN,
    BenchTable(name="wide", rows=ROWS, updated_rows=200, columns=WIDE, file_groups=4, log_format="parquet"),
    BenchTable(name="lineitem", rows=ROWS, updated_rows=10, columns=LINEITEM),
    BenchTable(name="log-free", rows=ROWS, updated_rows=0),
)
NOT_COMPARED = (Contestant.SYSTEM_POOL, Contestant.PYARROW, Contestant.HUDI_RS_CRATE)
"""The same reader, one without a merge, and one that only a benchmark builds and compares."""
READERS = [who for who in ARROW_READERS if who not in NOT_COMPARED]


class WrittenTables(dict[str, PreparedTable]):
    """A table of each shape. Hudi writes it when a test first needs it."""

    def __init__(self, hudi: Any, folder: pathlib.Path) -> None:
        super().__init__()
        self._hudi, self._folder = hudi, folder

    def __missing__(self, name: str) -> PreparedTable:
        (table,) = (table for table in TABLES if table.name == name)
        path = self._folder / name / "table"
        writes = [(1, 0, 0, "bulk_insert")]
        if table.updated_rows:
            writes.append((table.rows // table.updated_rows, 100, 1, "upsert"))
        for step, ts, salt, operation in writes:
            options = table.options() | {"hoodie.datasource.write.operation": operation}
            self._hudi.write_query(path, select(table.columns, 0, table.rows, step, ts=ts, salt=salt), options)
        self[name] = check_table(table, path)
        return self[name]


@pytest.fixture(scope="module")
def tables(hudi: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, PreparedTable]:
    """A table of each shape, written by Hudi."""
    return WrittenTables(hudi, tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def session(spark: Any) -> Iterator[Any]:
    """The run's Spark session with the bench's sources. The bench is not on the Python path of its workers."""
    cloudpickle.register_pickle_by_value(per_record)
    register(spark)
    yield spark
    cloudpickle.unregister_pickle_by_value(per_record)


def in_arrow(who: Contestant, question: Question, table: PreparedTable) -> tuple[str, ...]:
    return values_of(answer(ARROW_READERS[who], request(who, question, table, prove=True)))


def in_spark(session: Any, who: Contestant, question: Question, table: PreparedTable) -> tuple[str, ...]:
    return values_of(query(session, request(who, question, table, prove=True)))


def by_hudi(hudi: Any, question: Question, table: PreparedTable) -> tuple[str, ...]:
    options = request(Contestant.HUDI_SPARK, question, table)["options"]
    rows = hudi.read(table.path, **{name.replace(".", "__"): value for name, value in options.items()})
    if question.kind is Kind.CDC:
        values = changes_fingerprint(rows.to_batches())
    else:
        values = fingerprint(rows.to_batches(), table.table.all_columns)
    return tuple(map(str, values))


@pytest.mark.sampled(1, rest=0)
@pytest.mark.parametrize("name", [table.name for table in TABLES])
def test_snapshots_have_equal_rows_in_every_reader(
    name: str, tables: dict[str, PreparedTable], hudi: Any, session: Any
) -> None:
    table, question = tables[name], Question()
    expected = by_hudi(hudi, question, table)
    assert expected[0] == str(ROWS)
    results: dict[str, tuple[str, ...]] = {who: in_arrow(who, question, table) for who in READERS}
    results |= {
        who: in_spark(session, who, question, table)
        for who in (Contestant.SPARK, Contestant.SPARK_TABLE, Contestant.PER_RECORD)
    }
    if name == "log-free":
        results[Contestant.PYARROW] = in_arrow(Contestant.PYARROW, question, table)
        results[Contestant.SPARK_PARQUET] = in_spark(session, Contestant.SPARK_PARQUET, question, table)
    assert results == dict.fromkeys(results, expected)


def test_fingerprints_differ_between_versions(tables: dict[str, PreparedTable]) -> None:
    merged, base = (in_arrow(who, Question(), tables["plain"]) for who in (Contestant.ARROW, Contestant.PYARROW))
    assert merged[0] == base[0] and merged[1] != base[1]


@pytest.mark.long
def test_projections_have_equal_rows_in_every_reader(tables: dict[str, PreparedTable], session: Any) -> None:
    table, question = tables["plain"], Question(columns=("key", "n"))
    results = {who: in_arrow(who, question, table) for who in READERS}
    results[Contestant.SPARK] = in_spark(session, Contestant.SPARK, question, table)
    assert len(set(results.values())) == 1
    assert results[Contestant.ARROW] != in_arrow(Contestant.ARROW, Question(columns=("key", "k")), table)


@pytest.mark.parametrize("kind", [Kind.INCREMENTAL, Kind.CDC])
def test_ranges_have_equal_rows_in_every_reader(
    kind: Kind, tables: dict[str, PreparedTable], hudi: Any, session: Any
) -> None:
    table, question = tables["plain"], Question(kind=kind)
    expected = by_hudi(hudi, question, table)
    assert expected[0] == str(PLAIN.updated_rows)
    assert in_arrow(Contestant.ARROW, question, table) == expected
    assert in_spark(session, Contestant.SPARK, question, table) == expected
    if kind is Kind.INCREMENTAL:
        assert in_arrow(Contestant.HUDI_RS, question, table) == expected


def test_batches_and_records_return_equal_query_results(tables: dict[str, PreparedTable], session: Any) -> None:
    for columns in ((), Q1_COLUMNS):
        question = Question(ask="sql", sql=Q1, columns=columns)
        results = {
            who: in_spark(session, who, question, tables["lineitem"])
            for who in (Contestant.SPARK, Contestant.PER_RECORD)
        }
        assert results[Contestant.SPARK] == results[Contestant.PER_RECORD] and len(results[Contestant.SPARK]) % 10 == 0


def test_sql_as_it_is_written_returns_equal_results(tables: dict[str, PreparedTable], session: Any) -> None:
    for turn in turns(1):
        if turn.contestants[0] is Contestant.SPARK_SQL:
            own, view = (in_spark(session, who, turn.question, tables[turn.table]) for who in turn.contestants[:2])
            assert own and own == view, turn.key


@pytest.mark.long
def test_sent_bytes_are_measured(tables: dict[str, PreparedTable], session: Any) -> None:
    for who in (Contestant.SPARK, Contestant.PER_RECORD):
        timed_query = request(who, Question(ask="sql", sql=Q1), tables["lineitem"]) | {"bytes": True}
        so_far = [query(session, timed_query)["bytes"] for _ in range(3)]
        assert so_far[2] - so_far[1] == so_far[1] - so_far[0], (
            "the metric is a sum over the session; `sent_bytes` computes the difference"
        )
        assert ROWS * 50 < so_far[1] - so_far[0] < ROWS * 1000


def test_every_turn_has_its_table() -> None:
    tables = standard_tables(1000, 2000)
    comparisons = turns(1)
    assert {turn.table for turn in comparisons} <= tables.keys()
    assert len({turn.key for turn in comparisons}) == len(comparisons)
    assert all(dataclasses.replace(turn).contestants[0].lower().startswith("penstock") for turn in comparisons)


def test_check_table_rejects_a_table_of_another_shape(tables: dict[str, PreparedTable], tmp_path: pathlib.Path) -> None:
    path = tables["plain"].path
    for wrong in ({"file_groups": 2}, {"log_format": "parquet"}, {"updated_rows": 0}):
        with pytest.raises(AssertionError, match="expected"):
            check_table(dataclasses.replace(PLAIN, **wrong), path)
