"""Reading creates no Python object per record: ten times the rows in as many batches need no more objects.

The test counts live objects at the end of every call in the package, which detects a list of values even if it is
freed before the batch is returned.
"""

from __future__ import annotations

import dis
import functools
import gc
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from types import CodeType, FrameType
from typing import Any

import pyarrow as pa
import pytest

from penstock.proto.model.changes import ChangeFormat, ComparedStates
from penstock.proto.model.files import SliceFiles
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import AllRows, EventTimeOrdering, RowsOf, Scan, Split, VisibleInstants
from penstock.reader.read_split import ReadOptions, SplitBatch, read_split
from penstock.reader.values import dictionary_text
from tests.oracle import slice_writer
from tests.unit.reader.change_slices import ChangeFolder, instant, step

FEW, MANY = 600, 6000
dictionary_text.LEAST_ROWS = 0
"""Files of both sizes are read alike, also in the process that this module starts."""
FIELDS: dict[str, Any] = {
    "ts": "long",
    "v": "double",
    "name": "string",
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "home": {"type": "record", "name": "home", "fields": [{"name": "street", "type": ["null", "string"]}]},
    "lines": {
        "type": "array",
        "items": {
            "type": "record",
            "name": "line",
            "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": ["null", "int"]}],
        },
    },
    "tags": {"type": "map", "values": ["null", "string"]},
}
SLACK = 150
"""Additional objects allowed for caches; a list with one value per row would be thousands."""


class PeakObjects:
    """The peak of live objects above the start, counted after each call in the package."""

    def __init__(self) -> None:
        self.peak = self._start = 0

    def __enter__(self) -> PeakObjects:
        gc.collect()
        gc.disable()
        self._start = sys.getallocatedblocks()
        sys.settrace(self._frame)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        gc.enable()

    def _frame(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if not frame.f_globals.get("__name__", "").startswith("penstock."):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        # Looked up once a call, because the hash of a code object is slow. No closure: gc is off, and it is a cycle.
        return functools.partial(self._opcode, after_calls(frame.f_code))

    def _opcode(self, offsets: frozenset[int], frame: FrameType, event: str, _: object) -> None:
        """None: the frame keeps this function."""
        if event == "opcode" and frame.f_lasti in offsets:
            self.peak = max(self.peak, sys.getallocatedblocks() - self._start)


@functools.cache
def after_calls(code: CodeType) -> frozenset[int]:
    steps = list(dis.get_instructions(code))
    pairs = itertools.pairwise(steps)
    return frozenset(after.offset for before, after in pairs if before.opname.startswith("CALL"))


def row(number: int, place: int, key: int, ts: int) -> dict[str, Any]:
    return {
        "_hoodie_commit_time": str(instant(number)),
        "_hoodie_commit_seqno": f"{instant(number)}_0_{place}",
        "_hoodie_record_key": f"key-{key:09}",
        "_hoodie_partition_path": "",
        "_hoodie_file_name": "f",
        "ts": ts,
        "v": key * 0.5,
        "name": f'name "{key % 50}"',
        "price": Decimal(key).scaleb(-2),
        "at": 1_760_000_000_000_000 + key,
        "home": {"street": None if key % 3 else f"street {key}"},
        "lines": [{"sku": f"sku {item}", "count": None if item else key} for item in range(key % 3)],
        "tags": {"a": None, "b": "text"} if key % 2 else {},
    }


def group(folder: pathlib.Path, rows: int) -> tuple[ChangeFolder, SliceFiles, SliceFiles]:
    """A file group of `rows` rows, and a log that updates a tenth of them and deletes another tenth."""
    folder.mkdir()
    table = ChangeFolder(folder, FIELDS, EventTimeOrdering(("ts",)))
    before = table.base(1, [row(1, key, key, 5) for key in range(rows)])
    updates = [row(2, place, key, 9 if place % 3 else 1) for place, key in enumerate(range(0, rows, 10))]
    deletes = [(f"key-{key:09}", "", None) for key in range(5, rows, 10)]
    log = table.log(
        2,
        slice_writer.data_block(table.avro, updates, instant(2)),
        slice_writer.delete_block(deletes, instant(2)),
    )
    return table, before, SliceFiles(before.base, before.base_instant, (log,))


def rows_read(table: ChangeFolder, files: SliceFiles, batch_rows: int, **changed: Any) -> Iterator[SplitBatch]:
    value: dict[str, Any] = {
        "table": "orders",
        "base_path": str(table.folder),
        "table_version": 9,
        "schema_json": json.dumps(table.avro),
        "columns": tuple(table.arrow.names),
        "merge": table.merge,
        "visible": VisibleInstants(frozenset(), "9" * 17),
        "rows": AllRows(),
    }
    split = Split(
        split_id="s1",
        partition="",
        partition_values=(),
        file_group="group",
        order_key=InstantTime(instant(1)),
        base=files.base,
        base_instant=files.base_instant,
        logs=files.logs,
    )
    return read_split(Scan(**{**value, **changed}), split, options=ReadOptions(batch_rows, compiled=True))


def changes_read(
    table: ChangeFolder, before: SliceFiles, after: SliceFiles, batch_rows: int, form: ChangeFormat
) -> Iterator[SplitBatch]:
    scan = table.scan(form, [instant(1), instant(2)])
    split = table.split([step(2, ComparedStates(before, after))])
    return read_split(scan, split, options=ReadOptions(batch_rows, compiled=True))


Group = tuple[ChangeFolder, SliceFiles, SliceFiles]
READS: dict[str, Callable[[Group, int], Iterator[SplitBatch]]] = {
    "snapshot": lambda group, size: rows_read(group[0], group[2], size),
    "a filter": lambda group, size: rows_read(group[0], group[2], size, where="ts > 4 and name <> 'x'"),
    "log-free": lambda group, size: rows_read(group[0], group[1], size),
    "incremental": lambda group, size: rows_read(
        group[0], group[2], size, rows=RowsOf(frozenset([InstantTime(instant(2))]))
    ),
    "changes as rows": lambda group, size: changes_read(*group, size, ChangeFormat.ROWS),
    "changes as JSON": lambda group, size: changes_read(*group, size, ChangeFormat.HUDI),
}


def measured(groups: dict[int, Group], kind: str) -> dict[str, dict[int, int]]:
    """Objects, rows and batches of reads of both sizes."""
    result: dict[str, dict[int, int]] = {"peaks": {}, "rows": {}, "batches": {}}

    def read(size: int) -> int:
        with PeakObjects() as objects:
            rows = batches = 0
            for answer in READS[kind](groups[size], size // 4):
                rows += answer.batch.num_rows
                batches += 1
        result["rows"][size], result["batches"][size] = rows, batches
        return objects.peak

    for size in (MANY, FEW, FEW, MANY):  # the first read of each fills caches, also those of this test
        result["peaks"][size] = read(size)
    result["peaks"][MANY] = lowest(result["peaks"][MANY], result["peaks"][FEW], lambda: read(MANY))
    return result


def lowest(peak: int, few: int, again: Callable[[], int]) -> int:
    """The lowest peak of up to three reads, the first of which has `peak`: another thread of the process may allocate
    once, but an object a row is in each."""
    for _ in range(2):
        if peak <= few + SLACK:
            break
        peak = min(peak, again())
    return peak


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, dict[str, int]]]:
    """The measurements by decoder, from a separate process, because counting slows down in a large process."""
    message = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert message.returncode == 0, message.stderr[-3000:]
    outcomes: dict[str, dict[str, dict[str, int]]] = json.loads(message.stdout.splitlines()[-1])
    return outcomes


