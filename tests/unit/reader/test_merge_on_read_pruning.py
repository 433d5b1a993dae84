"""Row groups that the footer rules out, merged with a log: the result equals a filter after a full read, and the
merge with the rows of the log is unchanged. A filter changes no ordinal. A range does not read a base file whose rows
can neither be in the range nor win."""

from __future__ import annotations

import datetime
import pathlib
import tempfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.model.splits import CommitTimeOrdering, EventTimeOrdering
from penstock.reader.base import file
from penstock.reader.read_split import ReadOptions, SplitTally, read_split
from tests.oracle import slice_writer
from tests.unit.reader.slices import SliceFolder, comparable, ordinals_of, rows_of

FIELDS: dict[str, Any] = {"id": "string", "ts": "long", "n": "long"}
ONE, TWO, THREE = "20260101000000001", "20260101000000002", "20260101000000003"
KEYS = st.sampled_from(list("abcdefgh"))
NUMBERS = st.integers(0, 5)
TIMES = st.none() | st.integers(-3, 5)
GROUPS = st.lists(
    st.tuples(st.sampled_from([ONE, TWO]), st.lists(st.tuples(KEYS, TIMES, NUMBERS), min_size=1, max_size=6)),
    min_size=1,
    max_size=4,
)
RECORDS = st.lists(st.tuples(KEYS, st.none() | st.integers(-3, 9), NUMBERS), min_size=1, max_size=6)
KINDS = st.sampled_from(["long", "int", "date"])
RANGES = st.just({THREE}) | st.sets(st.sampled_from([ONE, TWO, THREE]), min_size=1)


def row(instant: str, place: int, key: str, ts: int | datetime.date | None, n: int) -> dict[str, Any]:
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


def ordered_by(kind: str) -> dict[str, Any]:
    return {**FIELDS, "ts": {"type": "int", "logicalType": "date"} if kind == "date" else kind}


def moment(kind: str, ts: int | None) -> Any:
    return ts if ts is None or kind != "date" else datetime.date(1970, 1, 1) + datetime.timedelta(ts)


def table(folder: SliceFolder, groups: Any, records: Any) -> None:
    folder.write_base([[row(instant, place, *one) for place, one in enumerate(rows)] for instant, rows in groups])
    folder.write_log(
        slice_writer.data_block(folder.avro, [row(THREE, place, *one) for place, one in enumerate(records)], THREE)
    )


@settings(max_examples=120, deadline=None)
@given(
    kind=KINDS,
    groups=GROUPS,
    records=RECORDS,
    event_time=st.booleans(),
    compiled=st.booleans(),
    instants=RANGES,
    bound=st.integers(-1, 6),
    start=st.integers(0, 12),
)
def test_range_and_a_filter_give_the_rows_of_a_full_read(
    kind: str, groups: Any, records: Any, event_time: bool, compiled: bool, instants: set[str], bound: int, start: int
) -> None:
    groups = [(instant, [(key, moment(kind, ts), n) for key, ts, n in rows]) for instant, rows in groups]
    records = [(key, moment(kind, ts), n) for key, ts, n in records]
    with tempfile.TemporaryDirectory() as scratch:
        merge = EventTimeOrdering(("ts",)) if event_time else CommitTimeOrdering()
        folder = SliceFolder(pathlib.Path(scratch), ordered_by(kind), merge)
        table(folder, groups, records)
        options = ReadOptions(batch_rows=2, compiled=compiled)

        def numbered(**request: Any) -> list[tuple[int, dict[str, Any]]]:
            result = folder.read(options=options, **request)
            rows = [row for batch in result for row in batch.batch.to_pylist()]
            return list(zip(ordinals_of(result), rows, strict=True))

        of_range = numbered(rows=rows_of(*instants))
        of_full = [result for _, result in numbered() if result["_hoodie_commit_time"] in instants]
        assert sorted(comparable(result for _, result in of_range)) == sorted(comparable(of_full))
        ordinals = [ordinal for ordinal, _ in of_range]
        assert ordinals == sorted(set(ordinals))
        remaining = [(ordinal, result) for ordinal, result in of_range if result["n"] > bound and ordinal >= start]
        assert numbered(start=start, rows=rows_of(*instants), where=f"n > {bound}") == remaining


OLD = [(ONE, [("a", 3, 1), ("b", 4, 1)]), (TWO, [("c", 5, 1)])]


