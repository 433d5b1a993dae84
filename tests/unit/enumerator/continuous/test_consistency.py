"""Late, missing and replaced instants, and the move of a progress to another layout."""

from __future__ import annotations

import pytest

from penstock.enumerator.continuous.consistency import (
    just_before,
    missing_instants,
    moved_to_layout,
    progress_at,
    refuse_archived_late,
    refuse_invalidated,
    refuse_late,
)
from penstock.enumerator.continuous.round_limits import data_instants_after
from penstock.enumerator.continuous.types import Progress
from penstock.proto.errors import DataInvalidated, LateInstant
from penstock.proto.model.positions import EARLIEST, InstantTime
from tests.scripted_facts import at, facts, stat

T = InstantTime
KNOWN = facts(
    ("10_11.commit", "INSERT", [stat("a"), stat("b")], []),
    ("15_25.commit", "COMPACT", [stat("a")], []),
    ("20_31.commit", "UPSERT", [stat("a")], []),
)


def progress(key: str, *consumed: str, layout: int = 2, ahead: tuple[str, ...] = ()) -> Progress:
    return Progress(at(key), layout, frozenset(map(T, consumed)), frozenset(map(T, ahead)), "t")


def test_progress_holds_consumed_instants_without_services() -> None:
    assert progress_at(KNOWN, at("25"), None, 2).consumed == {"10"}
    assert progress_at(KNOWN, at("31"), None, 2).consumed == {"10", "20"}
    assert progress_at(KNOWN, at("11", 1), None, 2).consumed == {"10"}
    assert progress_at(KNOWN, at("11", 0), None, 2).consumed == frozenset()


def test_progress_keeps_the_newest_consumed_instant_after_archival() -> None:
    assert progress_at(KNOWN, at("05"), progress("05", "02", "03"), 2).consumed == {"03"}
    assert progress_at(KNOWN, at("31"), progress("05", "02", "03"), 2).consumed == {"10", "20"}


def test_fault_14_late_instant_is_reported_with_both_order_keys() -> None:
    refuse_late(KNOWN, progress("31", "10", "20"))
    refuse_late(KNOWN, progress("11", "10"))
    with pytest.raises(LateInstant, match=r"instant 20 of table t .* order key 31, at or before position 40"):
        refuse_late(KNOWN, progress("40", "10"))
    refuse_late(KNOWN, progress("40", "10", ahead=("20",)))
    refuse_late(KNOWN, Progress(EARLIEST, 2))


def test_fault_13_consumed_instant_that_is_neither_active_nor_archived_is_refused() -> None:
    assert missing_instants(KNOWN, progress("31", "10", "20")) == frozenset()
    removed = missing_instants(KNOWN, progress("31", "08", "10", "20"))
    assert removed == {"08"}
    refuse_invalidated(KNOWN, progress("31", "08"), removed, {"08"}, "t")
    with pytest.raises(DataInvalidated, match=r"instant 08 of table t was consumed .* neither active nor archived"):
        refuse_invalidated(KNOWN, progress("31", "08"), removed, set(), "t")
    with pytest.raises(DataInvalidated, match=r"it is another table now \(u, it was t\)"):
        refuse_invalidated(KNOWN, progress("31", "08"), removed, set(), "u")


def test_fault_13_consumed_instant_that_is_pending_again_is_refused() -> None:
    again = facts(("10_11.commit", "INSERT", [stat("a")], []), ("20.inflight", "", [], []))
    result = progress("31", "10", "20")
    with pytest.raises(DataInvalidated, match="pending again"):
        refuse_invalidated(again, result, missing_instants(again, result), set(), "t")


UPGRADED = facts(
    ("10_90.commit", "INSERT", [stat("a")], []),
    ("20_30.commit", "INSERT", [stat("b")], []),
    ("30_40.commit", "INSERT", [stat("c")], []),
    ("40_50.commit", "INSERT", [stat("d")], []),
)


def left(result: Progress) -> list[str]:
    unread = data_instants_after(UPGRADED, result.position)
    return [item.requested_time for _, items in unread for item in items if item.requested_time not in result.ahead]


