"""Rows in a temporary file: by part, in order, and nothing left after any end."""

from __future__ import annotations

import pathlib
import tempfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import StorageError
from penstock.writer.files.spilled_rows import SpilledRows

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("list", pa.list_(pa.struct([("a", pa.string())])))])


def rows(numbers: list[int]) -> pa.Table:
    values = [{"n": n, "text": None if n % 3 else str(n) * 5, "list": [{"a": str(n)}] * (n % 4)} for n in numbers]
    return pa.Table.from_pylist(values, SCHEMA)


@given(st.lists(st.lists(st.integers(0, 5), max_size=20), max_size=6))
def test_rows_of_a_part_keep_their_order(added: list[list[int]]) -> None:
    expected: dict[int, list[int]] = {}
    with SpilledRows(SCHEMA, "table t") as spilled:
        count = 0
        for parts in added:
            numbers = list(range(count, count + len(parts)))
            count += len(parts)
            for number, part in zip(numbers, parts, strict=True):
                expected.setdefault(part, []).append(number)
            spilled.add(rows(numbers).slice(0), np.array(parts, np.int64))
        assert sorted(spilled.parts) == sorted(expected)
        for part, numbers in expected.items():
            assert spilled.table([part]).equals(rows(numbers))
            assert spilled.num_rows(part) == len(numbers) and spilled.size_bytes(part) > 0
        assert spilled.table([5, 0]).equals(rows([*expected.get(5, []), *expected.get(0, [])]))
        assert spilled.table([9]).equals(rows([])) and spilled.num_rows(9) == spilled.size_bytes(9) == 0


def test_file_has_no_name_and_ends_with_the_context(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with SpilledRows(SCHEMA, "table t") as spilled:
        spilled.add(rows([1, 2]), np.zeros(2, np.int64))
        assert list(tmp_path.iterdir()) == [] and open_files(tmp_path) == 1
        assert spilled.table([0]).num_rows == 2
    assert open_files(tmp_path) == 0


def open_files(folder: pathlib.Path) -> int:
    """How many files of the folder this process has open."""
    targets = []
    for entry in pathlib.Path("/proc/self/fd").iterdir():
        try:
            targets.append(str(entry.readlink()))
        except OSError:  # the descriptor of the listing itself
            continue
    return sum(target.startswith(str(folder)) for target in targets)


def test_full_temporary_folder_is_an_error_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with SpilledRows(SCHEMA, "table t") as spilled:

        def full(batch: pa.RecordBatch) -> None:
            raise OSError(28, "No space left on device")

        class Full:
            write_batch = staticmethod(full)

        monkeypatch.setattr(spilled, "_writer", Full())
        with pytest.raises(StorageError, match=r"table t: .*temporary folder .*No space left.*TMPDIR"):
            spilled.add(rows([1]), np.zeros(1, np.int64))
