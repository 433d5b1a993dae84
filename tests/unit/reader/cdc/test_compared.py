"""Changes of compared states, against a comparison of dicts, with random states and logs, including rare cases:
duplicate keys of a base file, deletes, repeated inserts, late writes that lose, groups that begin or end.
"""

from __future__ import annotations

import pathlib
import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.model.changes import ChangeFormat, ComparedStates
from penstock.proto.model.files import FileRef, SliceFiles
from penstock.proto.model.splits import CommitTimeOrdering, EventTimeOrdering
from penstock.reader.cdc import compared
from penstock.reader.read_split import ReadOptions
from tests.oracle import slice_writer
from tests.oracle.file_slice import FileSlice
from tests.unit.reader.change_slices import ChangeFolder, instant, kinds_and, meta_columns

FIELDS = {"v": "long", "ts": "long"}
KEYS = st.sampled_from("abcdef")
Row = dict[str, Any]


def row(number: int, place: int, key: str, v: int | None, ts: int | None = 0) -> Row:
    return {**meta_columns(number, place, key), "v": v, "ts": ts}


def version(result: Row) -> tuple[str, str, str]:
    return (result["_hoodie_record_key"], result["_hoodie_commit_time"], result["_hoodie_commit_seqno"])


def minus(left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
    """The rows of `left` that `right` does not have, by version, as a multiset."""
    held = Counter(map(version, right))
    rest = []
    for result in left:
        if held[version(result)]:
            held[version(result)] -= 1
        else:
            rest.append(result)
    return rest


def expected_changes(before: Sequence[Row], after: Sequence[Row]) -> Counter[tuple[str, str, int | None]]:
    """The differing old and new rows of each key: one update per pair, the rest deletes or inserts. If a key has
    several rows, their pairing is undefined."""
    old, new = minus(before, after), minus(after, before)
    result: Counter[tuple[str, str, int | None]] = Counter()
    for key in {r["_hoodie_record_key"] for r in (*old, *new)}:
        olds = [r for r in old if r["_hoodie_record_key"] == key]
        news = [r for r in new if r["_hoodie_record_key"] == key]
        pairs = min(len(olds), len(news))
        for place, r in enumerate(olds):
            result["-U" if place < pairs else "-D", key, r["v"]] += 1
        for place, r in enumerate(news):
            result["+U" if place < pairs else "+I", key, r["v"]] += 1
    return result


def got(folder: ChangeFolder, number: int, source: ComparedStates, known: range, options: ReadOptions) -> list[Any]:
    result = folder.read((number, source), known=known, options=options)
    assert result.sort_by("_change_seq").equals(result)
    assert len(set(result["_change_seq"].to_pylist())) == result.num_rows
    kinds = result["_change_type"].to_pylist()
    keys = result["_hoodie_record_key"].to_pylist()
    for place, kind in enumerate(kinds):
        if kind == "+U":  # its old row directly precedes it
            assert (kinds[place - 1], keys[place - 1]) == ("-U", keys[place])
    assert kinds.count("-U") == kinds.count("+U")
    deletes = [place for place, kind in enumerate(kinds) if kind == "-D"]
    assert deletes == list(range(len(deletes)))
    return kinds_and(result, "_hoodie_record_key", "v")


OPTIONS = st.builds(ReadOptions, batch_rows=st.sampled_from([1, 3, 32768]), compiled=st.booleans())
UPSERT = st.tuples(KEYS, st.integers(0, 99), st.none() | st.integers(-2, 3))


@pytest.mark.thorough
@settings(max_examples=30, deadline=None)
@given(
    base=st.lists(UPSERT, max_size=8),
    commits=st.lists(
        st.tuples(st.lists(UPSERT, max_size=4), st.lists(st.tuples(KEYS, st.none() | st.integers(-2, 3)), max_size=3)),
        min_size=1,
        max_size=4,
    ),
    ordering=st.sampled_from([None, "long", "int"]),
    without_base=st.booleans(),
    options=OPTIONS,
)
def test_logs_on_a_base_file(
    base: list[Any], commits: list[Any], ordering: str | None, without_base: bool, options: ReadOptions
) -> None:
    """Every commit adds a log: its changes are the difference of the merged states."""
    with tempfile.TemporaryDirectory() as name:
        merge = EventTimeOrdering(("ts",)) if ordering else CommitTimeOrdering()
        folder = ChangeFolder(pathlib.Path(name), {**FIELDS, "ts": ordering or "long"}, merge)
        rows = [row(1, place, *entry) for place, entry in enumerate(base)]
        bottom = SliceFiles(None) if without_base else folder.base(1, rows)
        logs: list[FileRef] = []
        for number, (upserts, deletes) in enumerate(commits, 2):
            blocks = []
            if upserts:
                written = [row(number, place, *entry) for place, entry in enumerate(upserts)]
                blocks.append(slice_writer.data_block(folder.avro, written, instant(number)))
            if deletes:
                wrapper = f"{(ordering or 'long').title()}Wrapper"
                marks = [(key, "" if ts is None else wrapper, ts) for key, ts in deletes]
                blocks.append(slice_writer.delete_block(marks, instant(number)))
            if not blocks:  # a file is never empty
                blocks.append(slice_writer.delete_block([], instant(number)))
            logs.append(folder.log(number, *blocks))
        states = [merged(folder, bottom, logs[:count], ordering) for count in range(len(logs) + 1)]
        known = range(1, len(commits) + 2)
        for place, number in enumerate(known[1:]):
            files = [SliceFiles(bottom.base, bottom.base_instant, tuple(logs[:n])) for n in (place, place + 1)]
            before = None if without_base and not place else files[0]
            source = ComparedStates(before, files[1])
            assert Counter(got(folder, number, source, known, options)) == expected_changes(
                states[place], states[place + 1]
            )


def merged(folder: ChangeFolder, bottom: SliceFiles, logs: Sequence[FileRef], ordering: str | None) -> list[Row]:
    """A state as the oracle merges it."""
    result = FileSlice(
        base=folder.folder / bottom.base.path if bottom.base else None,
        logs=[folder.folder / log.path for log in logs],
        base_instant=bottom.base_instant,
        ordering=("ts", ordering) if ordering else None,
    )
    return result.rows()


@settings(max_examples=30, deadline=None)
@given(
    base=st.lists(UPSERT, max_size=10),
    fates=st.lists(st.sampled_from(["stay", "stay", "update", "delete"]), min_size=10, max_size=10),
    inserts=st.lists(st.tuples(st.sampled_from("uvwabc"), st.integers(100, 199), st.just(9)), max_size=4),
    compacted=st.booleans(),
    at_once=st.sampled_from([1, 2, compared.KEYS_AT_ONCE]),
    options=OPTIONS,
)
def test_rewritten_base_file(
    base: list[Any], fates: list[str], inserts: list[Any], compacted: bool, at_once: int, options: ReadOptions
) -> None:
    """A commit rewrote the file with unchanged, changed, removed and new rows, also over logs of an earlier commit."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(compared, "KEYS_AT_ONCE", at_once)
        folder = ChangeFolder(pathlib.Path(name), FIELDS)
        if compacted:  # one row a key: a compaction cannot leave two of what a log replaced
            base = list({entry[0]: entry for entry in base}.values())
        rows = [row(1, place, *entry) for place, entry in enumerate(base)]
        files = folder.base(1, rows)
        if compacted and rows:
            late = row(2, 0, rows[0]["_hoodie_record_key"], 77)
            log = folder.log(2, slice_writer.data_block(folder.avro, [late], instant(2)))
            files, rows = SliceFiles(files.base, files.base_instant, (log,)), [late, *rows[1:]]
        rewritten = []
        for place, (result, fate) in enumerate(zip(rows, fates, strict=False)):
            if fate == "stay":
                rewritten.append(result)
            elif fate == "update":
                rewritten.append(row(3, place, result["_hoodie_record_key"], result["v"] + 1000))
        rewritten += [row(3, 50 + place, *entry) for place, entry in enumerate(inserts)]
        after = folder.base(3, rewritten)
        source = ComparedStates(files, after)
        assert Counter(got(folder, 3, source, range(1, 4), options)) == expected_changes(rows, rewritten)


class TestWholeGroups:
    """File groups that a commit created or ended."""

    ROWS = (row(1, 0, "a", 1), row(1, 1, "b", None), row(1, 2, "a", 3))

    def test_all_new(self, tmp_path: pathlib.Path) -> None:
        folder = ChangeFolder(tmp_path, FIELDS)
        result = folder.read((1, ComparedStates(None, folder.base(1, self.ROWS))), options=ReadOptions(batch_rows=2))
        assert kinds_and(result, "_hoodie_record_key", "v") == [("+I", "a", 1), ("+I", "b", None), ("+I", "a", 3)]

    def test_all_gone(self, tmp_path: pathlib.Path) -> None:
        folder = ChangeFolder(tmp_path, FIELDS)
        source = ComparedStates(folder.base(1, self.ROWS), None)
        result = folder.read((2, source), known=[1], columns=("v", "_change_type", "_change_instant"))
        assert result.to_pydict() == {
            "v": [1, None, 3],
            "_change_type": ["-D"] * 3,
            "_change_instant": [instant(2)] * 3,
        }

    def test_emptied(self, tmp_path: pathlib.Path) -> None:
        folder = ChangeFolder(tmp_path, FIELDS)
        source = ComparedStates(folder.base(1, self.ROWS[:2]), folder.base(2, []))
        assert kinds_and(folder.read((2, source), known=[1]), "v") == [("-D", 1), ("-D", None)]

    def test_emptied_and_filled_again(self, tmp_path: pathlib.Path) -> None:
        folder = ChangeFolder(tmp_path, FIELDS)
        one, two = folder.base(1, self.ROWS[:2]), folder.base(2, [])
        three = folder.base(3, [row(3, 0, "a", 5)])
        result = folder.read(
            (1, ComparedStates(None, one)), (2, ComparedStates(one, two)), (3, ComparedStates(two, three))
        )
        assert kinds_and(result, "v") == [("+I", 1), ("+I", None), ("-D", 1), ("-D", None), ("+I", 5)]
        assert result.sort_by("_change_seq").equals(result)


def three_commits(tmp_path: pathlib.Path) -> tuple[ChangeFolder, list[tuple[int, ComparedStates]]]:
    """Inserts; then an update, a delete and an insert in a log; then a rewritten base file."""
    folder = ChangeFolder(tmp_path, FIELDS)
    one = folder.base(1, [row(1, n, key, n) for n, key in enumerate("abcde")])
    log = folder.log(
        2,
        slice_writer.data_block(folder.avro, [row(2, 0, "a", 10), row(2, 1, "f", 11)], instant(2)),
        slice_writer.delete_block([("b", "", None)], instant(2)),
    )
    two = SliceFiles(one.base, one.base_instant, (log,))
    remaining = [row(2, 0, "a", 10), *(row(1, n, key, n) for n, key in enumerate("abcde") if key in "cd")]
    three = folder.base(3, [*remaining, row(3, 0, "f", 12), row(3, 1, "g", 13)])
    steps = [(1, ComparedStates(None, one)), (2, ComparedStates(one, two)), (3, ComparedStates(two, three))]
    return folder, steps


EXPECTED = [
    *(("+I", key, n, 1) for n, key in enumerate("abcde")),
    *[("-D", "b", 1, 2), ("-U", "a", 0, 2), ("+U", "a", 10, 2), ("+I", "f", 11, 2)],
    *[("-D", "e", 4, 3), ("-U", "f", 11, 3), ("+U", "f", 12, 3), ("+I", "g", 13, 3)],
]


class TestSteps:
    """A split of several commits."""

    def test_in_order(self, tmp_path: pathlib.Path) -> None:
        folder, steps = three_commits(tmp_path)
        result = folder.read(*steps)
        expected = [(kind, key, v, str(instant(number))) for kind, key, v, number in EXPECTED]
        assert kinds_and(result, "_hoodie_record_key", "v", "_change_instant") == expected
        assert result.sort_by("_change_seq").equals(result)

    @pytest.mark.sampled(2)
    @pytest.mark.thorough
    @pytest.mark.parametrize("form", ChangeFormat)
    @pytest.mark.parametrize("batch_rows", [1, 5, 100])
    def test_tails_and_batch_sizes(self, tmp_path: pathlib.Path, form: ChangeFormat, batch_rows: int) -> None:
        folder, steps = three_commits(tmp_path)
        whole = folder.read(*steps, form=form)
        for compiled in (True, False):
            options = ReadOptions(batch_rows=batch_rows, compiled=compiled)
            for start in range(whole.num_rows + 2):
                assert folder.read(*steps, form=form, start=start, options=options).equals(whole.slice(start))

    def test_ordinals_count_rows_before_the_filter(self, tmp_path: pathlib.Path) -> None:
        folder, steps = three_commits(tmp_path)
        whole = folder.read(*steps)
        remaining = [place for place, kind in enumerate(whole["_change_type"].to_pylist()) if kind == "-D"]
        for start in range(whole.num_rows):
            result = folder.read(*steps, start=start, where="_change_type = '-D'")
            assert result.equals(whole.take(pa.array([place for place in remaining if place >= start], pa.int64())))

    @pytest.mark.parametrize(
        ("where", "kinds"),
        [
            ("v >= 12", ["+U", "+I"]),
            ("_hoodie_record_key = 'f'", ["+I", "-U", "+U"]),
            ("_change_instant = '20260101000000002' AND v < 10", ["-D", "-U"]),
            ("_hoodie_commit_time IS NULL", ["-D", "-U", "-D", "-U"]),
            ("_change_type LIKE '+%' AND v > 10", ["+I", "+U", "+I"]),
        ],
    )
    def test_filters_see_the_finished_change(self, tmp_path: pathlib.Path, where: str, kinds: list[str]) -> None:
        folder, steps = three_commits(tmp_path)
        assert folder.read(*steps, where=where, columns=("_change_type",))["_change_type"].to_pylist() == kinds

    def test_columns_in_any_order(self, tmp_path: pathlib.Path) -> None:
        folder, steps = three_commits(tmp_path)
        whole = folder.read(*steps)
        for columns in (("_change_seq", "v"), ("ts", "_change_type"), ("_change_instant",), ("_hoodie_file_name", "v")):
            assert folder.read(*steps, columns=columns).equals(whole.select(columns))

    def test_hudis_form(self, tmp_path: pathlib.Path) -> None:
        folder, steps = three_commits(tmp_path)
        result = folder.read(*steps, form=ChangeFormat.HUDI)
        assert result["op"].to_pylist() == list("iiiiiduidui")
        assert result["before"].null_count == 5 + 1 + 1
        assert result["after"].null_count == 2
        only = folder.read(*steps, form=ChangeFormat.HUDI, where="op = 'u'", columns=("ts_ms",))
        assert only.to_pydict() == {"ts_ms": [instant(2), instant(3)]}
