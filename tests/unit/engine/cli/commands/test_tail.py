"""`penstock tail` of a group in memory: delivery to stdout and to files, end, signals, usage errors."""

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


class StoppedHeartbeat:
    """A heartbeat without a thread, because the clock of the test does not advance."""

    def __init__(self, beat: object, pause_s: float) -> None:
        pass

    def stop(self) -> None:
        pass


@pytest.fixture
def service(group: Any, clock: Any, reading: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Every server address leads to the group in memory; readers neither wait nor send heartbeats in real time."""
    runtime = Runtime(now_ms=clock.now_ms, wait=clock.wait, start_heartbeat=StoppedHeartbeat)
    monkeypatch.setattr(
        "penstock.engine.group.connect.open_group_enumerator", lambda server, access: nullcontext(group)
    )
    monkeypatch.setattr("penstock.engine.group.reader.Runtime", lambda: runtime)
    return group


def ids(stdout: bytes) -> list[int]:
    return [json.loads(line)["id"] for line in stdout.splitlines()]


ROWS = [*range(25), *range(10)]


class TestStdout:
    """Rows on stdout are delivered at least once."""

    def test_every_row_is_printed_and_committed(self, cli: Cli, service: Any) -> None:
        result = cli("tail", "trips", *NAMED, "--exit-at-end")
        assert (result.code, result.stderr) == (0, "")
        assert ids(result.stdout) == ROWS
        assert service.committed() == {"a": (25, True), "b": (0, True), "c": (10, True)}
        assert service.calls_of("leave")
        assert not service.calls_of("delete")
        assert ids(cli("tail", "trips", *NAMED, "--exit-at-end").stdout) == []

    @pytest.mark.parametrize(
        ("limit", "committed"),
        [
            (0, {}),
            (4, {}),
            (10, {"a": (10, False)}),
            (24, {"a": (20, False)}),
            (25, {"a": (25, True)}),
            (34, {"a": (25, True)}),
            (35, {"a": (25, True), "b": (0, True), "c": (10, True)}),
        ],
    )
    def test_limit_is_exact_and_batch_that_it_cuts_is_not_committed(
        self, cli: Cli, service: Any, limit: int, committed: dict[str, tuple[int, bool]]
    ) -> None:
        result = cli("tail", "trips", *NAMED, "--limit", str(limit))
        assert (result.code, result.stderr) == (0, "")
        assert ids(result.stdout) == ROWS[:limit]
        assert {split: done for split, done in service.committed().items() if done != (0, False)} == committed
        rest = ids(cli("tail", "trips", *NAMED, "--exit-at-end").stdout)
        assert rest == ROWS[sum(rows for rows, _ in committed.values()) :]

    def test_watermark_is_printed_when_it_moves(self, cli: Cli, service: Any) -> None:
        service.watermark_us = 1_700_000_000_123_999
        timed = ("--event-time", "id", "--event-time-unit", "ms", "--max-out-of-orderness", "1 second")
        result = cli("tail", "trips", *NAMED, "--exit-at-end", *timed)
        assert (result.code, result.stderr) == (0, "watermark 2023-11-14T22:13:20.123Z\n")
        assert ids(result.stdout) == ROWS
        assert service.spec.scope.rule.max_out_of_orderness_us == 1_000_000
        other = cli(
            "--quiet", "tail", "trips", *SERVER, "--group", "other", "--reader-id", "r", "--exit-at-end", *timed
        )
        assert (other.code, other.stderr) == (0, "")

    def test_limit_above_rows_waits_for_more(self, cli: Cli, service: Any) -> None:
        service.ends = True
        assert ids(cli("tail", "trips", *NAMED, "--limit", "36").stdout) == ROWS

    @pytest.mark.parametrize("arguments", [("--limit", "-1"), ("--limit", "x"), ("--limit", "3", "--output-dir", "d")])
    def test_limit_is_checked(self, cli: Cli, service: Any, arguments: tuple[str, ...]) -> None:
        result = cli("tail", "trips", *NAMED, *arguments)
        assert result.code == 2 and "--limit" in result.stderr and not service.calls_of("join")

    def test_batch_is_committed_after_its_lines(self, cli: Cli, service: Any, capsysbinary: Any) -> None:
        printed: list[int] = []
        real = service.commit_splits

        def commit(member: Any, done: Any) -> None:
            printed.append(len(capsysbinary.readouterr().out.splitlines()))
            real(member, done)

        service.commit_splits = commit
        cli("tail", "trips", *NAMED, "--exit-at-end")
        assert printed[:3] == [10, 10, 5]

    def test_lines_are_flushed_before_the_commit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        calls: list[str] = []
        stream = SimpleNamespace(write=lambda data: calls.append("write"), flush=lambda: calls.append("flush"))
        monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=stream))
        consumer: Any = SimpleNamespace(commit=lambda batch: calls.append("commit"))
        batch: Any = SimpleNamespace(batch=pa.record_batch({"id": [1]}))
        assert tail_sink.RowsOnStdout(consumer).take(batch) == 1
        assert calls == ["write", "flush", "commit"]

    def test_uncommitted_rows_are_printed_again(self, cli: Cli, service: Any) -> None:
        real, tries = service.commit_splits, []

        def commit(member: Any, done: Any) -> None:
            tries.append(done)
            if len(tries) == 2:
                raise CorruptFile("killed here")
            real(member, done)

        service.commit_splits = commit
        first = cli("tail", "trips", *NAMED, "--exit-at-end")
        assert (first.code, ids(first.stdout)) == (3, ROWS[:20])
        second = cli("tail", "trips", *NAMED, "--exit-at-end")
        assert ids(second.stdout) == ROWS[10:]

    def test_tail_ends_with_its_group(self, cli: Cli, service: Any) -> None:
        service.ends = True
        result = cli("tail", "trips", *NAMED)
        assert (result.code, ids(result.stdout)) == (0, ROWS)

    def test_tail_waits_for_splits_of_other_readers(self, cli: Cli, service: Any, clock: Any) -> None:
        service.held = {_refs(service)[0]: "other"}
        service.renewed["other"] = clock.now
        result = cli("tail", "trips", *NAMED, "--exit-at-end")
        assert (result.code, ids(result.stdout)) == (0, ROWS[25:] + ROWS[:25]), "the other reader's lease ended"

    def test_tail_without_a_group_creates_and_deletes_its_own(self, cli: Cli, service: Any) -> None:
        result = cli("tail", "trips", *SERVER, "--exit-at-end", "--from", "latest")
        assert ids(result.stdout) == ROWS
        ((_, group, reader, _),) = service.calls_of("join")
        assert group.startswith("tail-")
        assert reader
        kinds = [call[0] for call in service.calls]
        assert kinds.index("leave") < kinds.index("delete")

    def test_temporary_group_that_cannot_be_deleted_is_a_warning(self, cli: Cli, service: Any) -> None:
        result = cli("tail", "trips", *SERVER, "--exit-at-end")
        assert result.code == 0
        assert "warning: the group of this command stays on the server: no group tail-" in result.stderr

    def test_from_is_the_start_of_a_new_group(self, cli: Cli, service: Any) -> None:
        cli("tail", "trips", *NAMED, "--exit-at-end", "--from", "20260101000000000", "--query", "cdc")
        assert str(service.spec.start.position) == "20260101000000000"
        assert type(service.spec.scope.request.query).__name__ == "Changes"

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_signal_ends_tail_cleanly(self, cli: Cli, service: Any, clock: Any, number: int) -> None:
        clock.on_wait = lambda: os.kill(os.getpid(), number)
        before = signal.getsignal(number)
        result = cli("tail", "trips", *NAMED)
        assert (result.code, ids(result.stdout), result.stderr) == (0, ROWS, "")
        assert service.calls_of("leave")
        assert signal.getsignal(number) == before


def _refs(service: Any) -> Any:
    from penstock.proto.model.groups import SplitRef

    return [SplitRef(plan, index) for plan, splits in service.rounds.items() for index in range(len(splits))]


class TestFiles:
    """Files are written exactly once."""

    @pytest.mark.parametrize("form", ["parquet", "jsonl"])
    def test_each_split_is_one_file(self, cli: Cli, service: Any, tmp_path: pathlib.Path, form: str) -> None:
        folder = tmp_path / "out"
        result = cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", folder, "--format", form)
        assert (result.code, result.stdout, result.stderr) == (0, b"", "")
        assert rows_of(folder) == {f"a.{form}": ROWS[:25], f"c.{form}": ROWS[25:]}
        assert [len(call[2]) for call in service.calls_of("commit")] == [1, 2], (
            "a; then c together with the split without rows"
        )

    def test_split_is_committed_after_its_file_is_written(self, cli: Cli, service: Any, tmp_path: pathlib.Path) -> None:
        file_lists: list[list[str]] = []
        real = service.commit_splits
        service.commit_splits = lambda member, done: (file_lists.append(names(tmp_path)), real(member, done))[1]
        cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert file_lists[0] == ["a.parquet"]
        assert file_lists[-1] == ["a.parquet", "c.parquet"]

    def test_file_written_before_a_crash_is_committed_and_not_written_again(
        self, cli: Cli, service: Any, reading: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = tail_sink.sync_folder

        def killed(folder: pathlib.Path) -> None:
            real(folder)
            raise CorruptFile("killed here")

        monkeypatch.setattr(tail_sink, "sync_folder", killed)
        assert cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path).code == 3
        assert service.committed() == {}
        (written,) = names(tmp_path)
        stamp = (tmp_path / written).stat().st_mtime_ns
        monkeypatch.setattr(tail_sink, "sync_folder", real)
        assert cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path).code == 0
        assert rows_of(tmp_path) == {"a.parquet": ROWS[:25], "c.parquet": ROWS[25:]}
        assert (tmp_path / written).stat().st_mtime_ns == stamp, "it was not written again"
        assert all(finished for _, finished in service.committed().values())

    @pytest.mark.parametrize("at", [0, 10, 20])
    def test_crash_within_a_split_leaves_no_file(
        self, cli: Cli, service: Any, reading: Any, tmp_path: pathlib.Path, at: int
    ) -> None:
        reading.fails = {("a", at): CorruptFile("one"), ("b", 0): CorruptFile("x")}
        real = reading.read

        def failing(*arguments: Any, **keywords: Any) -> Any:
            if at:
                reading.fails[("a", at)] = CorruptFile("again")
            return real(*arguments, **keywords)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("penstock.engine.group.split_work.read_split", failing)
            result = cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert result.code == 3
        assert names(tmp_path) == []
        assert service.committed() == {}
        reading.fails = {}
        assert cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path).code == 0
        assert rows_of(tmp_path) == {"a.parquet": ROWS[:25], "c.parquet": ROWS[25:]}

    def test_failed_commit_is_repeated_by_the_next_run(self, cli: Cli, service: Any, tmp_path: pathlib.Path) -> None:
        real = service.commit_splits
        service.commit_splits = lambda member, done: (_ for _ in ()).throw(StorageError("down"))
        result = cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert result.code == 1, "fenced: no response for longer than the lease"
        service.commit_splits = real
        assert cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path).code == 0
        assert rows_of(tmp_path) == {"a.parquet": ROWS[:25], "c.parquet": ROWS[25:]}

    def test_group_with_a_partly_committed_split_is_refused(
        self, cli: Cli, service: Any, tmp_path: pathlib.Path
    ) -> None:
        service.ordinals = {_refs(service)[0]: 10}
        result = cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert result.code == 2
        assert "split a starts at row 10" in result.stderr
        assert names(tmp_path) == []

    def test_signal_within_a_split_leaves_no_file(
        self, cli: Cli, service: Any, reading: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = reading._batches

        def batches(*arguments: Any) -> Any:
            for number, batch in enumerate(real(*arguments)):
                if number == 1:
                    os.kill(os.getpid(), signal.SIGTERM)
                yield batch

        monkeypatch.setattr(reading, "_batches", batches)
        result = cli("tail", "trips", *NAMED, "--output-dir", tmp_path)
        assert (result.code, names(tmp_path)) == (0, [])
        assert service.committed() == {}
        assert service.calls_of("leave")

    @pytest.mark.parametrize(
        ("changed", "setting"),
        [
            (("--where", "id < 3"), 'where was not given, is "id < 3"'),
            (("--columns", "id"), 'columns was not given, is ["id"]'),
            (("--format", "jsonl"), 'format was "parquet", is "jsonl"'),
            (("--query", "cdc"), 'query was "incremental", is "cdc"'),
            (("--on-corrupt", "skip"), 'onCorrupt was not given, is "skip"'),
            (("--split-bytes", "1"), "splitBytes was 134217728, is 1"),
            (("--completion-time", "on"), 'completionTime was not given, is "on"'),
            (
                ("--completion-time", "on", "--timeline-timezone", "Europe/Oslo"),
                'completionTime was not given, is "Europe/Oslo"',
            ),
        ],
    )
    def test_folder_of_another_scope_is_refused_without_a_commit(
        self, cli: Cli, service: Any, tmp_path: pathlib.Path, changed: tuple[str, ...], setting: str
    ) -> None:
        """A group is deleted and created again with another filter: the folder would lack its rows."""
        command = ("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert cli(*command).code == 0
        _recreate_group(service)
        result = cli(*command, *changed)
        assert (result.code, result.stdout) == (2, b"")
        assert "written with other settings" in result.stderr and setting in result.stderr
        assert "Give another folder" in result.stderr
        assert not service.calls_of("join") and not service.committed()
        assert cli(*command).code == 0, "the previous settings are accepted"
        assert rows_of(tmp_path) == {"a.parquet": ROWS[:25], "c.parquet": ROWS[25:]}
        assert all(finished for _, finished in service.committed().values())

    def test_folder_of_another_table_is_refused(self, cli: Cli, service: Any, tmp_path: pathlib.Path) -> None:
        assert cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path).code == 0
        result = cli("tail", "orders", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert result.code == 2
        assert 'table was "trips", is "orders"' in result.stderr

    def test_folder_without_a_scope_file_is_adopted_with_a_warning(
        self, cli: Cli, service: Any, tmp_path: pathlib.Path
    ) -> None:
        command = ("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert cli(*command).code == 0
        (tmp_path / SCOPE_FILE).unlink()
        _recreate_group(service)
        result = cli(*command)
        assert (result.code, result.stdout) == (0, b"")
        assert "an earlier release wrote files there" in result.stderr
        assert cli(*command).stderr == "", "the scope file exists now"
        assert cli(*command, "--where", "id < 3").code == 2

    @pytest.mark.parametrize("form", ["parquet", "jsonl"])
    def test_existing_file_with_another_number_of_rows_is_refused(
        self, cli: Cli, service: Any, tmp_path: pathlib.Path, form: str
    ) -> None:
        """A release without scope files wrote the file with another filter."""
        if form == "parquet":
            pq.write_table(pa.table({"id": range(24)}), tmp_path / "a.parquet")
        else:
            (tmp_path / "a.jsonl").write_text('{"id": 1}\n' * 24)
        result = cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path, "--format", form)
        assert result.code == 2
        assert "the file of split a has 24 rows of columns id, expected 25 of id" in result.stderr
        assert service.committed() == {}

    def test_existing_file_with_other_columns_is_refused(self, cli: Cli, service: Any, tmp_path: pathlib.Path) -> None:
        pq.write_table(pa.table({"id": range(25), "more": range(25)}), tmp_path / "a.parquet")
        result = cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert result.code == 2
        assert "has 25 rows of columns id, more, expected 25 of id" in result.stderr

    @pytest.mark.parametrize(
        "record", ["", "[]", "{}", '{"version": 1, "scope": {"table": "trips"}, "digest": "x"}', "[" * 10_000]
    )
    def test_damaged_scope_file_is_an_error(self, cli: Cli, service: Any, tmp_path: pathlib.Path, record: str) -> None:
        (tmp_path / SCOPE_FILE).write_text(record)
        result = cli("tail", "trips", *NAMED, "--exit-at-end", "--output-dir", tmp_path)
        assert (result.code, service.calls_of("join")) == (2, [])
        assert SCOPE_FILE in result.stderr

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
        files = [file_name(split_id, RowFormat.PARQUET) for split_id in split_ids]
        assert len(set(files)) == len(split_ids)
        for name in files:
            stem = name.removesuffix(".parquet")
            assert stem
            assert not set(stem) & set('/\\:*?"<>|\0. ')
            assert len(name) < 255
        assert file_name("0123abc", RowFormat.JSONL) == "0123abc.jsonl"


def _recreate_group(service: Any) -> None:
    """Deletes the group, so that the next join creates it again."""
    for state in (service.ordinals, service.reports, service.held, service.epochs, service.renewed, service.joins):
        state.clear()
    service.spec = None
    service.calls.clear()


def names(folder: pathlib.Path) -> list[str]:
    """Includes hidden files except the scope file."""
    return sorted(path.name for path in folder.iterdir() if path.name != SCOPE_FILE)


def rows_of(folder: pathlib.Path) -> dict[str, list[int]]:
    """Ids by file, including hidden files."""
    rows = {}
    for path in (folder / name for name in names(folder)):
        if path.suffix == ".parquet":
            rows[path.name] = pq.read_table(path).column("id").to_pylist()
        else:
            rows[path.name] = ids(path.read_bytes())
    return rows


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--exit-at-end", "--group", "g"), "--group without --server"),
        ((*NAMED, "--format", "parquet"), "--format parquet needs --output-dir"),
        ((*NAMED, "--format", "table"), "'table' is not one of"),
        ((*SERVER, "--output-dir", "out"), "--output-dir without --group"),
        ((*NAMED, "--output-dir", "no/such/folder"), "--output-dir no/such/folder: No such file or directory"),
        ((*SERVER, "--group", ""), "`group`: got nothing"),
        ((*SERVER, "--group", "a b"), "group 'a b': expected letters"),
        ((*SERVER, "--reader-id", "é"), "reader id 'é': expected letters"),
        ((*NAMED, "--limits", "3"), "No such option"),
        ((*NAMED, "--from", "soon"), "got 'soon'"),
        ((*NAMED, "--query", "snapshot"), "query=snapshot cannot be consumed by a group"),
        ((*NAMED, "--upto", "latest"), "upto=latest"),
        ((*NAMED, "--max-splits", "0"), "option --max-splits"),
        ((*NAMED, "--on-lost-range", "ignore"), "expected one of fail, earliest, snapshot"),
        ((*NAMED, "--option", "grup=x"), "did you mean group"),
    ],
)
def test_tail_usage_errors(
    cli: Cli, arguments: tuple[str, ...], message: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli("tail", "trips", *arguments)
    assert result.code == 2
    assert message in result.stderr
    assert result.stdout == b""
    assert names(tmp_path) == []
