"""A split of many commits returns what its commits return one at a time, however much the steps share."""

from __future__ import annotations

import pathlib
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptBlock
from penstock.proto.model.changes import ChangeFormat, ChangeSource, ComparedStates, LoggedImages
from penstock.proto.model.files import FileRef, SliceFiles
from penstock.proto.model.splits import CommitTimeOrdering, EventTimeOrdering, FillNulls
from penstock.reader.base.file import BaseFile
from penstock.reader.cdc import base_rows, state_rows
from penstock.reader.log import scanner
from penstock.reader.log.file_bytes import LogFiles
from penstock.reader.read_split import ReadOptions
from penstock.reader.split import shared_log
from tests.oracle import slice_writer
from tests.unit.reader.change_slices import ChangeFolder, instant, meta_columns

FIELDS = {"v": "long", "w": "long", "ts": "long"}
KEYS = st.sampled_from("abcdef")
ROW = st.tuples(KEYS, st.none() | st.integers(0, 9), st.integers(0, 4))
COMMIT = st.fixed_dictionaries(
    {
        "upserts": st.lists(ROW, max_size=4),
        "deletes": st.lists(st.tuples(KEYS, st.none() | st.integers(0, 4)), max_size=2),
        "partial": st.sampled_from([(), (), ("v",), ("w",)]),
        "parquet": st.booleans(),
        "rewrites": st.sampled_from([False, False, False, True]),
        "lost": st.lists(KEYS, max_size=2),
    }
)
LIMITS = st.sampled_from([0, 300, 1500, 1 << 20])
Steps = list[tuple[int, ChangeSource]]


def row(number: int, place: int, key: str, v: int | None, ts: int | None) -> dict[str, Any]:
    return {**meta_columns(number, place, key), "v": v, "w": place, "ts": ts}


@contextmanager
def limited(rows: int, log: int, one_pass: int = scanner.ONE_PASS_BYTES) -> Iterator[None]:
    """With these most bytes of selected rows, of shared parts of logs, and of a log that is decoded in one pass."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base_rows, "SELECTION_BYTES", rows)
        patch.setattr(state_rows, "_LOOKED_UP", 2)
        patch.setattr(scanner, "ONE_PASS_BYTES", one_pass)
        patch.setattr(shared_log.SharedLog.__init__, "__defaults__", (log,))
        yield


class History:
    """A file group while commits change it."""

    def __init__(self, folder: ChangeFolder, rows: list[dict[str, Any]], *, positions: bool) -> None:
        self.folder, self.rows, self.positions = folder, rows, positions
        self.files = folder.base(1, rows)

    def append(self, number: int, commit: dict[str, Any]) -> ComparedStates:
        """A commit that writes logs. With positions it has only keys of the base."""
        upserts = [row(number, place, *entry) for place, entry in enumerate(commit["upserts"])]
        located = None
        if self.positions:
            latest = {entry["_hoodie_record_key"]: entry for entry in upserts}
            places = [place for place, old in enumerate(self.rows) if old["_hoodie_record_key"] in latest]
            upserts = [latest[self.rows[place]["_hoodie_record_key"]] for place in places]
            located = (self.files.base_instant, places)
        blocks = []
        if upserts and commit["partial"]:
            schema = slice_writer.table_schema({name: FIELDS[name] for name in (*commit["partial"], "ts")})
            blocks.append(slice_writer.data_block(schema, upserts, instant(number), partial=True, positions=located))
        elif upserts and commit["parquet"]:
            blocks.append(slice_writer.parquet_block(self.folder.arrow, upserts, instant(number), positions=located))
        elif upserts:
            blocks.append(slice_writer.data_block(self.folder.avro, upserts, instant(number), positions=located))
        if (commit["deletes"] and not self.positions) or not blocks:
            marks = [(key, "" if ts is None else "LongWrapper", ts) for key, ts in commit["deletes"]]
            if self.positions:
                blocks.append(slice_writer.delete_block([], instant(number), positions=(self.files.base_instant, [])))
            else:
                blocks.append(slice_writer.delete_block(marks, instant(number)))
        before = self.files
        log = self.folder.log(number, *blocks)
        self.files = SliceFiles(before.base, before.base_instant, (*before.logs, log))
        return ComparedStates(before, self.files)

    def rewrite(self, number: int, commit: dict[str, Any]) -> ComparedStates:
        """A commit that writes a new base file, without some keys and with some rows of its own."""
        gone = {*commit["lost"], *(key for key, *_ in commit["upserts"])}
        kept = [old for old in self.rows if old["_hoodie_record_key"] not in gone]
        self.rows = [*kept, *(row(number, place, *entry) for place, entry in enumerate(commit["upserts"]))]
        before, self.files = self.files, self.folder.base(number, self.rows)
        return ComparedStates(before, self.files)


def steps_of(folder: ChangeFolder, base: list[Any], commits: list[dict[str, Any]], *, positions: bool) -> Steps:
    """The steps of this history: the group's first commit, and the others."""
    rows = [row(1, place, *entry) for place, entry in enumerate(base)]
    history = History(folder, rows, positions=positions)
    steps: Steps = [(1, ComparedStates(None, history.files))]
    for number, commit in enumerate(commits, 2):
        steps.append((number, (history.rewrite if commit["rewrites"] else history.append)(number, commit)))
    return steps


