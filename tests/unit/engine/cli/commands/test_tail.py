"""`penstock tail` of a group in memory to stdout: delivery, limits, temporary groups, end, signals; usage errors."""

from __future__ import annotations

import os
import pathlib
import signal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.engine.cli.output import tail_sink
from penstock.proto.errors import CorruptFile
from tests.unit.engine.cli.commands.tailed_group import NAMED, ROWS, SERVER, ids, names, refs

if TYPE_CHECKING:
    from tests.unit.engine.cli.command_line import Cli


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
        service.held = {refs(service)[0]: "other"}
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
