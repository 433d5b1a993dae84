"""What ranges of Hudi 1.2.0 lack on version 6 while a compaction is pending, in a table that Hudi alone writes."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import penstock
from tests.interop.hudi_deviations import rows_of, without_hidden_slices
from tests.interop.test_writes import HUDIS_COLUMNS, hudis_options

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

PLAN = {"hoodie.compact.inline.max.delta.commits": "1"}


@pytest.mark.parametrize("version", [6, pytest.param(9, marks=pytest.mark.exhaustive)])
def test_ranges_after_a_pending_compaction(hudi: Any, tmp_path: pathlib.Path, version: int) -> None:
    """The file group of `new` begins after the plan. Later records of its log are in no range that begins after it."""
    path = tmp_path / "t"
    options = hudis_options(version, "merge_on_read", "simple")
    options |= {"hoodie.parquet.small.file.limit": "0", "hoodie.datasource.write.operation": "upsert"}

    def upsert(*keys: str, value: int) -> str:
        rows = [(key, value, value, "oslo") for key in keys]
        ((requested, completion, _),) = hudi.write(path, HUDIS_COLUMNS, rows, options)
        return str(completion or requested)

    def compact(part: str) -> None:
        call = f"CALL run_compaction(op => '{part}', path => '{path}')"
        hudi.script({name: text for name, text in (options | PLAN).items() if text}, [call])

    def keys(rows: Any) -> list[str]:
        return sorted(rows["id"].to_pylist())

    def answers(begin: str) -> tuple[list[str], list[str]]:
        """The keys of both readers, of the range from `begin`. Penstock's are the last rows of these writers."""
        hudis = hudi.incremental(path, begin, end)
        ours = penstock.read(str(path), query="incremental", after=begin, upto=end).read_all()
        writers = [requested for requested, completion, _ in hudi.instants(path) if (completion or requested) > begin]
        assert keys(ours) == keys(rows_of(hudi.read(path), writers))
        if version == 6:
            assert keys(without_hidden_slices(ours, path, begin, end)) == keys(hudis)
        return keys(hudis), keys(ours)

    upsert("old", value=1)
    before = upsert("old", value=2)
    compact("schedule")
    begin = upsert("new", value=3)
    end = upsert("old", "new", value=4)
    assert answers(begin) == ((["old"] if version == 6 else ["new", "old"]), ["new", "old"])
    assert answers(before) == (["new", "old"], ["new", "old"]), "the range has the base file of the group"
    compact("execute")
    assert answers(begin) == (["new", "old"], ["new", "old"]), "no plan is pending"
