"""Options of other projects: Penstock returns the rows of Flink's ranges, and knows each option of Hudi's source."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from penstock.proto.options.foreign_names import READING_PREFIXES, RULES

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


def test_flink_names_select_the_instants_of_flink(hudi: Any, tmp_path: pathlib.Path) -> None:
    """For each pair of an order key, the text before it, the text after it, and its second, in order. Hudi 1.2.0's
    `IncrementalQueryAnalyzer` has no ranges of timeline layout 1."""
    path, schema = tmp_path / "t", pa.schema([("id", pa.string()), ("v", pa.int64())])
    create_table(str(path), schema, record_key="id", index="simple", table_version=9)
    for n in range(4):
        write(str(path), pa.Table.from_pylist([{"id": f"k{n}", "v": n}], schema))
    keys = [completion or requested for requested, completion, _ in hudi.instants(path)]
    texts = {text for key in keys[:3] for text in (key, f"{int(key) - 1}", f"{int(key) + 1}", key[:14])}
    differ = []
    for start, end in itertools.product(["earliest", *sorted(texts)], sorted(texts)):
        if start != "earliest" and start > end:
            continue  # an error here
        named = {"read.start-commit": start, "read.end-commit": end}
        found = penstock.read(str(path), **named).read_all().column("_hoodie_commit_time").to_pylist()
        theirs = hudi.flink_range(path, start, end)
        if sorted(found) != theirs:
            differ.append((start, end, sorted(found), theirs))
    assert differ == []
    exclusive = penstock.read(str(path), query="incremental", after=keys[1]).read_all()
    assert sorted(exclusive.column("_hoodie_commit_time").to_pylist()) != hudi.flink_range(path, keys[1], None)


def test_each_option_of_hudi_has_a_meaning(hudi: Any) -> None:
    """A name without one would be refused as unknown, and the error could not name Penstock's option."""
    names = hudi.option_names()
    assert len(names) > 25
    assert [name for name in names if not known(name)] == []
    assert not known("hoodie.datasource.read.no.such.option"), "the negative control"


def known(name: str) -> bool:
    """Whether the name has a rule, or does not affect the rows of a read."""
    return name.lower() in RULES or not name.lower().startswith(READING_PREFIXES)
