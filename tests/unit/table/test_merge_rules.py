"""Which settings mean which merge mode, and which are refused by name."""

from __future__ import annotations

import pytest

from penstock.proto.errors import UnsupportedFeature
from penstock.proto.splits import CommitTimeOrdering, EventTimeOrdering, MergeMode
from penstock.table.merge_rules import merge_mode, refuse_unsupported
from penstock.table.properties import TableProperties, parse_table_properties

MODEL = "org.apache.hudi.common.model."
EVENT = EventTimeOrdering(("ts",))
COMMIT = CommitTimeOrdering()
USER_STRATEGY = "11111111-2222-3333-4444-555555555555"


def _table(version: int, table_type: str = "MERGE_ON_READ", ordering: str = "ts", **settings: str) -> TableProperties:
    lines = [f"hoodie.table.name=t\nhoodie.table.version={version}\nhoodie.table.type={table_type}"]
    lines.append(f"hoodie.table.precombine.field={ordering}")
    lines += [f"hoodie.{key.replace('__', '.')}={value}" for key, value in settings.items()]
    return parse_table_properties("\n".join(lines).encode(), "/base")


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (MODEL + "DefaultHoodieRecordPayload", EVENT),
        (MODEL + "EventTimeAvroPayload", EVENT),
        (MODEL + "OverwriteWithLatestAvroPayload", COMMIT),
        ("com.uber.hoodie.common.model.OverwriteWithLatestAvroPayload", COMMIT),
        ("", EVENT),
    ],
)
def test_version_6_goes_by_payload_class(payload: str, expected: MergeMode) -> None:
    strategy = {"compaction__record__merger__strategy": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"}
    assert merge_mode(_table(6, compaction__payload__class=payload, **strategy)) == expected


def test_without_ordering_field() -> None:
    assert merge_mode(_table(6, ordering="")) == COMMIT
    default = MODEL + "DefaultHoodieRecordPayload"
    assert merge_mode(_table(6, ordering="", compaction__payload__class=default)) == EventTimeOrdering(())
    assert merge_mode(_table(9, ordering="", record__merge__mode="EVENT_TIME_ORDERING")) == EventTimeOrdering(())


@pytest.mark.parametrize("version", [8, 9])
def test_later_versions_go_by_the_stored_mode(version: int) -> None:
    assert merge_mode(_table(version, record__merge__mode="EVENT_TIME_ORDERING")) == EVENT
    assert merge_mode(_table(version, record__merge__mode="COMMIT_TIME_ORDERING")) == COMMIT


def test_version_9_mode_is_never_derived_from_the_legacy_payload() -> None:
    legacy = {"table__legacy__payload__class": MODEL + "OverwriteWithLatestAvroPayload"}
    assert merge_mode(_table(9, record__merge__mode="EVENT_TIME_ORDERING", **legacy)) == EVENT
    with pytest.raises(UnsupportedFeature, match=r"record merge mode \(none\)"):
        merge_mode(_table(9, **legacy))


@pytest.mark.parametrize(
    ("version", "settings", "named"),
    [
        (6, {"compaction__payload__class": "com.example.Mine"}, "payload class com.example.Mine"),
        (6, {"compaction__payload__class": MODEL + "AWSDmsAvroPayload"}, "AWSDmsAvroPayload"),
        (6, {"compaction__record__merger__strategy": USER_STRATEGY}, f"strategy {USER_STRATEGY}"),
        (8, {"record__merge__mode": "CUSTOM", "record__merge__strategy__id": USER_STRATEGY}, USER_STRATEGY),
        (8, {"record__merge__mode": "CUSTOM", "compaction__payload__class": "x.Y"}, "payload x.Y"),
        (8, {"record__merge__mode": "EVENT_TIME_ORDERING", "compaction__payload__class": "x.Y"}, "payload class x.Y"),
        (9, {"record__merge__mode": "CUSTOM"}, "record merge mode CUSTOM"),
        (9, {"record__merge__mode": "EVENT_TIME_ORDERING", "record__merge__strategy__id": USER_STRATEGY}, "strategy"),
        (
            9,
            {"record__merge__mode": "EVENT_TIME_ORDERING", "table__partial__update__mode": "IGNORE_DEFAULTS"},
            "partial update mode IGNORE_DEFAULTS",
        ),
        (
            9,
            {
                "record__merge__mode": "COMMIT_TIME_ORDERING",
                "record__merge__property__hoodie__payload__delete__field": "Op",
            },
            r"hoodie\.record\.merge\.property\.hoodie\.payload\.delete\.field=Op",
        ),
        (6, {"payload__delete__field": "op"}, r"hoodie\.payload\.delete\.field=op"),
    ],
)
def test_refused_by_name_on_merge_on_read_only(version: int, settings: dict[str, str], named: str) -> None:
    with pytest.raises(UnsupportedFeature, match=named) as caught:
        merge_mode(_table(version, **settings))
    assert "table /base" in str(caught.value)
    assert merge_mode(_table(version, "COPY_ON_WRITE", **settings)) == EVENT


def test_several_ordering_fields() -> None:
    with pytest.raises(UnsupportedFeature, match=r"more than one ordering field \(ts, seq\)"):
        merge_mode(_table(9, ordering="ts,seq", record__merge__mode="EVENT_TIME_ORDERING"))
    assert merge_mode(_table(9, ordering="ts,seq", record__merge__mode="COMMIT_TIME_ORDERING")) == COMMIT
    assert merge_mode(_table(9, "COPY_ON_WRITE", ordering="ts,seq")) == EventTimeOrdering(("ts", "seq"))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"table__base__file__format": "ORC"}, "base file format ORC"),
        ({"table__ro__file__format": "HFILE"}, "base file format HFILE"),
        ({"table__log__file__format": "OTHER"}, "log file format OTHER"),
        ({"table__multiple__base__file__formats__enable": "true"}, "several base file formats"),
        ({"bootstrap__base__path": "s3://x/y"}, "bootstrapped table"),
        ({"table__format": "plugged"}, "table format plugged"),
        ({"timeline__layout__version": "1"}, "table version 9 on timeline layout 1"),
    ],
)
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_what_no_query_reads_is_refused(settings: dict[str, str], named: str, table_type: str) -> None:
    with pytest.raises(UnsupportedFeature, match=named):
        refuse_unsupported(_table(9, table_type, **settings))


def test_ordinary_settings_are_not_refused() -> None:
    refuse_unsupported(_table(9, table__cdc__enabled="true", table__format="native", populate__meta__fields="true"))
    refuse_unsupported(_table(6))
