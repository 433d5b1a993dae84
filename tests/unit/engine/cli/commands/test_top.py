"""`penstock top`: a frame, JSON, and the status of groups over gRPC."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.engine.cli.commands import top as command
from penstock.engine.cli.commands.top import COLUMNS, amount, frame, moment, span, status_fields
from penstock.engine.consumer import Consumer
from penstock.enumerator.server.run import RunningServer, serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.codec.server_status import MAX_TABLE_ERROR_CHARS, status_from_message, status_to_message
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.catalogs import CatalogStatus
from penstock.proto.model.groups import GroupAlignment, GroupLag, GroupStatus, GroupSummary, ServerStatus, TableStatus
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.server_status import StreamState, StreamStatus
from penstock.proto.v1 import penstock_pb2 as pb

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables
    from tests.unit.engine.cli.command_line import Cli

V9 = "A_merge_event_long_v9_h120"
GROUP = GroupStatus(
    summary=GroupSummary(table="t[red]x", group="g", state="running", committed=EARLIEST, planned=EARLIEST, readers=2),
    pending_splits=3,
    held_splits=1,
    lag=GroupLag(commits=4, size_bytes=3 << 20, seconds=240.0, loss_commits=9),
    issued_ms=1_700_000_000_000,
    rows=70,
    size_bytes=900,
    finished_splits=5,
    expired_splits=1,
    fenced=2,
    rows_per_second=12.5,
    bytes_per_second=2048.0,
    lag_age_ms=12_000,
)
STATUS = ServerStatus(
    version="1.2",
    now_ms=1_700_000_060_000,
    uptime_ms=7_200_000,
    tables=(TableStatus("t[red]x"), TableStatus("other", 1_699_999_999_000)),
    groups=(GROUP,),
)


@pytest.fixture
def served(golden: GoldenTables) -> Iterator[tuple[RunningServer, EnumeratorService]]:
    service = EnumeratorService({"orders": str(golden.table(V9))}, poll_ms=50)
    service.start()
    with serve_enumerator(service, "127.0.0.1:0", groups=service) as server:
        yield server, service
    service.stop()


def test_long_error_of_a_table_is_truncated() -> None:
    sent = replace(STATUS, tables=(TableStatus("t", None, "CORRUPT_FILE", "x" * 5_000),))
    [received] = status_from_message(status_to_message(sent)).tables
    assert received == TableStatus("t", None, "CORRUPT_FILE", "x" * MAX_TABLE_ERROR_CHARS)


def test_lag_of_a_group_with_a_watermark_is_that_of_its_own() -> None:
    own = replace(GROUP, watermark_us=1_700_000_000_000_000)
    [timed] = frame_text(own)
    [of_stream] = frame_text(GROUP)
    assert "60.0s" in timed and "61.0s" in of_stream


def frame_text(group: GroupStatus) -> list[str]:
    """The lines of the group in a frame; a stream on its table has another watermark."""
    from rich.console import Console

    console = Console(width=400, record=True, file=io.StringIO())
    status = replace(STATUS, groups=(group,), tables=(TableStatus("t[red]x", 1_699_999_999_000),))
    console.print(frame(status, "address", 400))
    return [line for line in console.export_text().splitlines() if "t[red]x" in line]


@pytest.mark.parametrize("watermark_us", [-5, 0, 2**63 - 1])
def test_watermark_of_a_group_survives_encoding(watermark_us: int) -> None:
    sent = replace(STATUS, groups=(replace(GROUP, watermark_us=watermark_us),))
    assert status_from_message(status_to_message(sent)) == sent


def test_status_survives_encoding_and_bad_messages_are_refused() -> None:
    message = status_to_message(STATUS)
    assert status_from_message(pb.DescribeServerResponse.FromString(message.SerializeToString())) == STATUS
    message.groups[0].rows_per_second = float("nan")
    with pytest.raises(ConfigurationError, match="rows_per_second"):
        status_from_message(message)
    message.groups[0].ClearField("summary")
    with pytest.raises(ConfigurationError, match="summary"):
        status_from_message(message)


def test_alignment_shows_who_waits_and_who_is_the_lowest() -> None:
    from rich.console import Console

    def aligned(table: str, watermark_us: int | None, *, held: bool, **summary: Any) -> GroupStatus:
        return replace(
            GROUP,
            summary=replace(GROUP.summary, table=table, **summary),
            watermark_us=watermark_us,
            alignment=GroupAlignment("hours", 60_000_000, held),
        )

    fast = tuple(aligned(f"s.{number}", 90_000_000 + number, held=True, over="s.*") for number in range(6))
    slow, ended = aligned("s.slow", 1_000_000, held=False, over="s.*"), aligned("s.end", 0, held=False, state="ended")
    whole = aligned("s.*", 1_000_000, held=True, tables=8)
    stream = StreamStatus(
        table="u", name="etl", state=StreamState.HELD, committed=EARLIEST, planned=EARLIEST, alignment="hours",
        watermark_us=70_000_000,
    )  # fmt: skip
    status = replace(STATUS, groups=(whole, *fast, slow, ended), streams=(stream,))
    assert status_from_message(status_to_message(status)).groups == status.groups
    console = Console(width=400, record=True, file=io.StringIO())
    console.print(frame(status, "address", 400))
    text = console.export_text()
    assert (
        "alignment hours: 7 wait (s.0 g, s.1 g, s.2 g, s.3 g, s.4 g, …); the lowest is s.slow g, at 1970-01-01" in text
    )
    assert "running waits" in text
    fields = status_fields(status)["groups"]
    assert fields[0]["alignment"]["set"] == "hours" and fields[0]["alignment"]["held"] is True  # type: ignore[index]
    nobody = replace(STATUS, groups=(slow, replace(fast[0], alignment=GroupAlignment("hours", 60_000_000, held=False))))
    assert command.alignment_lines(nobody) == [] == command.alignment_lines(STATUS)
    [unknown] = command.alignment_lines(
        replace(status, groups=(fast[0], aligned("s.new", None, held=False)), streams=())
    )
    assert unknown.endswith("the lowest is s.new g, without a watermark yet")


def test_readers_that_hold_the_cleaner_have_a_line() -> None:
    from rich.console import Console

    def held(name: str, lag: GroupLag | None, table: str = "t[red]x", tables: int = 0) -> GroupStatus:
        return replace(GROUP, summary=replace(GROUP.summary, table=table, group=name, tables=tables), lag=lag)

    lag = GroupLag(commits=4, size_bytes=1, seconds=1.0, holds_cleaner=True)
    assert GROUP.lag is not None
    stream = StreamStatus(
        table="u", name="etl", state=StreamState.RUNNING, committed=EARLIEST, planned=EARLIEST,
        lag=replace(lag, loss_seconds=5400.0),
    )  # fmt: skip
    groups = (
        held("new", lag), held("slow", replace(lag, loss_commits=2)), held("free", GROUP.lag), held("none", None),
        held("late", replace(lag, loss_commits=1)), held("all", lag, "*", tables=2),
    )  # fmt: skip
    status = replace(STATUS, groups=groups, streams=(stream, replace(stream, name="idle", lag=None)))
    console = Console(width=400, record=True, file=io.StringIO())
    console.print(frame(status, "address", 400))
    lines = [line.rstrip() for line in console.export_text().splitlines() if line.startswith("the cleaner")]
    assert (
        lines
        == command.hold_lines(status)
        == [
            "the cleaner of table t[red]x is held by group late (1 commit left), group slow (2 commits left), "
            "group new (no bound)",
            "the cleaner of table u is held by stream etl (90.0m left)",
        ]
    )
    many = replace(STATUS, groups=tuple(held(f"g{number}", lag) for number in range(6)))
    [line] = command.hold_lines(many)
    assert line.endswith("group g4 (no bound), …")
    assert command.hold_lines(STATUS) == []


def test_alignment_sets_of_one_name_of_different_callers_have_a_line_each() -> None:
    def aligned(table: str, watermark_us: int, number: int, *, held: bool) -> GroupStatus:
        summary = replace(GROUP.summary, table=table)
        return replace(
            GROUP, summary=summary, watermark_us=watermark_us, alignment=GroupAlignment("hours", None, held, number)
        )

    groups = (aligned("a", 9_000_000, 1, held=True), aligned("b", 5_000_000, 1, held=False))
    other = aligned("c", 1_000_000, 2, held=False)
    stream = StreamStatus(
        table="d", name="etl", state=StreamState.HELD, committed=EARLIEST, planned=EARLIEST, alignment="hours",
        alignment_number=2, watermark_us=70_000_000,
    )  # fmt: skip
    sent = replace(STATUS, groups=(*groups, other), streams=(stream,))
    lines = command.alignment_lines(status_from_message(status_to_message(sent)))
    assert [line.split("; the lowest is ")[0] for line in lines] == [
        "alignment hours: 1 wait (a g)",
        "alignment hours: 1 wait (d etl)",
    ]
    assert ["the lowest is b g" in lines[0], "the lowest is c g" in lines[1]] == [True, True]


def test_catalogs_are_shown_with_their_errors_and_problems() -> None:
    from rich.console import Console

    listed = CatalogStatus(catalog="lake", kind="folders", tables=7, listed_ms=1_700_000_000_000)
    problems = replace(listed, catalog="more", problem_count=3, problems=("a",))
    down = replace(listed, catalog="old", error_code="STORAGE", error="no answer")
    never = replace(down, catalog="new", tables=0, listed_ms=None)
    sent = replace(STATUS, catalogs=(listed, problems, down, never))
    status = status_from_message(status_to_message(sent))
    assert status == sent
    console = Console(width=400, record=True, file=io.StringIO())
    console.print(frame(status, "address", 400))
    text = console.export_text()
    assert "catalog lake 7 tables" in text and "catalog more has 3 problems" in text
    assert "catalog old cannot be listed: STORAGE; last listed: 2023" in text
    assert "catalog new cannot be listed: STORAGE; last listed: never" in text
    assert [each["catalog"] for each in status_fields(status)["catalogs"]] == ["lake", "more", "old", "new"]  # type: ignore[attr-defined]


@pytest.mark.golden
def test_frame_and_json_of_a_busy_server(cli: Cli, served: tuple[RunningServer, EnumeratorService]) -> None:
    server, _ = served
    with Consumer(server.address, "orders", group="audit", reader_id="r1") as reader:
        rows = 0
        for batch in reader:
            rows += batch.batch.num_rows
            if batch.end_of_split:
                break
        reader.commit()
        result = cli("top", "--server", server.address, "--format", "json")
        frame = cli("top", "--server", server.address, "--once")
    assert (result.code, frame.code) == (0, 0), (result.stderr, frame.stderr)
    (group,) = result.json["groups"]
    assert (group["table"], group["group"], group["state"], group["readers"]) == ("orders", "audit", "running", 1)
    assert (group["finished_splits"], group["rows"], group["fenced"]) == (1, rows, 0)
    assert group["rows_per_second"] > 0
    assert result.json["tables"] == [{"table": "orders", "watermark": None, "error_code": None}]
    assert re.search(r"orders +audit +running", frame.text)
    assert server.address in frame.text and "1 tables" in frame.text


@pytest.mark.golden
def test_top_needs_a_server(cli: Cli, unused_port: int) -> None:
    result = cli("top", "--once")
    assert result.code == 2 and "needs a server" in result.stderr
    assert cli("top", "--once", "--interval", "0", "--server", f"127.0.0.1:{unused_port}").code == 2


def test_top_needs_rights_on_all_tables() -> None:
    from penstock.enumerator.server.auth.acl import NEEDED, Of

    assert (NEEDED["DescribeServer"].right, NEEDED["DescribeServer"].of) == ("read", Of.GROUPS)


def test_names_are_escaped_and_numbers_abbreviated(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EnumeratorClient, "describe_server", lambda self, table: STATUS)
    text = cli("top", "--once", "--server", "127.0.0.1:1").text
    assert "t[red]x" in text
    for fragment in ("4.0m", "3.0M", "60.0s", "12", "2.0K", "other watermark 2023-11-14T22:13:19.000Z"):
        assert fragment in text, (fragment, text)


LONG = replace(GROUP, summary=replace(GROUP.summary, table="lake.of.the.sales.department", group="nightly-export-1"))


def lines_at(width: int, *groups: GroupStatus) -> list[str]:
    """The frame of these groups on a terminal of this width."""
    from rich.console import Console

    console = Console(force_terminal=True, width=width, record=True, file=io.StringIO())
    console.print(frame(replace(STATUS, groups=groups), "127.0.0.1:7070", console.width))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    return [line.strip() for line in lines]


@pytest.mark.parametrize("groups", [(GROUP,), (GROUP, LONG), ()])
def test_frame_fits_80_columns_and_counts_omitted_rows(groups: tuple[GroupStatus, ...]) -> None:
    lines = lines_at(80, *groups)
    (head,) = [line for line in lines if line.startswith("table")]
    assert head.split()[:5] == ["table", "group", "state", "lag", "age"] and "readers" in head and "pending" in head
    if groups:
        (row,) = [line for line in lines if line.startswith("t[red]x")]
        assert row.split()[:5] == ["t[red]x", "g", "running", "4.0m", "12.0s"] and "…" not in row
        assert "no room for:" in " ".join(lines) and "bytes/s" in " ".join(lines)
    if len(groups) == 2:
        (row,) = [line for line in lines if line.startswith("lake.of")]
        assert row.split()[2:5] == ["running", "4.0m", "12.0s"]  # only the name is truncated


def test_wide_terminal_shows_all_columns_and_a_narrow_one_the_most_important() -> None:
    wide, narrow = lines_at(200, GROUP, LONG), lines_at(50, GROUP)
    assert "no room for" not in " ".join(wide) and "lake.of.the.sales.department" in " ".join(wide)
    (row,) = [line for line in narrow if line.startswith("t[red]x")]
    assert row.split()[:4] == ["t[red]x", "g", "running", "4.0m"]


def test_pipe_gets_all_columns_and_full_names(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    long = replace(GROUP, summary=replace(GROUP.summary, table="t" * 150, group="g" * 150))
    monkeypatch.setattr(EnumeratorClient, "describe_server", lambda self, table: replace(STATUS, groups=(long,)))
    lines = [line.strip() for line in cli("top", "--server", "127.0.0.1:1").text.splitlines()]
    (row,) = [line for line in lines if line.startswith("t" * 150)]
    assert row.split()[:5] == ["t" * 150, "g" * 150, "running", "4.0m", "12.0s"]
    (head,) = [line for line in lines if line.startswith("table ")]
    assert head.split() == list(COLUMNS)


def test_frames_are_redrawn_until_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    calls: list[int] = []

    class EntryPoint:
        def describe_server(self, table: str = "") -> ServerStatus:
            calls.append(1)
            return STATUS

    def slept(seconds: float) -> None:
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(command.time, "sleep", slept)

    console = Console(force_terminal=True, width=160, record=True, file=io.StringIO())
    command._watch(EntryPoint(), console, "here", 1.0)  # type: ignore[arg-type]
    assert len(calls) == 3


def test_top_json_has_the_documented_fields() -> None:
    import pathlib

    page = pathlib.Path(__file__).parents[5] / "docs" / "reference" / "cli.md"
    text = page.read_text().split("`top`: `version`")[1]
    documented = set(re.findall(r"`(\w+)`", "`version`" + text.split("as in")[0]))
    fields = status_fields(STATUS)
    (group,) = fields["groups"]  # type: ignore[misc]
    assert documented == {*fields, *group, "table", "watermark"}


def test_numbers_are_abbreviated() -> None:
    assert [span(value) for value in (0.04, 119, 120, 7_300, 200_000)] == ["0.0s", "119.0s", "2.0m", "2.0h", "2.3d"]
    assert [amount(value) for value in (0, 1023, 1024, 5 << 30)] == ["0", "1023", "1.0K", "5.0G"]
    assert moment(0) == "1970-01-01T00:00:00.000Z" and moment(1 << 62) == str(1 << 62)