@pytest.mark.parametrize(
    ("ordering", "records", "ids", "unread"),
    [
        pytest.param(("ts",), [("b", 5, 2), ("x", 7, 2)], ["b", "x"], 2, id="none-is-older"),
        pytest.param(("ts",), [("b", 4, 2), ("x", 7, 2)], ["b", "x"], 0, id="one-is-older-than-another-key"),
        pytest.param(("ts",), [("c", 4, 2), ("x", 7, 2)], ["x"], 0, id="one-loses"),
        pytest.param(("ts",), [("b", None, 2), ("x", 7, 2)], ["x"], 0, id="one-has-no-time"),
        pytest.param((), [("c", 0, 2), ("x", 0, 2)], ["c", "x"], 2, id="the-newer-wins"),
        pytest.param(("ts", "n"), [("c", 9, 9)], ["c"], 0, id="two-orderings"),
    ],
)
def test_base_that_can_neither_come_nor_win_is_not_read(
    tmp_path: pathlib.Path, ordering: tuple[str, ...], records: Any, ids: list[str], unread: int
) -> None:
    folder = SliceFolder(tmp_path, FIELDS, EventTimeOrdering(ordering) if ordering else CommitTimeOrdering())
    table(folder, OLD, records)
    tally = SplitTally()
    result = list(read_split(folder.scan(rows=rows_of(THREE)), folder.split(), tally=tally))
    assert sorted(row["id"] for batch in result for row in batch.batch.to_pylist()) == ids
    report = tally.report()
    read = dict(report.phase_ms)["base_decode"] > 0
    assert read == (not unread)
    assert report.pruned_row_groups == 2
    assert report.outcomes.won == len(ids)
    if unread:
        assert ordinals_of(result) == [3, 4]


@pytest.mark.parametrize(
    ("kind", "held", "times", "ids", "unread"),
    [
        pytest.param("long", None, (-1, -1), ["a", "x"], True, id="a-null-is-the-lowest-long"),
        pytest.param("int", None, (-1, -1), ["x"], False, id="a-null-int-is-0-and-beats-the-log"),
        pytest.param("date", None, (-1, -1), ["x"], False, id="a-null-date-is-day-0-and-beats-the-log"),
        pytest.param("int", None, (0, 1), ["a", "x"], True, id="a-null-int-ties-with-0"),
        pytest.param("int", -5, (None, 7), ["a", "x"], True, id="a-null-int-of-the-log-is-0"),
        pytest.param("date", 1, (None, 7), ["x"], False, id="a-null-date-of-the-log-is-day-0"),
    ],
)
def test_nulls_of_the_base_count_where_statistics_leave_it_unread(
    tmp_path: pathlib.Path, kind: str, held: int | None, times: tuple[int | None, int], ids: list[str], unread: bool
) -> None:
    folder = SliceFolder(tmp_path, ordered_by(kind), EventTimeOrdering(("ts",)))
    old = [("a", moment(kind, held), 1), ("b", moment(kind, -9), 1)]
    new = [("a", moment(kind, times[0]), 2), ("x", moment(kind, times[1]), 2)]
    table(folder, [(ONE, old), (TWO, [("c", moment(kind, held), 1)])], new)
    tally = SplitTally()
    result = list(read_split(folder.scan(rows=rows_of(THREE)), folder.split(), tally=tally))
    assert sorted(row["id"] for batch in result for row in batch.batch.to_pylist()) == ids
    assert (dict(tally.report().phase_ms)["base_decode"] == 0) == unread


def test_base_with_rows_of_the_range_is_read_whole(tmp_path: pathlib.Path) -> None:
    folder = SliceFolder(tmp_path, FIELDS)
    table(folder, OLD, [("a", 9, 9)])
    tally = SplitTally()
    result = list(read_split(folder.scan(rows=rows_of(TWO, THREE)), folder.split(), tally=tally))
    assert sorted(row["id"] for batch in result for row in batch.batch.to_pylist()) == ["a", "c"]
    assert dict(tally.report().phase_ms)["base_decode"] > 0


def test_footer_is_read_once_a_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a remote store each read is a request."""
    looked = []
    real = file.CheckedFile
    monkeypatch.setattr(file, "CheckedFile", lambda source, **how: (looked.append(source), real(source, **how))[1])
    folder = SliceFolder(tmp_path, FIELDS, EventTimeOrdering(("ts",)))
    table(folder, OLD, [("b", 5, 2)])
    assert list(read_split(folder.scan(rows=rows_of(THREE), where="n > 0"), folder.split()))
    assert len(looked) == 1


def test_pruned_row_group_is_in_the_report(tmp_path: pathlib.Path) -> None:
    folder = SliceFolder(tmp_path, FIELDS)
    table(folder, [(ONE, [("a", 1, 1), ("b", 1, 1)]), (TWO, [("c", 1, 1)])], [("a", 2, 2)])
    tally = SplitTally()
    result = list(read_split(folder.scan(rows=rows_of(TWO, THREE)), folder.split(), tally=tally))
    assert [row["id"] for batch in result for row in batch.batch.to_pylist()] == ["a", "c"]
    assert ordinals_of(result) == [1, 2]
    report = tally.report()
    assert (report.pruned_row_groups, report.pruned_rows) == (1, 2)
    assert report.outcomes.won == 1
