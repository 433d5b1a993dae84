"""The file of tables: names with dots, other values, files that are missing, damaged or too large."""

from __future__ import annotations

import pathlib

import pytest

from penstock.enumerator.catalog import static_file
from penstock.enumerator.catalog.adapter import ListedTable, RefusedTable
from penstock.enumerator.catalog.static_file import FileCatalog
from penstock.proto.errors import ConfigurationError, CorruptFile


def test_file_is_read_again_for_each_listing(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "tables.toml"
    catalog = FileCatalog(str(file))
    file.write_text('[tables]\norders = "/o"\n"a.b" = "/ab"\nsales.eu = "s3://b/eu"\n')
    assert list(catalog.listing()) == [
        ListedTable("a.b", "/ab"),
        ListedTable("orders", "/o"),
        ListedTable("sales.eu", "s3://b/eu"),
    ]
    file.write_text('[tables]\norders = "/o2"\nwrong = 3\n')
    assert list(catalog.listing()) == [
        ListedTable("orders", "/o2"),
        RefusedTable("wrong", "got int, expected a path"),
    ]
    file.write_text("")
    assert list(catalog.listing()) == []


@pytest.mark.parametrize("text", ["[tables", "tables = 3", "\udcff", '[tables]\na = "x"\na = "y"', f"x = {'1' * 5000}"])
def test_damaged_file_fails_the_listing(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / "t.toml").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigurationError, match=r"t\.toml"):
        list(FileCatalog(str(tmp_path / "t.toml")).listing())


def test_missing_and_too_large_files_fail_the_listing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = FileCatalog(str(tmp_path / "t.toml"))
    with pytest.raises(ConfigurationError, match="does not exist"):
        list(catalog.listing())
    (tmp_path / "t.toml").write_text('[tables]\na = "/a"\n')
    monkeypatch.setattr(static_file, "MAX_FILE_BYTES", 8)
    with pytest.raises(CorruptFile, match="larger"):
        list(catalog.listing())


@pytest.mark.parametrize("line", ["{} = '/a'", "x = {{ {} = 1 }}", "[{}]", "x = 1 # {}"])
def test_name_of_many_parts_is_refused_before_it_is_parsed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """20,000 parts in 40 KB cost the parser 2 GB of memory."""
    monkeypatch.setattr(static_file, "tomllib", None)
    (tmp_path / "t.toml").write_text('[tables]\nb = "/b"\n' + line.format(".".join(["a"] * 20_000)) + "\n")
    with pytest.raises(ConfigurationError, match="line 3 has 19999 dots"):
        list(FileCatalog(str(tmp_path / "t.toml")).listing())


def test_deeply_nested_names_are_refused(tmp_path: pathlib.Path) -> None:
    name = ".".join(["a" * 100] * 50)
    (tmp_path / "t.toml").write_text(f'[tables]\n{name} = "/a"\n')
    (refused,) = FileCatalog(str(tmp_path / "t.toml")).listing()
    assert isinstance(refused, RefusedTable)


def test_path_of_a_folder_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        FileCatalog("/etc/")
