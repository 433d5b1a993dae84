"""Folders and globs: which folders are tables, their names, the number of requests, and folders that cannot be read."""

from __future__ import annotations

import os
import pathlib
from collections import Counter

import pytest

from penstock.enumerator.catalog import folders
from penstock.enumerator.catalog.adapter import Item, ListedTable, RefusedTable, UnreadablePart
from penstock.enumerator.catalog.folders import FolderCatalog, FolderPattern, parse_folders
from penstock.enumerator.catalog.listing import CatalogRules, Listing
from penstock.proto.errors import ConfigurationError, StorageDenied, StorageError, TableNotFound
from penstock.table.storage.filesystem import FileInfo, Storage, open_storage


def make(root: pathlib.Path, *tables: str) -> None:
    for table in tables:
        (root / table / ".hoodie").mkdir(parents=True)
        (root / table / ".hoodie" / "hoodie.properties").write_text("hoodie.table.name=t")


def tables(items: list[Item]) -> dict[str, str]:
    return {item.name: item.path for item in items if isinstance(item, ListedTable)}


class CountedStorage:
    """Storage of a folder that counts requests and fails for chosen paths."""

    def __init__(self, path: str) -> None:
        self._storage = open_storage(path)
        self.base_path = self._storage.base_path
        self.requests: Counter[str] = Counter()
        self.errors: dict[str, Exception] = {}

    def list_dir(self, path: str) -> list[FileInfo]:
        self._request("list", path)
        return self._storage.list_dir(path)

    def file_info(self, path: str) -> FileInfo | None:
        self._request("look", path)
        return self._storage.file_info(path)

    def _request(self, kind: str, path: str) -> None:
        self.requests[kind] += 1
        if path in self.errors:
            raise self.errors[path]

    read_bytes = open_input = None


def counted(path: str) -> tuple[FolderCatalog, list[CountedStorage]]:
    opened: list[CountedStorage] = []

    def open_(root: str) -> Storage:
        opened.append(CountedStorage(root))
        return opened[-1]  # type: ignore[return-value]

    return FolderCatalog(path, open_), opened


@pytest.mark.parametrize(
    ("path", "parsed"),
    [
        ("/lake/*", FolderPattern("/lake", ("*",))),
        ("/lake/", FolderPattern("/lake", ("*",))),
        ("/lake/*/hudi/v?", FolderPattern("/lake", ("*", "hudi", "v?"))),
        ("lake/*", FolderPattern("lake", ("*",))),
        ("*", FolderPattern(".", ("*",))),
        ("/*", FolderPattern("/", ("*",))),
        ("s3://bucket/*?region=eu", FolderPattern("s3://bucket", ("*",), "?region=eu")),
        ("s3://bucket/lake/a*/*", FolderPattern("s3://bucket/lake", ("a*", "*"))),
    ],
)
def test_path_is_parsed(path: str, parsed: FolderPattern) -> None:
    assert parse_folders(path) == parsed


@pytest.mark.parametrize("path", ["/lake/**", "/lake/*/../x", "s3://*/x", "/lake/*//x", ""])
def test_paths_that_cannot_be_listed_are_refused(path: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_folders(path)


def test_path_of_a_table_of_a_uri_has_the_query() -> None:
    assert parse_folders("s3://bucket/lake/*?region=eu").path_of("a/b") == "s3://bucket/lake/a/b?region=eu"


def test_folders_with_properties_are_tables_and_hidden_ones_are_ignored(tmp_path: pathlib.Path) -> None:
    make(tmp_path, "orders", "trips", ".trash", "_tmp")
    (tmp_path / "no_table").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "half" / ".hoodie").mkdir(parents=True)
    catalog = FolderCatalog(str(tmp_path / "*"))
    assert tables(list(catalog.listing())) == {name: str(tmp_path / name) for name in ("orders", "trips")}
    make(tmp_path, "new")
    (tmp_path / "trips").rename(tmp_path / "rides")
    assert sorted(tables(list(catalog.listing()))) == ["new", "orders", "rides"]


def test_name_consists_of_the_parts_that_wildcards_matched(tmp_path: pathlib.Path) -> None:
    make(tmp_path, "eu/hudi/orders", "us/hudi/orders", "us/parquet/x", "top")
    assert sorted(tables(list(FolderCatalog(str(tmp_path / "*" / "hudi" / "*")).listing()))) == [
        "eu.orders",
        "us.orders",
    ]
    assert sorted(tables(list(FolderCatalog(str(tmp_path / "u?")).listing()))) == []
    assert sorted(tables(list(FolderCatalog(str(tmp_path / "[e]*" / "hudi" / "*")).listing()))) == ["eu.orders"]