def check_equal(folder: ChangeFolder, steps: Steps, **more: Any) -> None:
    """The steps together return the steps one at a time, and so does a part of them, and a tail."""
    known = [number for number, _ in steps]
    single = [folder.read(step, known=known, **more) for step in steps]
    expected = pa.concat_tables(single)
    assert folder.read(*steps, known=known, **more).equals(expected)
    if len(steps) > 1:
        assert folder.read(*steps[1:], known=known, **more).equals(pa.concat_tables(single[1:]))
    start = expected.num_rows // 2
    assert folder.read(*steps, known=known, start=start, **more).equals(expected.slice(start))


def commit_of(*upserts: Any, **more: Any) -> dict[str, Any]:
    nothing = {"deletes": [], "partial": (), "parquet": False, "rewrites": False, "lost": []}
    return {**nothing, "upserts": list(upserts), **more}


@pytest.mark.thorough
@settings(max_examples=30, deadline=None)
@given(
    base=st.lists(ROW, max_size=7),
    commits=st.lists(COMMIT, min_size=1, max_size=6),
    merge=st.sampled_from([CommitTimeOrdering(), EventTimeOrdering(("ts",))]),
    fills=st.sampled_from([False, False, True]),
    positions=st.booleans(),
    limits=st.tuples(LIMITS, LIMITS, st.sampled_from([0, scanner.ONE_PASS_BYTES])),
    options=st.builds(ReadOptions, batch_rows=st.sampled_from([1, 3, 32768]), compiled=st.booleans()),
    form=st.sampled_from(ChangeFormat),
)
@example(  # the second write loses against the base row, the third deletes it, the fourth brings the key back
    base=[("a", 1, 3), ("a", 2, 0), ("b", 3, 1)],
    commits=[
        commit_of(("a", 5, 3)),
        commit_of(("a", 6, 0)),
        commit_of(deletes=[("a", 4)]),
        commit_of(("a", 7, 4), ("c", 1, 1)),
    ],
    merge=EventTimeOrdering(("ts",)),
    fills=False,
    positions=False,
    limits=(1 << 20, 1 << 20, 0),
    options=ReadOptions(),
    form=ChangeFormat.ROWS,
)
def test_steps_together_are_the_steps_one_at_a_time(
    base: list[Any],
    commits: list[dict[str, Any]],
    merge: Any,
    fills: bool,
    positions: bool,
    limits: tuple[int, int, int],
    options: ReadOptions,
    form: ChangeFormat,
) -> None:
    more: dict[str, Any] = {"fill": FillNulls()} if fills else {}
    if fills:
        commits = [{**commit, "partial": ()} for commit in commits]
        more["table_version"] = 6
    with tempfile.TemporaryDirectory() as name, limited(*limits):
        folder = ChangeFolder(pathlib.Path(name), FIELDS, merge)
        steps = steps_of(folder, base, commits, positions=positions)
        check_equal(folder, steps, options=options, form=form, **more)


LOGGED = {
    "op_key_only": ("op", "record_key"),
    "data_before": ("op", "record_key", "before"),
}


@settings(max_examples=20, deadline=None)
@given(
    updates=st.lists(st.lists(KEYS, min_size=1, max_size=4, unique=True), min_size=1, max_size=5),
    mode=st.sampled_from(sorted(LOGGED)),
    with_logs=st.booleans(),
    blocks=st.integers(1, 2),
    limits=st.tuples(LIMITS, LIMITS, st.sampled_from([0, scanner.ONE_PASS_BYTES])),
    compiled=st.booleans(),
    form=st.sampled_from(ChangeFormat),
)
def test_logged_changes_whose_rows_are_looked_up(
    updates: list[list[str]],
    mode: str,
    with_logs: bool,
    blocks: int,
    limits: tuple[int, int, int],
    compiled: bool,
    form: ChangeFormat,
) -> None:
    """In logs over one base file, or in a new base file for each commit."""
    with tempfile.TemporaryDirectory() as name, limited(*limits):
        folder = ChangeFolder(pathlib.Path(name), FIELDS)
        check_equal(
            folder,
            logged_steps(folder, updates, mode, with_logs=with_logs, blocks=blocks),
            options=ReadOptions(compiled=compiled),
            form=form,
        )


