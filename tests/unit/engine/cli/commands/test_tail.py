"""`penstock tail` over a group in memory: what is promised of stdout and of files, ends, signals, bad input."""

from __future__ import annotations

import json
import os
import pathlib
import signal
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine.cli.output import tail_sink
from penstock.engine.cli.output.rows import RowFormat
from penstock.engine.cli.output.tail_scope import SCOPE_FILE
from penstock.engine.cli.output.tail_sink import file_name
from penstock.engine.group.lease import Runtime
from penstock.proto.errors import CorruptFile, StorageError

if TYPE_CHECKING:
    from tests.unit.engine.cli.command_line import Cli

SERVER = ("--server", "127.0.0.1:7070")
NAMED = (*SERVER, "--group", "g", "--reader-id", "r")


class Beats:
    """No thread: the clock stands."""

    def __init__(self, beat: object, pause_s: float) -> None:
        pass

    def stop(self) -> None:
        pass


@pytest.fixture
def door(group: Any, clock: Any, reading: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The group in memory behind any server; no reader waits or beats in real time."""
    around = Runtime(now_ms=clock.now_ms, wait=clock.wait, start_heartbeat=Beats)
    monkeypatch.setattr(
        "penstock.engine.group.connect.open_group_enumerator", lambda server, access: nullcontext(group)
    )
    monkeypatch.setattr("penstock.engine.group.reader.Runtime", lambda: around)
    return group


def ids(stdout: bytes) -> list[int]:
    return [json.loads(line)["id"] for line in stdout.splitlines()]


ROWS = [*range(25), *range(10)]


class TestStdout:
    """At least once."""

    def test_every_row_is_printed_and_committed(self, cli: Cli, door: Any) -> None:
        ended = cli("tail", "trips", *NAMED, "--exit-at-end")
        assert (ended.code, ended.stderr) == (0, "")
        assert ids(ended.stdout) == ROWS
        assert door.committed() == {"a": (25, True), "b": (0, True), "c": (10, True)}
        assert door.named("leave")
        assert not door.named("delete")
        assert ids(cli("tail", "trips", *NAMED, "--exit-at-end").stdout) == []

    def test_a_batch_is_committed_after_its_lines(self, cli: Cli, door: Any, capsysbinary: Any) -> None:
        printed: list[int] = []
        real = door.commit_splits

        def commit(member: Any, done: Any) -> None:
            printed.append(len(capsysbinary.readouterr().out.splitlines()))
            real(member, done)

        door.commit_splits = commit
        cli("tail", "trips", *NAMED, "--exit-at-end")
        assert printed[:3] == [10, 10, 5]

    def test_lines_are_flushed_before_the_commit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told: list[str] = []
        stream = SimpleNamespace(write=lambda data: told.append("write"), flush=lambda: told.append("flush"))
        monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=stream))
        consumer: Any = SimpleNamespace(commit=lambda batch: told.append("commit"))
        batch: Any = SimpleNamespace(batch=pa.record_batch({"id": [1]}))
        assert tail_sink.RowsOnStdout(consumer).take(batch) == 1
        assert told == ["write", "flush", "commit"]

    def test_uncommitted_rows_are_printed_again(self, cli: Cli, door: Any) -> None:
        real, tries = door.commit_splits, []

        def commit(member: Any, done: Any) -> None:
            tries.append(done)
            if len(tries) == 2:
                raise CorruptFile("killed here")
            real(member, done)

        door.commit_splits = commit
        first = cli("tail", "trips", *NAMED, "--exit-at-end")
        assert (first.code, ids(first.stdout)) == (3, ROWS[:20])
        second = cli("tail", "trips", *NAMED, "--exit-at-end")
        assert ids(second.stdout) == ROWS[10:]

    def test_tail_ends_with_its_group(self, cli: Cli, door: Any) -> None:
        door.ends = True
        ended = cli("tail", "trips", *NAMED)
        assert (ended.code, ids(ended.stdout)) == (0, ROWS)

    def test_tail_waits_for_splits_of_other_readers(self, cli: Cli, door: Any, clock: Any) -> None:
        door.held = {_refs(door)[0]: "other"}
        door.renewed["other"] = clock.now
        ended = cli("tail", "trips", *NAMED, "--exit-at-end")
        assert (ended.code, ids(ended.stdout)) == (0, ROWS[25:] + ROWS[:25]), "the other reader's lease ended"

    def test_tail_without_a_group_creates_and_deletes_its_own(self, cli: Cli, door: Any) -> None:
        ended = cli("tail", "trips", *SERVER, "--exit-at-end", "--from", "latest")
        assert ids(ended.stdout) == ROWS
        ((_, group, reader, _),) = door.named("join")
        assert group.startswith("tail-")
        assert reader
        kinds = [call[0] for call in door.calls]
        assert kinds.index("leave") < kinds.index("delete")

    def test_temporary_group_that_cannot_be_deleted_is_a_warning(self, cli: Cli, door: Any) -> None:
        ended = cli("tail", "trips", *SERVER, "--exit-at-end")
        assert ended.code == 0
        assert "warning: the group of this command stays on the server: no group tail-" in ended.stderr

    def test_from_is_the_start_of_a_new_group(self, cli: Cli, door: Any) -> None:
        cli("tail", "trips", *NAMED, "--exit-at-end", "--from", "20260101000000000", "--query", "cdc")
        assert str(door.spec.start.position) == "20260101000000000"
        assert type(door.spec.scope.request.query).__name__ == "Changes"

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_signal_ends_tail_cleanly(self, cli: Cli, door: Any, clock: Any, number: int) -> None:
        clock.on_wait = lambda: os.kill(os.getpid(), number)
        before = signal.getsignal(number)
        ended = cli("tail", "trips", *NAMED)
        assert (ended.code, ids(ended.stdout), ended.stderr) == (0, ROWS, "")
        assert door.named("leave")
        assert signal.getsignal(number) == before


def _refs(door: Any) -> Any:
    from penstock.proto.model.groups import SplitRef

    return [SplitRef(plan, index) for plan, splits in door.rounds.items() for index in range(len(splits))]


class TestFiles:
    """Exactly once."""

    @pytest.mark.parametrize("form", ["parquet", "jsonl"])
    def test_each_split_is_one_file(self, cli: Cli, door: Any, tmp_path: pathlib.Path, form: str) -> None:
        folder = tmp_path / "out"
        ended = cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", folder, "--format", form)
        assert (ended.code, ended.stdout, ended.stderr) == (0, b"", "")
        assert rows_of(folder) == {f"a.{form}": ROWS[:25], f"c.{form}": ROWS[25:]}
        assert [len(call[2]) for call in door.named("commit")] == [1, 2], "a; c with the one without rows"

    def test_split_is_committed_after_its_file_is_written(self, cli: Cli, door: Any, tmp_path: pathlib.Path) -> None:
        there: list[list[str]] = []
        real = door.commit_splits
        door.commit_splits = lambda member, done: (there.append(names(tmp_path)), real(member, done))[1]
        cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert there[0] == ["a.parquet"]
        assert there[-1] == ["a.parquet", "c.parquet"]

    def test_file_written_before_a_crash_is_committed_and_not_written_again(
        self, cli: Cli, door: Any, reading: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = tail_sink.sync_folder

        def killed(folder: pathlib.Path) -> None:
            real(folder)
            raise CorruptFile("killed here")

        monkeypatch.setattr(tail_sink, "sync_folder", killed)
        assert cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path).code == 3
        assert door.committed() == {}
        (written,) = names(tmp_path)
        stamp = (tmp_path / written).stat().st_mtime_ns
        monkeypatch.setattr(tail_sink, "sync_folder", real)
        assert cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path).code == 0
        assert rows_of(tmp_path) == {"a.parquet": ROWS[:25], "c.parquet": ROWS[25:]}
        assert (tmp_path / written).stat().st_mtime_ns == stamp, "it was not written again"
        assert all(finished for _, finished in door.committed().values())

    @pytest.mark.parametrize("at", [0, 10, 20])
    def test_crash_within_a_split_leaves_no_file(
        self, cli: Cli, door: Any, reading: Any, tmp_path: pathlib.Path, at: int
    ) -> None:
        reading.fails = {("a", at): CorruptFile("one"), ("b", 0): CorruptFile("x")}
        real = reading.read

        def failing(*given: Any, **named: Any) -> Any:
            if at:
                reading.fails[("a", at)] = CorruptFile("again")
            return real(*given, **named)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("penstock.engine.group.reader.read_split", failing)
            ended = cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert ended.code == 3
        assert names(tmp_path) == []
        assert door.committed() == {}
        reading.fails = {}
        assert cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path).code == 0
        assert rows_of(tmp_path) == {"a.parquet": ROWS[:25], "c.parquet": ROWS[25:]}

    def test_failed_commit_is_repeated_by_the_next_run(self, cli: Cli, door: Any, tmp_path: pathlib.Path) -> None:
        real = door.commit_splits
        door.commit_splits = lambda member, done: (_ for _ in ()).throw(StorageError("down"))
        ended = cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert ended.code == 1, "fenced: nobody answered for longer than the lease"
        door.commit_splits = real
        assert cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path).code == 0
        assert rows_of(tmp_path) == {"a.parquet": ROWS[:25], "c.parquet": ROWS[25:]}

    def test_group_with_a_partly_committed_split_is_refused(self, cli: Cli, door: Any, tmp_path: pathlib.Path) -> None:
        door.ordinals = {_refs(door)[0]: 10}
        ended = cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert ended.code == 2
        assert "split a starts at row 10" in ended.stderr
        assert names(tmp_path) == []

    def test_signal_within_a_split_leaves_no_file(
        self, cli: Cli, door: Any, reading: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = reading._batches

        def batches(*given: Any) -> Any:
            for number, batch in enumerate(real(*given)):
                if number == 1:
                    os.kill(os.getpid(), signal.SIGTERM)
                yield batch

        monkeypatch.setattr(reading, "_batches", batches)
        ended = cli("tail", "trips", *NAMED, "--output-dir", tmp_path)
        assert (ended.code, names(tmp_path)) == (0, [])
        assert door.committed() == {}
        assert door.named("leave")

    @pytest.mark.parametrize(
        ("changed", "setting"),
        [
            (("--where", "id < 3"), 'where was not given, is "id < 3"'),
            (("--columns", "id"), 'columns was not given, is ["id"]'),
            (("--format", "jsonl"), 'format was "parquet", is "jsonl"'),
            (("--query", "cdc"), 'query was "incremental", is "cdc"'),
            (("--on-corrupt", "skip"), 'onCorrupt was not given, is "skip"'),
            (("--split-bytes", "1"), "splitBytes was 134217728, is 1"),
        ],
    )
    def test_folder_of_another_scope_is_refused_without_a_commit(
        self, cli: Cli, door: Any, tmp_path: pathlib.Path, changed: tuple[str, ...], setting: str
    ) -> None:
        """A group that is deleted and made anew with another filter: its rows would be missing from the folder."""
        command = ("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert cli(*command).code == 0
        _make_group_anew(door)
        ended = cli(*command, *changed)
        assert (ended.code, ended.stdout) == (2, b"")
        assert "written with other settings" in ended.stderr and setting in ended.stderr
        assert "Give another folder" in ended.stderr
        assert not door.named("join") and not door.committed()
        assert cli(*command).code == 0, "the settings of before go on"
        assert rows_of(tmp_path) == {"a.parquet": ROWS[:25], "c.parquet": ROWS[25:]}
        assert all(finished for _, finished in door.committed().values())

    def test_folder_of_another_table_is_refused(self, cli: Cli, door: Any, tmp_path: pathlib.Path) -> None:
        assert cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path).code == 0
        ended = cli("tail", "orders", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert ended.code == 2
        assert 'table was "trips", is "orders"' in ended.stderr

    def test_folder_without_a_scope_file_is_adopted_with_a_warning(
        self, cli: Cli, door: Any, tmp_path: pathlib.Path
    ) -> None:
        command = ("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert cli(*command).code == 0
        (tmp_path / SCOPE_FILE).unlink()
        _make_group_anew(door)
        ended = cli(*command)
        assert (ended.code, ended.stdout) == (0, b"")
        assert "an earlier release wrote files there" in ended.stderr
        assert cli(*command).stderr == "", "it is recorded now"
        assert cli(*command, "--where", "id < 3").code == 2

    @pytest.mark.parametrize("form", ["parquet", "jsonl"])
    def test_existing_file_with_another_number_of_rows_is_refused(
        self, cli: Cli, door: Any, tmp_path: pathlib.Path, form: str
    ) -> None:
        """Written by a release without records, with another filter."""
        if form == "parquet":
            pq.write_table(pa.table({"id": range(24)}), tmp_path / "a.parquet")
        else:
            (tmp_path / "a.jsonl").write_text('{"id": 1}\n' * 24)
        ended = cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path, "--format", form)
        assert ended.code == 2
        assert "the file of split a has 24 rows of columns id, expected 25 of id" in ended.stderr
        assert door.committed() == {}

    def test_existing_file_with_other_columns_is_refused(self, cli: Cli, door: Any, tmp_path: pathlib.Path) -> None:
        pq.write_table(pa.table({"id": range(25), "more": range(25)}), tmp_path / "a.parquet")
        ended = cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert ended.code == 2
        assert "has 25 rows of columns id, more, expected 25 of id" in ended.stderr

    @pytest.mark.parametrize(
        "record", ["", "[]", "{}", '{"version": 1, "scope": {"table": "trips"}, "digest": "x"}', "[" * 10_000]
    )
    def test_damaged_scope_file_is_an_error(self, cli: Cli, door: Any, tmp_path: pathlib.Path, record: str) -> None:
        (tmp_path / SCOPE_FILE).write_text(record)
        ended = cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert (ended.code, door.named("join")) == (2, [])
        assert SCOPE_FILE in ended.stderr

    def test_file_names_are_safe_and_unique_per_split_id(self) -> None:
        split_ids = [
            "a",
            "A/b",
            "../../etc",
            ".",
            "..",
            ".hidden",
            "ü:1",
            "x" * 500,
            "x" * 501,
            "a%2Fb",
            "a/b",
            "-",
            " ",
            "\0",
        ]
        files = [file_name(each, RowFormat.PARQUET) for each in split_ids]
        assert len(set(files)) == len(split_ids)
        for name in files:
            stem = name.removesuffix(".parquet")
            assert stem
            assert not set(stem) & set('/\\:*?"<>|\0. ')
            assert len(name) < 255
        assert file_name("0123abc", RowFormat.JSONL) == "0123abc.jsonl"


def _make_group_anew(door: Any) -> None:
    """As `groups delete`, and the first join after it."""
    for kept in (door.ordinals, door.reports, door.held, door.epochs, door.renewed, door.joins):
        kept.clear()
    door.spec = None
    door.calls.clear()


def names(folder: pathlib.Path) -> list[str]:
    """Hidden files count too, but for the record of the scope."""
    return sorted(path.name for path in folder.iterdir() if path.name != SCOPE_FILE)


def rows_of(folder: pathlib.Path) -> dict[str, list[int]]:
    """Ids by file; hidden files count too."""
    found = {}
    for path in (folder / name for name in names(folder)):
        if path.suffix == ".parquet":
            found[path.name] = pq.read_table(path).column("id").to_pylist()
        else:
            found[path.name] = ids(path.read_bytes())
    return found


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--exit-at-end", "--group", "g"), "--group without --server"),
        ((*NAMED, "--format", "parquet"), "--format parquet needs --output-dir"),
        ((*NAMED, "--format", "table"), "'table' is not one of"),
        ((*SERVER, "--output-dir", "out"), "--output-dir without --group"),
        ((*NAMED, "--output-dir", "no/such/folder"), "--output-dir no/such/folder: No such file or directory"),
        ((*SERVER, "--group", ""), "`group`: got nothing"),
        ((*SERVER, "--group", "a b"), "group 'a b': expected letters"),
        ((*SERVER, "--reader-id", "é"), "reader id 'é': expected letters"),
        ((*NAMED, "--limit", "3"), "No such option"),
        ((*NAMED, "--from", "soon"), "got 'soon'"),
        ((*NAMED, "--query", "snapshot"), "query=snapshot cannot be consumed by a group"),
        ((*NAMED, "--upto", "latest"), "upto=latest"),
        ((*NAMED, "--max-splits", "0"), "option --max-splits"),
        ((*NAMED, "--on-lost-range", "ignore"), "expected one of fail, earliest, snapshot"),
        ((*NAMED, "--option", "grup=x"), "did you mean group"),
    ],
)
def test_tail_usage_errors(
    cli: Cli, arguments: tuple[str, ...], told: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = cli("tail", "trips", *arguments)
    assert ended.code == 2
    assert told in ended.stderr
    assert ended.stdout == b""
    assert names(tmp_path) == []
