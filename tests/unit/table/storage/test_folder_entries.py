"""Listings of one folder, also where no object marks a folder."""

from __future__ import annotations

import pathlib

import pyarrow.fs as pafs
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.storage.folder_entries import children, folder_entries

FILES = [
    "a.txt",
    "p=x/1.parquet",
    "p=x/2.parquet",
    "p=y/z/3.parquet",
    ".hoodie/hoodie.properties",
    ".hoodie/t/1.commit",
]


def tree(folder: pathlib.Path) -> pafs.SubTreeFileSystem:
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return pafs.SubTreeFileSystem(str(folder), pafs.LocalFileSystem())


def of(entries: list[pafs.FileInfo]) -> list[tuple[str, str, int | None]]:
    return sorted((entry.path, entry.type.name, entry.size) for entry in entries)


def test_children_are_those_of_a_listing_of_one_level(tmp_path: pathlib.Path) -> None:
    """By files alone: no object marks a folder."""
    files = tree(tmp_path)
    for folder in ("", "p=x", "p=y", ".hoodie", "none"):
        below = files.get_file_info(pafs.FileSelector(folder, allow_not_found=True, recursive=True))
        objects = [entry for entry in below if entry.type is pafs.FileType.File]
        assert of(children(folder, objects)) == of(children(folder, below)) == of(folder_entries(files, folder))
    assert of(folder_entries(files, "")) != [], "the negative control: something is listed"


@given(
    st.lists(st.text("ab/", min_size=1, max_size=6).filter(lambda path: "//" not in path.strip("/") + "/"), max_size=8)
)
def test_each_child_is_once(paths: list[str]) -> None:
    files = [pafs.FileInfo(path.strip("/"), type=pafs.FileType.File) for path in paths if path.strip("/")]
    names = [entry.path for entry in children("", files)]
    assert sorted(names) == sorted({file.path.split("/")[0] for file in files})
