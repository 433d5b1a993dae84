"""The tables that a job names."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.engine.sync.job import SyncEntry, parse_job
from penstock.engine.sync.sources import Sources, list_sources
from penstock.enumerator.catalog.adapter import ListedTable, RefusedTable, UnreadablePart


def listed(*jobs: str, **places: list[Any]) -> Sources:
    def list_tables(place: str, options: Mapping[str, object]) -> Iterable[Any]:
        return places[place]

    return list_sources(entries(*jobs), list_tables)


def entries(*jobs: str) -> tuple[SyncEntry, ...]:
    return parse_job("\n".join(f'[[sync]]\nto = "duckdb:///a.db"\n{job}' for job in jobs), "f")


def table(path: str, name: str = "") -> ListedTable:
    return ListedTable(name or path.rpartition("/")[2], path)


def targets(sources: Sources) -> list[tuple[str, str, str]]:
    return [(one.name, one.table, one.target_table) for one in sources.tables]


def test_target_table_has_the_name_of_the_folder() -> None:
    sources = listed('from = "a"', a=[table("/x/orders"), table("/x/eu/v.2", "eu"), table("s3://b/eu/users?region=r")])
    assert [one.target_table for one in sources.tables] == ["orders", "v.2", "users"]
    assert not sources.problems
    served = listed('from = "a"\nserver = "h:1"', a=[table("db.orders")])
    assert targets(served) == [("db.orders", "db.orders", "orders")]
    assert served.tables[0].source == "h:1 db.orders"


def test_patterns() -> None:
    tables = [table(f"/x/{name}") for name in ("o1", "o2", "old", "u")]
    sources = listed('from = "a"\npattern = ["o*", "z"]\nexclude = "old"', a=tables)
    assert [one.name for one in sources.tables] == ["o1", "o2"]
    none = listed('from = "a"\npattern = "z"', a=tables)
    assert none.problems == ("a: no table of this name or pattern",)


def test_two_sources_of_one_name() -> None:
    sources = listed('from = "a"', 'from = "b"', a=[table("/x/orders"), table("/x/u")], b=[table("/y/Orders")])
    assert [one.table for one in sources.tables] == ["/x/orders", "/x/u"]
    (problem,) = sources.problems
    assert problem.startswith("/y/Orders: table Orders of duckdb: a.db is filled from /x/orders: give `into`")


def test_many_to_one() -> None:
    job = 'from = "a"\ninto = "orders"'
    sources = listed(job, a=[table("/x/o1"), table("/x/o2")])
    assert targets(sources) == [("o1", "/x/o1", "orders"), ("o2", "/x/o2", "orders")]
    twice = listed(job, job.replace('"a"', '"b"'), a=[table("/x/o1")], b=[table("/y/o1"), table("/y/o2")])
    assert [one.table for one in twice.tables] == ["/x/o1", "/y/o2"]
    assert "filled from /x/o1: give another name" in twice.problems[0]
    mixed = listed(job, 'from = "b"', a=[table("/x/o1")], b=[table("/y/orders")])
    assert [one.table for one in mixed.tables] == ["/x/o1"] and len(mixed.problems) == 1


def test_one_topic_is_for_one_table() -> None:
    job = 'from = "a"\nthen = "kafka://b:1/orders"'
    tables = [table("/x/o1"), table("/x/o2"), table("/x/u")]
    several = listed(job, 'from = "b"', a=tables, b=[table("/y/z")])
    assert [one.table for one in several.tables] == ["/y/z"]
    (problem,) = several.problems
    assert problem.startswith("a: several tables (o1, o2) have one topic, orders: none of them is copied: ")
    alone = listed(job + '\nexclude = "o*"', a=tables)
    assert [one.table for one in alone.tables] == ["/x/u"] and not alone.problems
    named = listed(job.replace("orders", "{name}"), a=tables)
    assert len(named.tables) == 3 and not named.problems


def test_problems_are_lines() -> None:
    sources = listed('from = "a"', a=[RefusedTable("r", "damaged"), table("/x/t"), UnreadablePart("", "gone")])
    assert sources.problems == ("a: r: damaged", "a: cannot be listed: gone")
    assert len(sources.tables) == 1


def make_table(folder: pathlib.Path) -> None:
    (folder / ".hoodie").mkdir(parents=True)
    (folder / ".hoodie/hoodie.properties").write_text("hoodie.table.name=t")


def test_folders(tmp_path: pathlib.Path) -> None:
    for name in ("eu/orders", "us/orders", "users"):
        make_table(tmp_path / name)
    (tmp_path / "empty").mkdir()
    one = list_sources(entries(f'from = "{tmp_path}/users"'))
    assert targets(one) == [("users", f"{tmp_path}/users", "users")] and one.tables[0].source == f"{tmp_path}/users"
    many = list_sources(entries(f'from = "{tmp_path}/*/orders"\ninto = "orders"'))
    assert [one.name for one in many.tables] == ["eu", "us"]
    two = list_sources(entries(f'from = "{tmp_path}/*/orders"'))
    assert [one.target_table for one in two.tables] == ["orders"] and len(two.problems) == 1
    gone = list_sources(entries(f'from = "{tmp_path}/gone/*"', f'from = "{tmp_path}/users"'))
    assert len(gone.tables) == 1 and "does not exist" in gone.problems[0]


def test_relative_path_has_an_absolute_id(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    make_table(tmp_path / "a/users")
    monkeypatch.chdir(tmp_path)
    (source,) = list_sources(entries('from = "./a/../a/users"')).tables
    assert source.source == f"{tmp_path}/a/users"


def test_place_is_one_text_for_a_place() -> None:
    """A table of its own has its place as id; one of several sources of a table has its name."""
    (plain,) = listed('from = "a"', a=[table("s3://user:secret@b/lake/orders/")]).tables
    assert plain.source == plain.place == "s3://b/lake/orders"
    (shard,) = listed('from = "a"\ninto = "all"', a=[table("s3://b/lake/orders")]).tables
    assert (shard.source, shard.place) == ("orders", plain.place)
    assert "secret" not in repr(plain)