@pytest.mark.exhaustive
@pytest.mark.thorough
@pytest.mark.parametrize("kind", READS)
def test_objects_do_not_grow_with_rows(outcomes: dict[str, dict[str, dict[str, int]]], kind: str) -> None:
    peaks, rows, batches = (outcomes[kind][name] for name in ("peaks", "rows", "batches"))
    many, few = str(MANY), str(FEW)
    assert rows[many] == 10 * rows[few] > 0
    assert batches[many] == batches[few]
    assert peaks[many] <= peaks[few] + SLACK, f"{peaks}: an object a row, for {rows}"


def test_list_of_values_is_detected() -> None:
    """Even if it is freed when the function returns."""
    scratch: dict[str, Any] = {"__name__": "penstock.scratch"}
    exec("def longest(column):\n    return max(map(len, column.to_pylist()))", scratch)
    with PeakObjects() as objects:
        scratch["longest"](pa.array([f"value {number}" for number in range(MANY)]))
    assert objects.peak > MANY > 10 * SLACK


@pytest.mark.parametrize(
    ("peaks", "expected"), [([90], 90), ([270, 90], 90), ([270, 280, 90], 90), ([1000, 1010, 990, 90], 990)]
)
def test_one_read_with_other_objects_is_read_again(peaks: list[int], expected: int) -> None:
    first, *others = peaks
    assert lowest(first, 100, iter(others).__next__) == expected


def main() -> None:
    """Prints the measurements of every decoder as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        groups = {rows: group(pathlib.Path(folder) / str(rows), rows) for rows in (FEW, MANY)}
        print(json.dumps({kind: measured(groups, kind) for kind in READS}))


if __name__ == "__main__":
    main()
