"""The LSM history of layout 2: only the newest manifest's files count."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.proto.errors import CorruptFile
from penstock.table.config.properties import load_properties, parse_table_properties
from penstock.table.storage.filesystem import open_storage
from penstock.table.timeline.archive_v2 import completions_by_instant, has_archived, read_completions

LAYOUT_2 = b"hoodie.table.name=t\nhoodie.table.version=9\n"
LAYOUT_1 = b"hoodie.table.name=t\nhoodie.table.version=6\n"


class History:
    """A history folder under construction."""

    def __init__(self, base: pathlib.Path) -> None:
        self.base = base
        self.folder = base / ".hoodie/timeline/history"
        self.folder.mkdir(parents=True)

    def write(self, name: str, rows: list[tuple[str | None, str | None, str]]) -> None:
        columns = ("instantTime", "completionTime", "action")
        table = pa.table({c: pa.array([row[i] for row in rows], pa.string()) for i, c in enumerate(columns)})
        pq.write_table(table, self.folder / name)

    def manifest(self, version: int, *names: object) -> None:
        text = json.dumps({"files": [{"fileName": name, "fileLen": 1} for name in names]})
        (self.folder / f"manifest_{version}").write_text(text)

    def version(self, text: str) -> None:
        (self.folder / "_version_").write_text(text)

    def completions(self) -> dict[str, str]:
        return dict(
            completions_by_instant(
                read_completions(open_storage(str(self.base)), parse_table_properties(LAYOUT_2, "/b"))
            )
        )

    def has_archived(self) -> bool:
        return has_archived(open_storage(str(self.base)), parse_table_properties(LAYOUT_2, "/b"))


@pytest.fixture
def history(tmp_path: pathlib.Path) -> History:
    return History(tmp_path)


def test_newest_manifest_alone_counts(history: History) -> None:
    history.write("1_2_0.parquet", [("1", "5", "commit"), ("2", "6", "deltacommit")])
    history.write("1_3_1.parquet", [("1", "5", "commit"), ("3", "4", "replacecommit"), ("2", "9", "clean")])
    history.manifest(1, "1_2_0.parquet")
    history.manifest(10, "1_3_1.parquet")
    history.version("10")
    assert history.completions() == {"1": "5", "3": "4"} and history.has_archived()
    history.version("1")
    assert history.completions() == {"1": "5", "2": "6"}


@pytest.mark.parametrize("text", [None, "", "x"])
def test_lost_version_file_means_the_highest_manifest(history: History, text: str | None) -> None:
    history.write("1_1_0.parquet", [("1", "2", "commit")])
    history.manifest(9)
    history.manifest(10, "1_1_0.parquet")
    (history.folder / "manifest_11.tmp").write_text("{}")
    if text is not None:
        history.version(text)
    assert history.completions() == {"1": "2"}


def test_no_history(history: History) -> None:
    assert history.completions() == {} and not history.has_archived()
    history.manifest(1)
    assert history.completions() == {} and not history.has_archived()


def test_repeated_instant_must_agree(history: History) -> None:
    history.write("1_1_0.parquet", [("1", "2", "commit")])
    history.write("1_1_1.parquet", [("1", "2", "commit")])
    history.manifest(1, "1_1_0.parquet", "1_1_1.parquet")
    assert history.completions() == {"1": "2"}
    history.write("1_1_1.parquet", [("1", "3", "commit")])
    with pytest.raises(CorruptFile, match=r"1_1_1\.parquet.*instant 1 completed at 3"):
        history.completions()
    history.write("1_1_1.parquet", [("4", "5", "commit"), ("4", "6", "deltacommit")])
    with pytest.raises(CorruptFile, match=r"1_1_1\.parquet.*instant 4 completed at 6"):
        history.completions()


@pytest.mark.parametrize("name", ["../../x.parquet", "a/1_1_0.parquet", "x.parquet", 5])
def test_hostile_manifest_is_refused(history: History, name: object) -> None:
    history.manifest(1, name)
    with pytest.raises(CorruptFile, match=r"manifest_1 .*expected <min>_<max>_<layer>"):
        history.completions()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files":[1]}', "[" * 100_000])
def test_damaged_manifest_is_named(history: History, text: str) -> None:
    (history.folder / "manifest_1").write_text(text)
    with pytest.raises(CorruptFile, match=r"manifest_1 .*is damaged"):
        history.completions()


def test_missing_manifest_or_file_is_named(history: History) -> None:
    history.version("3")
    with pytest.raises(CorruptFile, match=r"manifest_3 .*is missing"):
        history.completions()
    history.manifest(3, "1_1_0.parquet")
    with pytest.raises(CorruptFile, match=r"1_1_0\.parquet .*is missing"):
        history.completions()


@pytest.mark.parametrize(
    "rows",
    [
        [(None, "1", "commit")],
        [("1", None, "commit")],
        [("1", "2", "commit"), ("1", "x", "deltacommit")],
        [("1" * 25, "1", "commit")],
        [("1", "\u0661", "commit")],
    ],
)
def test_times_must_be_digits(history: History, rows: list[tuple[str | None, str | None, str]]) -> None:
    history.write("1_1_0.parquet", rows)
    history.manifest(1, "1_1_0.parquet")
    with pytest.raises(CorruptFile, match="expected digits"):
        history.completions()


def test_damaged_history_file_is_named(history: History) -> None:
    (history.folder / "1_1_0.parquet").write_bytes(b"PAR1 nothing PAR1")
    history.manifest(1, "1_1_0.parquet")
    with pytest.raises(Exception, match=r"1_1_0\.parquet") as caught:
        history.completions()
    assert type(caught.value).__module__ == "penstock.proto.errors"
    pq.write_table(pa.table({"instantTime": ["1"]}), history.folder / "1_1_0.parquet")
    with pytest.raises(CorruptFile, match=r"1_1_0\.parquet"):
        history.completions()


def test_layout_1_archive_is_seen(tmp_path: pathlib.Path) -> None:
    storage, properties = open_storage(str(tmp_path)), parse_table_properties(LAYOUT_1, "/b")
    folder = tmp_path / ".hoodie/archived"
    folder.mkdir(parents=True)
    assert not has_archived(storage, properties)
    (folder / ".commits_.archive.1_1-0-1").write_bytes(b"")
    assert has_archived(storage, properties)
    assert completions_by_instant(read_completions(storage, properties)) == {}


@pytest.mark.golden
@pytest.mark.parametrize("case", ["B_v8_arch_mor", "B_v9_arch_mor", "B_v9_arch_cow", "A_archive_v9_h120"])
def test_real_history(golden: Any, case: str) -> None:
    storage = open_storage(str(golden.table(case)))
    result = completions_by_instant(read_completions(storage, load_properties(storage)))
    assert has_archived(storage, load_properties(storage))
    assert len(result) >= 8 and all(done > request for request, done in result.items())


@pytest.mark.golden
@pytest.mark.parametrize(("case", "archived"), [("B_v6_arch_mor", True), ("B_v6_inc_mor", False)])
def test_real_archive_of_layout_1(golden: Any, case: str, archived: bool) -> None:
    storage = open_storage(str(golden.table(case)))
    assert has_archived(storage, load_properties(storage)) is archived
