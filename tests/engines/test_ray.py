"""Tables as datasets of a Ray cluster on this machine, planned in this process and by a server.

All of it is in the sample of `make test`: a second cluster for the rest would take longer to start than these tests.
"""

from __future__ import annotations

import pathlib

import pytest

import penstock
from penstock.enumerator.server.run import serve
from tests.engines.frames import Ray, rows_of
from tests.engines.queries import Compare, Query, queries

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]


def test_dataset_has_the_rows_and_the_schema_of_the_table(ray_cluster: None, values_table: pathlib.Path) -> None:
    engine, expected = Ray(), penstock.read(values_table).read_all()
    dataset = engine.table(values_table)
    assert dataset.count() == expected.num_rows
    assert dataset.schema().base_schema == expected.schema
    assert rows_of(engine.all_rows(dataset)) == rows_of(expected)
    query = Query(Compare(("country",), "=", "NO"), ("id", "n"))
    assert (
        rows_of(engine.run(dataset, query)) == rows_of(engine.run(engine.memory(expected), query)) != rows_of(expected)
    )


@pytest.mark.parametrize("seed", [7, pytest.param(8, marks=pytest.mark.long)])
def test_queries_return_the_rows_of_a_dataset_in_memory(
    ray_cluster: None, values_table: pathlib.Path, seed: int
) -> None:
    engine = Ray()
    dataset, memory = engine.table(values_table), engine.memory(penstock.read(values_table).read_all())
    for query in queries(seed, 5):
        result, expected = engine.run(dataset, query), engine.run(memory, query)
        assert result.num_rows == expected.num_rows
        if query.limit is None:
            assert rows_of(result) == rows_of(expected), query


def test_table_of_a_server_is_read(ray_cluster: None, values_table: pathlib.Path) -> None:
    server = serve({"values": str(values_table)}, "127.0.0.1:0")
    try:
        dataset = Ray().table("values", server=server.address)
        assert rows_of(Ray().all_rows(dataset)) == rows_of(penstock.read(values_table).read_all())
    finally:
        server.stop(5)


def test_lost_file_is_an_error_with_its_name(
    ray_cluster: None, values_table: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    import shutil

    table = shutil.copytree(values_table, tmp_path / "table")
    dataset = Ray().table(table)
    dataset.schema()
    for file in table.rglob("file1*.parquet"):
        file.unlink()
    with pytest.raises(Exception, match="file1"):
        Ray().all_rows(dataset)
