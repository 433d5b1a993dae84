"""Two processes write one table at once: nothing acknowledged is lost, and no reader sees a part of a write."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections import Counter

import pytest

import penstock
from penstock.engine.write.create import create_table
from tests.unit.engine.write.test_kills import SCHEMA

WRITER = """
import sys
import pyarrow as pa
from penstock.engine.write.write import write
from penstock.proto.errors import WriteConflict

name, count, *paths = sys.argv[1:]
for number in range(int(count)):
    ids = [f"{name}{number}-{row}" for row in range(3)]
    rows = {"id": [*ids, "shared"], "seq": [number] * 4, "city": ["oslo", "riga", "oslo", "oslo"]}
    for path in paths:
        while True:
            try:
                write(path, pa.table(rows))
                break
            except WriteConflict:
                continue
        print(f"{name}{number}", flush=True)
"""
WRITES = 4


def batches(path: pathlib.Path) -> Counter[str]:
    """How many rows of each write there are."""
    return Counter(key.partition("-")[0] for key in penstock.read(str(path)).read_all()["id"].to_pylist())


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_nothing_acknowledged_is_lost(tmp_path: pathlib.Path) -> None:
    """Both processes write both tables, in the same order."""
    paths = {kind: tmp_path / kind for kind in ("merge_on_read", "copy_on_write")}
    for kind, path in paths.items():
        create_table(
            str(path), SCHEMA, record_key="id", partition_by="city", ordering="seq", table_type=kind, buckets=1
        )
    arguments = [str(WRITES), *map(str, paths.values())]
    writers = [
        subprocess.Popen([sys.executable, "-P", "-c", WRITER, name, *arguments], stdout=subprocess.PIPE, text=True)
        for name in ("a", "b")
    ]
    acknowledged: dict[str, set[str]] = {kind: set() for kind in paths}
    try:
        for _ in range(WRITES):
            for kind, path in paths.items():
                for writer in writers:
                    assert writer.stdout is not None
                    line = writer.stdout.readline().strip()
                    assert line, "a writer ended before its last write"
                    acknowledged[kind].add(line)
                seen = batches(path)
                assert seen.pop("shared", 0) == 1
                assert all(number == 3 for number in seen.values()), f"a part of a write: {seen}"
                assert acknowledged[kind] <= seen.keys()
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            assert writer.stdout is not None
            writer.stdout.close()
    for path in paths.values():
        assert batches(path) == {"shared": 1} | {f"{name}{number}": 3 for name in "ab" for number in range(WRITES)}
