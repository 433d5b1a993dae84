"""Instants of a table: in pages of any size those of its path, by as_of, from servers that are hostile or broken."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

import penstock
from penstock.engine import instants
from penstock.engine.instants import list_instants
from penstock.enumerator.server.run import serve
from penstock.errors import ConfigurationError, FormatError
from penstock.proto.enumerator import Enumerator
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.reports import TimelineInstant, TimelinePage
from penstock.proto.options.registry import ParsedOptions
from penstock.proto.retry import Retry, RetryPolicy

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

LAYOUTS = {2: "A_fuzz_event_long_s1_v9_h120", 1: "B_v6_inc_mor"}
ONCE = Retry(policy=RetryPolicy(attempts=1))


@contextmanager
def served(table: pathlib.Path, **options: Any) -> Iterator[penstock.Table]:
    """The table by its name at a server."""
    with serve({"orders": str(table)}, "127.0.0.1:0") as server:
        yield penstock.open_table("orders", server=server.address, **options)


@pytest.mark.golden
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [1, 2, 5_000])
def test_served_instants_are_those_of_the_path_in_pages_of_any_size(
    golden: GoldenTables, monkeypatch: pytest.MonkeyPatch, layout: int, size: int
) -> None:
    monkeypatch.setattr("penstock.enumerator.server.rpc.handlers.MAX_INSTANTS", size)
    path = golden.table(LAYOUTS[layout])
    expected = penstock.open_table(path, timeline_timezone="Europe/Oslo").timeline()
    assert len(expected) > 3 and any(instant.requested_at for instant in expected)
    with served(path, timeline_timezone="Europe/Oslo") as table:
        assert table.timeline() == expected
        middle = expected[len(expected) // 2]
        for at in (middle.requested_time, middle.requested_at):
            assert at is not None
            then = table.as_of(at).timeline()
            assert then == penstock.open_table(path, timeline_timezone="Europe/Oslo").as_of(at).timeline()
            assert then == tuple(one for one in expected if one.requested_time <= middle.requested_time) != expected
        assert table.as_of(datetime(1999, 1, 1, tzinfo=UTC)).timeline() == ()
        assert table.as_of(datetime.now(UTC) + timedelta(days=99_999)).timeline() == expected


@pytest.mark.golden
def test_pending_instants_have_no_order_key(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    path = golden.copy(LAYOUTS[2], tmp_path)
    before = penstock.open_table(path).timeline()
    (path / ".hoodie" / "timeline" / "20991231235959999.deltacommit.requested").touch()
    with served(path) as table:
        *others, pending = table.timeline()
    assert (pending.state, pending.order_key, pending.completion_time) == ("requested", None, None)
    assert tuple(others) == before and all(one.order_key == one.completion_time for one in others)


@pytest.mark.golden
def test_broken_timeline_is_the_error_of_its_table_only(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    sound, broken = golden.table(LAYOUTS[1]), golden.copy(LAYOUTS[2], tmp_path)
    with serve({"sound": str(sound), "broken": str(broken)}, "127.0.0.1:0") as server:
        tables = {name: penstock.open_table(name, server=server.address) for name in ("sound", "broken")}
        expected = penstock.open_table(sound).timeline()
        (broken / ".hoodie" / "timeline" / "20991231235959999.vandalism").touch()
        with pytest.raises(FormatError, match="unknown action: got 'vandalism'"):
            tables["broken"].timeline()
        assert tables["sound"].timeline() == expected


def page(*times: str, more: bool) -> TimelinePage:
    return TimelinePage(
        instants=tuple(
            TimelineInstant(
                requested_time=InstantTime(at), completion_time=None, action="commit", state="completed", file=f"{at}.x"
            )
            for at in times
        ),
        timeline_timezone="UTC",
        more=more,
    )


class Endless:
    """An enumerator whose list never ends. It records the bounds of its calls."""

    def __init__(self) -> None:
        self.bounds: list[tuple[str, str, int]] = []

    def list_instants(self, table: str, *, after: str, as_of: str, max_instants: int) -> TimelinePage:
        self.bounds.append((after, as_of, max_instants))
        return page(f"{int(after or 0) + 1:09d}", f"{int(after or 0) + 2:09d}", more=True)


def listed(enumerator: object, **options: Any) -> list[str]:
    found = list_instants(cast("Enumerator", enumerator), "t", replace(ParsedOptions(), **options), ONCE)
    return [instant.requested_time for instant in found]


def test_list_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instants, "MAX_INSTANTS", 5)
    endless = Endless()
    with pytest.raises(ConfigurationError, match="table t: more than 5 instants"):
        listed(endless)
    assert [after for after, _, _ in endless.bounds] == ["", "000000002", "000000004"]


def test_digits_as_of_are_sent_as_they_are_and_times_in_the_zone_of_the_timeline() -> None:
    class OnePage(Endless):
        def list_instants(self, table: str, *, after: str, as_of: str, max_instants: int) -> TimelinePage:
            super().list_instants(table, after=after, as_of=as_of, max_instants=max_instants)
            return page("001", more=False)

    one = OnePage()
    assert listed(one, as_of="20260131235959999") == listed(one, as_of="2026-01-31T23:59:59.999Z") == ["001"]
    day = "20260131235959999"
    assert one.bounds == [("", day, 0), ("", "", 1), ("", day, 0)]
