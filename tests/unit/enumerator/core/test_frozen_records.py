"""Records as version 1 of the core wrote them: what they must mean for ever.

To freeze another version: add its values under a new number, run this file as a script with that number, commit the
file that it writes. Files are never changed.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import get_args

import pytest

from penstock.enumerator.core import records as rec
from penstock.enumerator.core.codec import VERSION, decode_record, encode_record
from penstock.enumerator.core.facts import facts_of, sizes_alone
from penstock.enumerator.store.protocol import StoredRecord
from penstock.enumerator.watch.values import Progress
from penstock.proto.changes import ChangeFormat
from penstock.proto.errors import StateVersionError
from penstock.proto.groups import GroupScope, OnLostRange
from penstock.proto.positions import EARLIEST, CommitRange, InstantTime, Position
from penstock.proto.queries import Changes, PlanRequest, RoundLimits

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "state"

KEY = rec.GroupKey("städte", "g/1")
INSIDE = Position(InstantTime("20261120233746299"), 3)
PROGRESS = Progress(
    INSIDE,
    layout=2,
    consumed=frozenset({InstantTime("20261120233746001"), InstantTime("20261120233746002")}),
    ahead=frozenset({InstantTime("20261120233746002")}),
    table_id="städte",
)
REQUEST = PlanRequest(table="städte", query=Changes(ChangeFormat.ROWS), columns=("id",), where="id > 'ä'")
SCOPE = GroupScope(request=REQUEST, upto=INSIDE, on_lost_range=OnLostRange.EARLIEST)

FROZEN: dict[int, tuple[rec.Durable, ...]] = {
    1: (
        rec.NumbersUsed(7),
        rec.GroupCreated(
            key=KEY, number=3, scope=SCOPE, limits=RoundLimits(max_commits=1, max_rows=9), progress=PROGRESS
        ),
        rec.RoundPlanned(
            key=KEY,
            plan_id="r1",
            commit_range=CommitRange(EARLIEST, INSIDE),
            progress=PROGRESS,
            facts=facts_of([(10, "p", "a"), (2**40, "", "b")]),
            reshaped=frozenset({-5, 2**62}),
            commits=2,
        ),
        rec.ReaderJoined(key=KEY, reader_id="r", epoch=4, request_id="x"),
        rec.SplitsAssigned(key=KEY, reader_id="r", sequence=1, splits=(("r1", 0), ("r1", 1))),
        rec.SplitsCommitted(key=KEY, ordinals=(("r1", 1, 99),), finished=(("r1", 0),)),
        rec.ReaderGone(key=KEY, reader_id="r", cause=rec.Gone.EXPIRED),
        rec.GroupStopped(key=KEY, code="LATE_INSTANT", text="instant 5 is late"),
        rec.GroupMoved(key=KEY, number=5, progress=Progress(EARLIEST), cause=rec.Moved.RESET, behind=INSIDE),
        rec.GroupEnded(key=KEY),
        rec.GroupDeleted(KEY),
        rec.PlanOpened(
            plan_id="p", request_id="q", table="städte", query="Snapshot", facts=sizes_alone([1, 2]), slots=2
        ),
        rec.SlotsAsked("p", (0, 1, 0)),
        rec.PlansForgotten(("p",)),
    )
}
"""Version -> what its frozen file must give."""


def frozen(version: int) -> list[StoredRecord]:
    """The records of a frozen file."""
    told = json.loads((FIXTURES / f"records.v{version}.json").read_text(encoding="utf-8"))
    return [StoredRecord(one["kind"], one["version"], one["payload"].encode()) for one in told]


@pytest.mark.parametrize("version", sorted(FROZEN))
def test_fault_32_frozen_records_mean_what_they_meant(version: int) -> None:
    assert tuple(map(decode_record, frozen(version))) == FROZEN[version]


def test_fault_32_every_kind_of_every_version_is_frozen() -> None:
    assert sorted(FROZEN) == list(range(1, VERSION + 1))
    assert {type(one) for one in FROZEN[VERSION]} == set(get_args(rec.Durable))


def test_fault_32_todays_records_are_of_the_newest_frozen_form() -> None:
    assert [
        encode_record(one) for one in FROZEN[VERSION] if not isinstance(one, rec.RoundPlanned | rec.PlanOpened)
    ] == [one for one in frozen(VERSION) if one.kind not in ("round-planned", "plan-opened")], (
        "but for compressed facts, whose bytes another zlib may write otherwise"
    )


@pytest.mark.parametrize(("kind", "version"), [("numbers", 2), ("group-renamed", 1)])
def test_fault_32_newer_records_are_refused_by_name(kind: str, version: int) -> None:
    with pytest.raises(StateVersionError, match=rf"{kind}' of version {version}: this build knows version 1"):
        decode_record(StoredRecord(kind, version, b"{}"))


if __name__ == "__main__":
    number = int(sys.argv[1])
    lines = [
        {"kind": one.kind, "version": one.version, "payload": one.payload.decode()}
        for one in map(encode_record, FROZEN[number])
    ]
    (FIXTURES / f"records.v{number}.json").write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