@pytest.mark.parametrize(
    ("position", "consumed", "expected", "ahead"),
    [
        ("10", ["10"], "29", ["10"]),
        ("20", ["10", "20"], "30", ["10"]),
        ("30", ["10", "20", "30"], "40", ["10"]),
        ("40", ["10", "20", "30", "40"], "90", []),
    ],
)
def test_position_moves_over_an_upgrade_without_skips_or_repeats(
    position: str, consumed: list[str], expected: str, ahead: list[str]
) -> None:
    result = moved_to_layout(UPGRADED, progress(position, *consumed, layout=1), 2)
    assert (result.position, result.layout, sorted(result.ahead)) == (at(expected), 2, ahead)
    assert sorted(left(result)) == [item for item in ("10", "20", "30", "40") if item not in consumed]
    refuse_late(UPGRADED, result)


def test_position_inside_the_first_instant_stays_over_an_upgrade() -> None:
    inside = Progress(at("20", 0), 1, frozenset([T("10"), T("20")]), table_id="t")
    with pytest.raises(DataInvalidated, match="upgrade"):
        moved_to_layout(UPGRADED, Progress(at("10", 0), 1, frozenset([T("10")])), 2)
    assert moved_to_layout(UPGRADED, inside, 2).position == at("30", 0)


def test_position_stays_if_the_layout_is_the_same() -> None:
    result = progress("31", "10", "20")
    assert moved_to_layout(KNOWN, result, 2) == result


def test_just_before_is_the_previous_order_key() -> None:
    assert just_before("20260131000000000") == "20260130999999999" and just_before("010") == "009"


WHOLE = facts(
    ("02_03.commit", "INSERT", [stat("a")], []),
    ("04_09.commit", "UPSERT", [stat("a")], []),
    ("05_08.commit", "COMPACT", [stat("a")], []),
    ("06_07.commit", "UPSERT", [stat("a")], []),
    ("08_40.commit", "UPSERT", [stat("a")], []),
    ("10_11.commit", "INSERT", [stat("a"), stat("b")], []),
    ("15_25.commit", "COMPACT", [stat("a")], []),
    ("20_31.commit", "UPSERT", [stat("a")], []),
)
"""`KNOWN` with archived instants."""


@pytest.mark.parametrize("consumed", [("04", "06", "10", "20"), ("06", "10", "20"), ("10", "20")])
def test_archived_instant_is_not_late_if_consumed_or_archived_before(consumed: tuple[str, ...]) -> None:
    """A service, and an instant that completed after the position, are not late either."""
    of = progress("31", *consumed)
    refuse_archived_late(KNOWN, WHOLE, of, missing_instants(KNOWN, of))


def test_fault_14_instant_archived_between_two_rounds_is_late() -> None:
    of = progress("31", "02", "06", "10", "20")
    with pytest.raises(LateInstant, match=r"instant 04 of table t .* order key 09, at or before position 31"):
        refuse_archived_late(KNOWN, WHOLE, of, missing_instants(KNOWN, of))


def test_round_over_archived_instants_alone_makes_none_of_them_late() -> None:
    """A reader behind the archive: the progress keeps the newest instant of the round, not of the round before."""
    of = progress_at(KNOWN, at("09"), progress("03", "02"), 2, WHOLE)
    assert of.consumed == {"06"}
    refuse_archived_late(KNOWN, WHOLE, of, missing_instants(KNOWN, of))
    older = progress("09", "02")
    with pytest.raises(LateInstant, match="instant 04 of table t"):
        refuse_archived_late(KNOWN, WHOLE, older, missing_instants(KNOWN, older))


def test_instants_kept_by_a_savepoint_are_neither_tracked_nor_late() -> None:
    """`hoodie.archive.beyond.savepoint`: instants after a savepoint are archived, and no longer tracked."""
    table_facts = facts(
        ("02_03.commit", "INSERT", [stat("a")], []),
        ("02_03.savepoint", "", [], []),
        ("10_11.commit", "INSERT", [stat("a")], []),
    )
    assert table_facts.timeline.first_active == "10"
    then = progress_at(table_facts, at("11"), None, 2)
    assert then.consumed == {"10"}
    refuse_late(table_facts, then)
