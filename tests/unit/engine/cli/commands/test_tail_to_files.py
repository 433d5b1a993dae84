"""`penstock tail` of a group in memory to files: each row exactly once, crashes, signals, folders of other groups."""

from __future__ import annotations

import os
import pathlib
import signal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine.cli.output import tail_sink
from penstock.engine.cli.output.rows import RowFormat
from penstock.engine.cli.output.tail_scope import SCOPE_FILE
from penstock.engine.cli.output.tail_sink import file_name
from penstock.proto.errors import CorruptFile, StorageError
from tests.unit.engine.cli.commands.tailed_group import NAMED, ROWS, names, refs, rows_of

if TYPE_CHECKING:
    from tests.unit.engine.cli.command_line import Cli


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
        service.ordinals = {refs(service)[0]: 10}
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
