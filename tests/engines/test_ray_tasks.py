"""The read tasks of Ray Data, executed in this process: their rows, groups and metadata, and what reaches the plan.

Ray is imported late: it takes 3 s of processor time, in each process that collects the tests.
"""

from __future__ import annotations

import pathlib
import pickle
import random
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock
from penstock import errors
from penstock.engine.adapters.source import table_source
from penstock.engine.read_tasks import ReadTask
from tests.engines.frames import Ray, rows_of
from tests.engines.queries import Query, queries
from tests.engines.reads import Reads
from tests.engines.written_table import PARTITIONS
from tests.golden_tables import GoldenTables

if TYPE_CHECKING:
    from ray.data import Datasource

    from penstock.engine.adapters.ray import TableDatasource

CASES: tuple[tuple[str, dict[str, str]], ...] = (
    ("A_types_v9_h120", {}),
    ("A_merge_null_ordering_v9_h120", {}),
    ("A_part_special_v9_h120", {}),
    ("B_v9_inc_mor", {"query": "incremental", "after": "earliest"}),
    ("B_v9_inc_mor", {"as_of": "20000101000000000"}),
    ("B_v9_cdc_types_mor", {"query": "cdc", "after": "earliest"}),
)


def datasource(table: pathlib.Path, **options: object) -> TableDatasource:
    from penstock.engine.adapters.ray import TableDatasource

    return TableDatasource(table_source("penstock.ray.read", table, options, "call limit(n)"))


def rows(source: Datasource, parallelism: int = 2) -> pa.Table:
    """The blocks of all tasks. Each task is pickled first, as for a worker."""
    tasks = [pickle.loads(pickle.dumps(task)) for task in source.get_read_tasks(parallelism)]
    blocks = [block for task in tasks for block in task()]
    assert all(block.schema == tasks[0].schema for block in blocks if tasks[0].schema.names)
    return pa.concat_tables(blocks)


@pytest.mark.golden
@pytest.mark.parametrize(("case", "options"), CASES, ids=[f"{case}-{'-'.join(o.values())}" for case, o in CASES])
def test_blocks_of_all_tasks_are_the_rows_of_penstock_read(
    golden: GoldenTables, case: str, options: dict[str, str]
) -> None:
    expected = penstock.read(golden.table(case), **options).read_all()
    for parallelism in (1, 3, 100):
        assert rows(datasource(golden.table(case), **options), parallelism) == expected


def pushed(source: TableDatasource, query: Query) -> Datasource | None:
    """The datasource with condition and columns of the query, as Ray pushes them; None if Ray would not."""
    if query.condition is not None:
        expression = Ray().expression(query.condition)
        if not expression._is_pyarrow_convertible():
            return None
        source = source.apply_predicate(expression)
    return source.apply_projection({name: name for name in query.columns})


def differences(table: pathlib.Path, seed: int) -> Iterator[Query]:
    """The queries of the seed whose rows differ from those that PyArrow keeps of the whole table, as they are run."""
    source, memory = datasource(table), penstock.read(table).read_all()
    compared = 0
    for query in queries(seed, 16):
        own = pushed(source, query)
        if own is None:
            continue
        compared += 1
        kept = memory if query.condition is None else memory.filter(Ray().expression(query.condition).to_pyarrow())
        result = rows(own)
        if result.schema.names != list(query.columns) or rows_of(result) != rows_of(kept.select(query.columns)):
            yield query
    assert compared >= 6


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.long)])
def test_pushed_queries_return_the_rows_that_arrow_keeps(values_table: pathlib.Path, seed: int, reads: Reads) -> None:
    assert list(differences(values_table, seed)) == []
    assert sum(bool(options.where) for options in reads.options) >= 3


