"""Bootstrapped tables whose source files are on another store than the table: read where the reader's environment names
their folder, refused everywhere else."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import pytest

import penstock
from penstock.table.bootstrap.sources import TRUSTED_SOURCES
from tests.golden_tables import SOURCES
from tests.s3.bucket import BUCKET, copy_in
from tests.store_answers import answer, check_equal_answers, rows

pytestmark = [pytest.mark.ops, pytest.mark.golden]

CASES = ("E_mor_v9", "E_row_groups_cow_v9", "E_mor_v6", "E_orc_mor_v9")


def with_sources(table: pathlib.Path, stated: str) -> pathlib.Path:
    """The table with its source files in another folder."""
    file = table / ".hoodie" / "hoodie.properties"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("hoodie.bootstrap.base.path=")]
    file.write_text("\n".join([*lines, f"hoodie.bootstrap.base.path={stated}", ""]))
    return table


@pytest.mark.parametrize("case", CASES)
def test_sources_in_the_store_of_a_table_on_the_disk(
    proxy: Any, store: str, golden: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    table = golden.copy(case, tmp_path)
    copy_in(table / SOURCES, store, f"sources/{case}")
    shutil.rmtree(table / SOURCES)
    with_sources(table, f"s3a://{BUCKET}/sources/{case}")
    code, text = answer(str(table))
    assert code == "UNSUPPORTED_FEATURE" and TRUSTED_SOURCES in text
    monkeypatch.setenv(TRUSTED_SOURCES, f"/elsewhere, s3://{BUCKET}/sources")
    check_equal_answers(str(table), str(golden.table(case)), golden.expected(case, "snapshot").num_rows)


@pytest.mark.parametrize("case", CASES)
def test_sources_on_the_disk_of_a_table_in_the_store(
    proxy: Any, store: str, golden: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    local = golden.table(case)
    copy_in(with_sources(golden.copy(case, tmp_path), f"file://{local / SOURCES}"), store, f"tables/{case}")
    stored = f"s3://{BUCKET}/tables/{case}"
    code, text = answer(stored)
    assert code == "CORRUPT_FILE" and TRUSTED_SOURCES in text
    monkeypatch.setenv(TRUSTED_SOURCES, str(local))
    check_equal_answers(stored, str(local), golden.expected(case, "snapshot").num_rows)


def test_wrong_folder_is_noticed(
    proxy: Any, store: str, golden: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the rows come from the folder that the property names."""
    case, other = CASES[0], tmp_path / "other"
    shutil.copytree(golden.table(case) / SOURCES, other)
    monkeypatch.setenv(TRUSTED_SOURCES, str(tmp_path))
    copy_in(with_sources(golden.copy(case, tmp_path / "copy"), f"file://{other}"), store, "tables/moved")
    stored = f"s3://{BUCKET}/tables/moved"
    assert rows(penstock.read(stored).read_all()) == rows(penstock.read(str(golden.table(case))).read_all())
    shutil.rmtree(other)
    assert answer(stored)[0] == "CORRUPT_FILE"