def logged_steps(folder: ChangeFolder, updates: list[list[str]], mode: str, *, with_logs: bool, blocks: int) -> Steps:
    """Commits that update these keys, and log which ones they are."""
    image = {"type": "record", "name": "row", "fields": [{"name": n, "type": ["null", t]} for n, t in FIELDS.items()]}
    types = {"before": image}
    fields = [{"name": field, "type": ["null", types.get(field, "string")]} for field in LOGGED[mode]]
    schema = {"type": "record", "name": "CDC", "fields": fields}
    rows = {key: row(1, place, key, place, 0) for place, key in enumerate("abcdef")}
    files = folder.base(1, list(rows.values()))
    steps: Steps = []
    for number, keys in enumerate(updates, 2):
        before = files
        changes = [{"op": "u", "record_key": key, "before": rows[key]} for key in keys]
        written = {key: row(number, place, key, number, 0) for place, key in enumerate(keys)}
        rows = {**rows, **written}
        if with_logs:
            log = folder.log(number, slice_writer.data_block(folder.avro, list(written.values()), instant(number)))
            files = SliceFiles(before.base, before.base_instant, (*before.logs, log))
        else:
            files = folder.base(number, list(rows.values()))
        half = max(1, len(changes) // blocks)
        parts = [changes[first : first + half] for first in range(0, len(changes), half)]
        if number % 2:
            parts.append([])  # writers also log no change
        logged = folder.change_log(number, schema, *parts)
        steps.append((number, LoggedImages((logged,), before if mode == "op_key_only" else None, files)))
    return steps


@contextmanager
def counted_reads() -> Iterator[Counter[str]]:
    """How often each row group of a base file, and each log file, is read."""
    counts: Counter[str] = Counter()
    read, read_log = BaseFile.read, LogFiles._read

    def counted(self: BaseFile, number: int, *more: Any) -> Any:
        counts[f"{self.where.rpartition(' ')[2]}:{number}"] += 1
        return read(self, number, *more)

    def counted_log(self: LogFiles, log: int, *more: Any) -> Any:
        counts[self._logs[log].path] += 1
        return read_log(self, log, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseFile, "read", counted)
        patch.setattr(LogFiles, "_read", counted_log)
        yield counts


UPDATES = [commit_of((key, 5, number)) for number, key in enumerate("abcabcdefg")]


class TestReads:
    """Files are read once for all steps."""

    def test_compared_states_over_logs(self, tmp_path: pathlib.Path) -> None:
        folder = ChangeFolder(tmp_path, FIELDS)
        steps = steps_of(folder, [(key, 1, 0) for key in "abcdef"], UPDATES, positions=False)
        known = [number for number, _ in steps]
        with counted_reads() as counts:
            folder.read(*steps[1:], known=known)
        assert len(counts) == 2 + len(UPDATES)  # the base file has two row groups
        assert max(counts.values()) == 1

    def test_records_that_fill_gaps(self, tmp_path: pathlib.Path) -> None:
        folder = ChangeFolder(tmp_path, FIELDS)
        commits = [{**commit, "partial": ("v",)} for commit in UPDATES]
        steps = steps_of(folder, [(key, 1, 0) for key in "abcdef"], commits, positions=False)
        with counted_reads() as counts:
            folder.read(*steps[1:], known=[1])
        assert max(counts.values()) == 1

    def test_rewritten_base_files(self, tmp_path: pathlib.Path) -> None:
        """A file is read once for keys, and once for the rows of both states that it is."""
        folder = ChangeFolder(tmp_path, FIELDS)
        commits = [{**commit, "rewrites": True} for commit in UPDATES]
        steps = steps_of(folder, [(key, 1, 0) for key in "abcdef"], commits, positions=False)
        with counted_reads() as counts:
            folder.read(*steps[1:], known=[1])
        assert max(counts.values()) == 2
        assert sum(counts.values()) == 2 * (1 + 2 * len(UPDATES))  # each file has two row groups
        with limited(0, 0), counted_reads() as counts:
            folder.read(*steps[1:], known=[1])
        assert max(counts.values()) > 2

    @pytest.mark.parametrize("mode", LOGGED)
    @pytest.mark.parametrize("with_logs", [True, False])
    @pytest.mark.parametrize("blocks", [1, 2])
    def test_logged_changes(self, tmp_path: pathlib.Path, mode: str, with_logs: bool, blocks: int) -> None:
        folder = ChangeFolder(tmp_path, FIELDS)
        steps = logged_steps(folder, [list("ab"), list("bc"), list("ad")], mode, with_logs=with_logs, blocks=blocks)
        for chosen in (steps, steps[-1:]):
            with counted_reads() as counts:
                folder.read(*chosen, known=[1, 2, 3])
            bases = {name: count for name, count in counts.items() if ".parquet" in name}
            assert bases
            assert max(bases.values()) == 1

    def test_rows_that_do_not_fit_are_read_for_each_step(self, tmp_path: pathlib.Path) -> None:
        """The negative control of the others."""
        folder = ChangeFolder(tmp_path, FIELDS)
        steps = steps_of(folder, [(key, 1, 0) for key in "abcdef"], UPDATES, positions=False)
        with limited(0, 0), counted_reads() as counts:
            folder.read(*steps[1:], known=[1])
        assert {count for name, count in counts.items() if ".parquet" in name} == {len(UPDATES)}

    def test_a_state_is_not_shared_with_one_of_other_logs(self, tmp_path: pathlib.Path) -> None:
        """The same blocks count in both, but their file is the second log of the later state: the first is of an
        instant that is not visible, and as long."""
        folder = ChangeFolder(tmp_path, FIELDS)
        base = folder.base(1, [row(1, place, key, 1, 0) for place, key in enumerate("ab")])
        hidden, third, fourth = (
            folder.log(number, slice_writer.data_block(folder.avro, [row(number, 0, key, number, 0)], instant(number)))
            for number, key in ((2, "a"), (3, "a"), (4, "a"))
        )
        assert hidden.size_bytes == third.size_bytes

        def state(*logs: FileRef) -> SliceFiles:
            return SliceFiles(base.base, base.base_instant, logs)

        steps: Steps = [
            (3, ComparedStates(state(), state(third))),
            (4, ComparedStates(state(hidden, third), state(hidden, third, fourth))),
        ]
        known = [1, 3, 4]
        expected = pa.concat_tables([folder.read(step, known=known) for step in steps])
        with limited(0, 0, 0):
            assert folder.read(*steps, known=known).equals(expected)

    def test_fewer_steps_share_rows_that_do_not_fit(self, tmp_path: pathlib.Path) -> None:
        folder = ChangeFolder(tmp_path, FIELDS)
        steps = steps_of(folder, [(key, 1, 0) for key in "abcdef"], UPDATES, positions=False)
        with limited(400, 1 << 20), counted_reads() as counts:
            folder.read(*steps[1:], known=[1])
        (count,) = {count for name, count in counts.items() if ".parquet" in name}
        assert 1 < count < len(UPDATES)


class TestDamage:
    """Errors come where they came when each step was read by itself."""

    def test_damaged_later_log_is_the_error_of_its_own_step(self, tmp_path: pathlib.Path) -> None:
        folder = ChangeFolder(tmp_path, FIELDS)
        steps = steps_of(folder, [(key, 1, 0) for key in "abcdef"], UPDATES[:3], positions=False)
        last = steps[-1][1]
        assert isinstance(last, ComparedStates)
        assert last.after is not None
        log = tmp_path / last.after.logs[-1].path
        whole = folder.read(*steps[:-1])
        log.write_bytes(log.read_bytes()[:-30] + b"x" * 30)
        seen = []
        with pytest.raises(CorruptBlock, match=log.name):
            for batch in folder.batches(*steps):
                seen.append(batch)
        assert pa.Table.from_batches(seen).equals(whole)

    @pytest.mark.parametrize("place", [2, 3])
    def test_record_at_a_wrong_position(self, tmp_path: pathlib.Path, place: int) -> None:
        """In a later step, which sees selected base rows alone: at the row of another changed key, or of no such."""
        folder = ChangeFolder(tmp_path, FIELDS)
        base = folder.base(1, [row(1, place, key, 1, 0) for place, key in enumerate("abcd")])
        logs: list[FileRef] = []
        steps: Steps = []
        for number, (key, at) in enumerate([("a", 0), ("b", place), ("c", 2)], 2):
            positions = (base.base_instant, [at])
            block = slice_writer.data_block(
                folder.avro, [row(number, 0, key, 9, 0)], instant(number), positions=positions
            )
            before = SliceFiles(base.base, base.base_instant, tuple(logs))
            logs.append(folder.log(number, block))
            steps.append((number, ComparedStates(before, SliceFiles(base.base, base.base_instant, tuple(logs)))))
        for chosen in (steps, steps[1:]):
            with pytest.raises(CorruptBlock, match="a record's key is not the row's"):
                folder.read(*chosen, known=[1, 2])