def test_pushed_condition_with_too_few_rows_is_seen(
    values_table: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.engine.adapters import source

    pushed_where = source.pushed_where
    wrong: Any = lambda given, condition, schema: pushed_where("ok", condition, schema)  # noqa: E731
    monkeypatch.setattr(source, "pushed_where", wrong)
    assert any(differences(values_table, 0))


def test_condition_leaves_splits_and_columns_out(values_table: pathlib.Path, reads: Reads) -> None:
    from ray.data.expressions import col

    source = datasource(values_table)
    everything = source.estimate_inmemory_data_size()
    own = source.apply_predicate((col("country") == "NO") & (col("n") > 0)).apply_projection({"id": "id"})
    assert 0 < own.estimate_inmemory_data_size() < everything
    (task,) = own.get_read_tasks(8)
    assert set(reads.options[-1].columns) == {"id", "country", "n"}
    assert task.schema.names == ["id"]
    assert task.metadata.num_rows is None and task.metadata.size_bytes == own.estimate_inmemory_data_size()
    assert len(source.get_read_tasks(8)) == len(PARTITIONS)
    assert len(source.get_read_tasks(2)) == 2


def test_number_of_rows_reads_one_column(values_table: pathlib.Path, reads: Reads) -> None:
    from ray.data.expressions import col

    source = datasource(values_table)
    own = source.apply_projection({})
    blocks = [block for task in own.get_read_tasks(8) for block in task()]
    assert pa.concat_tables(blocks).num_rows == penstock.read(values_table).read_all().num_rows
    assert len(reads.options[-1].columns) == 1
    some = source.apply_predicate(col("country") == "NO").apply_projection({})
    assert rows(some).num_rows == penstock.read(values_table, where="country = 'NO'").read_all().num_rows


def test_not_in_keeps_nulls_as_ray_does(values_table: pathlib.Path) -> None:
    from ray.data.expressions import col

    own = datasource(values_table).apply_predicate(col("note").not_in(["x", "X"]))
    values = rows(own)["note"].to_pylist()
    every = penstock.read(values_table).read_all()["note"].to_pylist()
    assert None in values and Counter(values) == Counter(value for value in every if value not in ("x", "X"))


def test_same_read_is_planned_once_and_reads_the_same_files(values_table: pathlib.Path, reads: Reads) -> None:
    source = datasource(values_table)
    reads.clear()
    for _ in range(3):
        source.get_read_tasks(2)
        source.apply_projection({"id": "id"}).get_read_tasks(2)
    assert len(reads.options) == 2


def test_limit_of_a_task_ends_it(values_table: pathlib.Path, reads: Reads) -> None:
    (task,) = datasource(values_table, batch_rows=10).get_read_tasks(1, per_task_row_limit=15)
    assert sum(block.num_rows for block in task()) == 15
    assert len(reads.started) == 1


def test_plan_without_splits_has_one_task_with_the_schema(golden: GoldenTables) -> None:
    source = datasource(golden.table("B_v9_inc_mor"), as_of="20000101000000000")
    (task,) = source.get_read_tasks(4)
    assert task.metadata.num_rows == 0 and task.schema.names == penstock.read(golden.table("B_v9_inc_mor")).schema.names
    assert [block.num_rows for block in task()] == [0]


def test_groups_are_consecutive_and_of_about_the_same_size(values_table: pathlib.Path) -> None:
    from penstock.engine.adapters.ray import grouped

    (first, *_) = datasource(values_table).get_read_tasks(1)
    one: ReadTask = first.read_fn.args[0][0]
    numbers = random.Random(0)
    for _ in range(200):
        sizes = [numbers.choice((0, 1, 100, 10_000)) for _ in range(numbers.randrange(1, 40))]
        tasks = [_Sized(one, at, size) for at, size in enumerate(sizes)]
        count = numbers.randrange(1, 12)
        groups = grouped(tasks, count)  # type: ignore[arg-type]
        assert [task for group in groups for task in group] == tasks
        assert len(groups) <= count and all(groups)
        largest = max(sum(task.bytes for task in group) for group in groups)
        assert largest <= sum(sizes) / count + max(sizes) + len(sizes)
    assert grouped([], 5) == [()]


class _Sized:
    """A task of a stated size."""

    def __init__(self, task: ReadTask, position: int, size: int) -> None:
        self.task, self.position, self.bytes = task, position, size


def test_options_that_do_not_fit_are_refused(values_table: pathlib.Path) -> None:
    from penstock.ray import read

    for options in ({"limit": 3}, {"colums": ["id"]}, {"where": "where = 1"}):
        with pytest.raises(errors.ConfigurationError, match=next(iter(options))):
            read(values_table, **options)