def test_partitions_of_a_table_above_the_level_of_tables_are_not_looked_at(tmp_path: pathlib.Path) -> None:
    make(tmp_path, "orders", "eu/trips")
    for day in range(30):
        (tmp_path / "orders" / f"day={day}").mkdir()
    catalog, opened = counted(str(tmp_path / "*" / "*"))
    assert list(tables(list(catalog.listing()))) == ["eu.trips"]
    assert opened[0].requests == {"list": 3, "look": 2}  # the root and two folders; the root and one table


def test_requests_grow_with_the_number_of_folders_only(tmp_path: pathlib.Path) -> None:
    make(tmp_path, *(f"t{number}" for number in range(40)))
    for number in range(40):
        for commit in range(5):
            (tmp_path / f"t{number}" / ".hoodie" / f"{commit}.commit").write_text("x")
    catalog, opened = counted(str(tmp_path))
    items = list(catalog.listing())
    assert (len(tables(items)), opened[0].requests) == (40, {"list": 1, "look": 41})


def test_folder_that_storage_does_not_answer_for_is_unreadable_and_others_are_listed(tmp_path: pathlib.Path) -> None:
    make(tmp_path, "eu/a", "us/b", "us/c")
    catalog, opened = counted(str(tmp_path / "*" / "*"))
    list(catalog.listing())
    opened[0].errors = {"eu": StorageError("down"), "us/b/" + folders.PROPERTIES: StorageDenied("no")}
    items = list(catalog.listing())
    assert sorted(tables(items)) == ["us.c"]
    assert [item for item in items if isinstance(item, UnreadablePart)] == [
        UnreadablePart("eu", "down"),
        UnreadablePart("us.b", "no"),
    ]


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_table_that_is_also_behind_a_link_is_served_once(tmp_path: pathlib.Path, scheme: str) -> None:
    make(tmp_path, "lake/eu/orders", "lake/.versions/v1", "lake/.versions/v2")
    lake = tmp_path / "lake"
    links = {"again": "eu", "loop": ".", "eu/alias": "eu/orders", "eu/now": ".versions/v1", "eu/same": ".versions/v1"}
    for link, target in links.items():
        (lake / link).symlink_to(lake / target)
    (tmp_path / "entry").symlink_to(lake)
    for root in (lake, tmp_path / "entry"):
        listing = Listing(CatalogRules(catalog="c"))
        for item in FolderCatalog(f"{scheme}{root}/*/*").listing():
            listing.add(item)
        served = [(entry.name, entry.path) for entry in listing.result()]
        assert served == [("c.again.now", f"{scheme}{root}/again/now"), ("c.eu.orders", f"{scheme}{root}/eu/orders")]
        assert sorted(problem.partition(":")[0] for problem in listing.problems) == [
            "c.again.alias", "c.again.orders", "c.again.same", "c.eu.alias", "c.eu.now", "c.eu.same",
        ]  # fmt: skip
        assert all("a symbolic link to" in problem and "served once" in problem for problem in listing.problems)


def test_link_that_moves_to_another_version_stays_served(tmp_path: pathlib.Path) -> None:
    """A link to a folder that the catalog does not list is a table like any other."""
    make(tmp_path, ".versions/v1", ".versions/v2")
    (tmp_path / "orders").symlink_to(tmp_path / ".versions" / "v1")
    assert list(tables(list(FolderCatalog(str(tmp_path)).listing()))) == ["orders"]


def test_link_out_of_the_root_is_refused(tmp_path: pathlib.Path) -> None:
    make(tmp_path, "outside/secret", "lake/orders")
    (tmp_path / "lake" / "linked").symlink_to(tmp_path / "outside" / "secret")
    items = list(FolderCatalog(str(tmp_path / "lake")).listing())
    assert list(tables(items)) == ["orders"]
    (refused,) = [item for item in items if isinstance(item, RefusedTable)]
    assert refused.name == "linked" and "symbolic link" in refused.reason


def test_missing_root_fails_the_listing(tmp_path: pathlib.Path) -> None:
    with pytest.raises(TableNotFound, match="does not exist"):
        list(FolderCatalog(str(tmp_path / "nowhere" / "*")).listing())


def test_huge_listing_ends_early_and_says_so(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, *(f"t{number}" for number in range(9)))
    monkeypatch.setattr(folders, "MAX_FOLDERS", 5)
    items = list(FolderCatalog(str(tmp_path)).listing())
    assert len(tables(items)) == 4
    assert isinstance(items[-1], UnreadablePart) and items[-1].name == ""


def test_folder_whose_name_is_not_utf8_is_a_problem_and_hides_no_table(tmp_path: pathlib.Path) -> None:
    make(tmp_path, "good", "two/x")
    os.mkdir(os.fsencode(tmp_path) + b"/bad\xff")  # noqa: PTH102 - no text is this name
    for levels, expected in (("*", {"good"}), ("*/*", {"two.x"})):
        items = list(FolderCatalog(f"{tmp_path}/{levels}").listing())
        assert set(tables(items)) == expected
        assert [type(item) for item in items if item is not None and not isinstance(item, ListedTable)] == [
            RefusedTable
        ]
