"""Where rows of a global index are written, compared with a decision row by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.model.files import FileRef
from penstock.reader.merge.fold import RecordKind
from penstock.writer.index.global_keys import StoredRows, placed_rows
from penstock.writer.index.slices import LatestSlice
from penstock.writer.rows.keyed_rows import KeyedRows
from penstock.writer.rows.partition_paths import RowPartitions

PARTITIONS = ("p", "q", "r")
SLICES = [
    LatestSlice(
        partition=partition, file_id=f"g{place}", base=FileRef(f"g{place}", 1), base_instant="1", logs=(), key="1"
    )
    for place, partition in enumerate(("p", "p", "q", "z"))
]
DATA, DELETE, DEFAULT_DELETE = RecordKind.DATA, RecordKind.DELETE, RecordKind.DEFAULT_DELETE


@dataclass(frozen=True)
class Incoming:
    """A row, and the stored rows of its key: (slice, whether it wins over the row)."""

    partition: str
    kind: RecordKind
    stored: tuple[tuple[int, bool], ...]


ROWS = st.lists(
    st.builds(
        Incoming,
        st.sampled_from(PARTITIONS),
        st.sampled_from(list(RecordKind)),
        st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=3, unique_by=lambda one: one[0]).map(
            lambda stored: tuple(sorted(stored))
        ),
    ),
    max_size=8,
)
Written = tuple[int, str, int, RecordKind]
"""Number of the row, partition, slice or -1, kind."""


def expected(rows: list[Incoming], *, moves: bool) -> Counter[Written]:
    """The rule, row by row."""
    written: Counter[Written] = Counter()
    for number, row in enumerate(rows):
        places = [place for place, _ in row.stored]
        others = [(place, wins) for place, wins in row.stored if SLICES[place].partition != row.partition]
        own = [place for place in places if SLICES[place].partition == row.partition]
        if not places:
            written.update([(number, row.partition, -1, DATA)] if row.kind == DATA else [])
        elif row.kind != DATA or not moves:
            written.update((number, SLICES[place].partition, place, row.kind) for place in places)
        elif own:
            written.update((number, row.partition, place, DATA) for place in own)
            left = [place for place, wins in others if not wins]
            written.update((number, SLICES[place].partition, place, DEFAULT_DELETE) for place in left)
        elif not any(wins for _, wins in others):
            written.update((number, SLICES[place].partition, place, DEFAULT_DELETE) for place in places)
            written[number, row.partition, -1, DATA] += 1
    return written


def keyed(rows: list[Incoming]) -> KeyedRows:
    paths = tuple(sorted({row.partition for row in rows}))
    numbers = pa.chunked_array([[str(number)] for number in range(len(rows))], pa.string())
    return KeyedRows(
        rows=pa.table({"number": numbers}),
        keys=numbers,
        partitions=RowPartitions(paths, np.array([paths.index(row.partition) for row in rows], np.int64)),
        kinds=np.array([row.kind for row in rows], np.uint8),
        ordering=(),
    )


@given(ROWS, st.booleans())
def test_rows_are_written_by_the_rule(rows: list[Incoming], moves: bool) -> None:
    pairs = [(number, place, wins) for number, row in enumerate(rows) for place, wins in row.stored]
    columns = [np.array([pair[at] for pair in pairs]) for at in range(3)]
    stored = StoredRows(columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2].astype(bool))
    placed = placed_rows(keyed(rows), stored, SLICES, moves_keys=moves)
    paths = placed.rows.partitions.paths
    written = zip(
        placed.rows.keys.to_pylist(),
        [paths[number] for number in placed.rows.partitions.numbers],
        placed.slices.tolist(),
        placed.rows.kinds.tolist(),
        strict=True,
    )
    assert Counter((int(key), *more) for key, *more in written) == expected(rows, moves=moves)
    assert placed.rows.rows["number"].to_pylist() == placed.rows.keys.to_pylist()
    assert list(paths) == sorted(set(paths))


def test_row_that_moves_is_delete_and_insert() -> None:
    rows = [Incoming("q", DATA, ((0, False),)), Incoming("q", DATA, ((1, True),))]
    assert expected(rows, moves=True) == Counter([(0, "p", 0, DEFAULT_DELETE), (0, "q", -1, DATA)])
