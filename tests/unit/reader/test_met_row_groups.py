"""Row groups of which the footer says that no row is kept, met by a log: what is handed on is what a filter behind a
full read would leave, with the same ordinals, and the log's rows lose and win against them all the same."""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import slice_writer
from slices import SliceFolder, ordinals_of, rows_of

from penstock.proto.splits import CommitTimeOrdering, EventTimeOrdering
from penstock.reader.read_split import ReadOptions, SplitTally, read_split

FIELDS: dict[str, Any] = {"id": "string", "ts": "long", "n": "long"}
ONE, TWO, THREE = "20260101000000001", "20260101000000002", "20260101000000003"
KEYS = st.sampled_from(list("abcdefgh"))
NUMBERS = st.integers(0, 5)
GROUPS = st.lists(
    st.tuples(st.sampled_from([ONE, TWO]), st.lists(st.tuples(KEYS, NUMBERS, NUMBERS), min_size=1, max_size=6)),
    min_size=1,
    max_size=4,
)
RECORDS = st.lists(st.tuples(KEYS, NUMBERS, NUMBERS), min_size=1, max_size=6)


def row(instant: str, place: int, key: str, ts: int, n: int) -> dict[str, Any]:
    return {
        "_hoodie_commit_time": instant,
        "_hoodie_commit_seqno": f"{instant}_0_{place}",
        "_hoodie_record_key": key,
        "_hoodie_partition_path": "",
        "_hoodie_file_name": "f",
        "id": key,
        "ts": ts,
        "n": n,
    }


def table(folder: SliceFolder, groups: Any, records: Any) -> None:
    folder.write_base([[row(instant, place, *one) for place, one in enumerate(rows)] for instant, rows in groups])
    folder.write_log(
        slice_writer.data_block(folder.avro, [row(THREE, place, *one) for place, one in enumerate(records)], THREE)
    )


@settings(max_examples=60, deadline=None)
@given(
    groups=GROUPS,
    records=RECORDS,
    event_time=st.booleans(),
    compiled=st.booleans(),
    instants=st.sets(st.sampled_from([ONE, TWO, THREE]), min_size=1),
    bound=st.integers(-1, 6),
    start=st.integers(0, 12),
)
def test_a_range_and_a_filter_give_the_rows_of_a_full_read(
    groups: Any, records: Any, event_time: bool, compiled: bool, instants: set[str], bound: int, start: int
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = SliceFolder(
            pathlib.Path(scratch), FIELDS, EventTimeOrdering(("ts",)) if event_time else CommitTimeOrdering()
        )
        table(folder, groups, records)
        options = ReadOptions(batch_rows=2, compiled=compiled)
        whole = folder.read(options=options)
        rows = [found for batch in whole for found in batch.batch.to_pylist()]
        kept = [
            (ordinal, found)
            for ordinal, found in zip(ordinals_of(whole), rows, strict=True)
            if found["_hoodie_commit_time"] in instants and found["n"] > bound and ordinal >= start
        ]
        filtered = folder.read(options=options, start=start, rows=rows_of(*instants), where=f"n > {bound}")
        found_rows = [found for batch in filtered for found in batch.batch.to_pylist()]
        assert list(zip(ordinals_of(filtered), found_rows, strict=True)) == kept


def test_such_a_row_group_is_told_in_the_report(tmp_path: pathlib.Path) -> None:
    folder = SliceFolder(tmp_path, FIELDS)
    table(folder, [(ONE, [("a", 1, 1), ("b", 1, 1)]), (TWO, [("c", 1, 1)])], [("a", 2, 2)])
    tally = SplitTally()
    found = list(read_split(folder.scan(rows=rows_of(TWO, THREE)), folder.split(), tally=tally))
    assert [row["id"] for batch in found for row in batch.batch.to_pylist()] == ["a", "c"]
    assert ordinals_of(found) == [1, 2]
    report = tally.report()
    assert (report.pruned_row_groups, report.pruned_rows) == (1, 2)
    assert report.outcomes.won == 1
