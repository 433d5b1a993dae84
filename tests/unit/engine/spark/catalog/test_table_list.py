"""The tables of a folder and of a server."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from penstock.engine.spark.catalog.table_list import is_address, tables_of
from penstock.enumerator.server.run import serve
from penstock.errors import TableNotFound
from penstock.proto.model.access import NO_ACCESS

CASE = "B_v9_inc_cow"


def table_in(folder: pathlib.Path, name: str) -> None:
    (folder / name / ".hoodie").mkdir(parents=True)


def test_folders_with_a_timeline_are_tables(tmp_path: pathlib.Path) -> None:
    for name in ("orders", "my clicks", ".hidden"):
        table_in(tmp_path, name)
    (tmp_path / "other" / "deeper").mkdir(parents=True)
    (tmp_path / "file").touch()
    tables = tables_of(str(tmp_path) + "/", NO_ACCESS)
    assert {name: table.location for name, table in tables.items()} == {
        "my clicks": f"{tmp_path}/my clicks",
        "orders": f"{tmp_path}/orders",
    }


def test_folder_that_cannot_be_examined_does_not_affect_the_others(tmp_path: pathlib.Path) -> None:
    table_in(tmp_path / "lake", "orders")
    table_in(tmp_path, "elsewhere")
    (tmp_path / "lake" / "linked").symlink_to(tmp_path / "elsewhere")
    tables = tables_of(str(tmp_path / "lake"), NO_ACCESS)
    assert tables["orders"].error == ""
    assert "symbolic link leads out" in tables["linked"].error


def test_folder_without_tables_is_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(TableNotFound, match=r"contains no Hudi table: expected folders that contain \.hoodie$"):
        tables_of(str(tmp_path), NO_ACCESS)
    table_in(tmp_path, "orders")
    with pytest.raises(TableNotFound, match="the folder is itself a table"):
        tables_of(str(tmp_path / "orders"), NO_ACCESS)


def test_server_lists_the_tables_that_it_serves(golden: Any, tmp_path: pathlib.Path) -> None:
    with serve({"orders": str(golden.table(CASE)), "gone": str(tmp_path / "gone")}, "127.0.0.1:0") as server:
        tables = tables_of(server.address, NO_ACCESS)
    assert list(tables) == ["gone", "orders"]
    assert tables["orders"].location == "orders"


@pytest.mark.parametrize(
    ("source", "expected"),
    [("127.0.0.1:7432", True), ("[::1]:7432", True), ("/lake", False), ("s3://lake/x", False), ("lake", False)],
)
def test_address_is_a_server(source: str, expected: bool) -> None:
    assert is_address(source) is expected
