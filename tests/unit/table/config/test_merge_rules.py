"""Which settings mean which merge mode, and which are refused by name."""

from __future__ import annotations

import pytest

from penstock.proto.errors import ConfigurationError, TableError, UnsupportedFeature
from penstock.proto.model.splits import (
    CommitTimeOrdering,
    CustomMerge,
    DeleteMarker,
    EventTimeOrdering,
    FillDefaults,
    FillMarked,
    FillNulls,
    MergeMode,
    WholeRecords,
)
from penstock.table.config.merge_rules import merge_mode, merge_rules, refuse_unsupported
from penstock.table.config.payload_classes import MergeRules
from penstock.table.config.properties import TableProperties, parse_table_properties

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
    with pytest.raises(TableError, match=r"record merge mode \(none\)") as caught:
        merge_mode(_table(9, **legacy))
    assert not isinstance(caught.value, UnsupportedFeature)


@pytest.mark.parametrize(
    ("version", "settings", "named"),
    [
        (8, {"record__merge__mode": "EVENT_TIME_ORDERING", "compaction__payload__class": "x.Y"}, "payload class x.Y"),
        (9, {"record__merge__mode": "CUSTOM"}, "record merge mode CUSTOM"),
        (9, {"record__merge__mode": "EVENT_TIME_ORDERING", "record__merge__strategy__id": USER_STRATEGY}, "strategy"),
    ],
)
def test_refused_by_name_on_merge_on_read_only(version: int, settings: dict[str, str], named: str) -> None:
    with pytest.raises(UnsupportedFeature, match=named) as caught:
        merge_mode(_table(version, **settings))
    assert "table /base" in str(caught.value)
    assert merge_mode(_table(version, "COPY_ON_WRITE", **settings)) == EVENT


OF_PAYLOAD = CustomMerge("x.Y", True, ("ts",))
OF_STRATEGY = CustomMerge(USER_STRATEGY, False, ("ts",))
BY_PAYLOAD = {"record__merge__strategy__id": "00000000-0000-0000-0000-000000000000"}


@pytest.mark.parametrize(
    ("version", "settings", "expected"),
    [
        (6, {"compaction__payload__class": "x.Y"}, OF_PAYLOAD),
        (6, {"compaction__record__merger__strategy": USER_STRATEGY.upper()}, OF_STRATEGY),
        (8, {"record__merge__mode": "CUSTOM", "compaction__payload__class": "x.Y", **BY_PAYLOAD}, OF_PAYLOAD),
        (8, {"record__merge__mode": "CUSTOM", "record__merge__strategy__id": USER_STRATEGY}, OF_STRATEGY),
        (9, {"record__merge__mode": "CUSTOM", "compaction__payload__class": "x.Y", **BY_PAYLOAD}, OF_PAYLOAD),
        (
            9,
            {
                "record__merge__mode": "CUSTOM",
                "record__merge__strategy__id": USER_STRATEGY,
                "compaction__payload__class": "x.Y",
            },
            OF_STRATEGY,
        ),
        (
            9,
            {
                "record__merge__mode": "CUSTOM",
                "compaction__payload__class": "com.uber.hoodie.common.model.ReverseOrderHoodieRecordPayload",
            },
            CustomMerge(MODEL + "ReverseOrderHoodieRecordPayload", True, ("ts",)),
        ),
        (9, {"record__merge__mode": "CUSTOM", "compaction__payload__class": MODEL + "HoodieAvroPayload"}, COMMIT),
        (6, {"compaction__payload__class": MODEL + "HoodieAvroPayload"}, COMMIT),
    ],
)
def test_mergers_and_payload_classes_of_others_are_left_to_the_reader(
    version: int, settings: dict[str, str], expected: MergeMode
) -> None:
    assert merge_mode(_table(version, **settings)) == expected
    assert merge_mode(_table(version, "COPY_ON_WRITE", **settings)) == EVENT


@pytest.mark.parametrize(("version", "mode"), [(9, "OTHER"), (6, "IGNORE_DEFAULTS"), (8, "FILL_UNAVAILABLE")])
def test_partial_update_mode_that_hudi_does_not_know(version: int, mode: str) -> None:
    settings = {"record__merge__mode": "EVENT_TIME_ORDERING", "table__partial__update__mode": mode}
    with pytest.raises(ConfigurationError, match=rf"table /base \(version {version}\) .*update.mode={mode}"):
        merge_mode(_table(version, **settings))
    assert merge_mode(_table(version, "COPY_ON_WRITE", **settings)) == EVENT


def test_several_ordering_fields() -> None:
    both = EventTimeOrdering(("ts", "seq"))
    assert merge_mode(_table(9, ordering="ts,seq", record__merge__mode="EVENT_TIME_ORDERING")) == both
    assert merge_mode(_table(9, ordering="ts,seq", record__merge__mode="COMMIT_TIME_ORDERING")) == COMMIT
    assert merge_mode(_table(9, "COPY_ON_WRITE", ordering="ts,seq")) == EventTimeOrdering(("ts", "seq"))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"table__base__file__format": "OTHER"}, "base file format OTHER"),
        ({"table__ro__file__format": "HFILE"}, "base file format HFILE"),
    ],
)
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_tables_that_no_query_reads_are_refused(settings: dict[str, str], named: str, table_type: str) -> None:
    with pytest.raises(UnsupportedFeature, match=named):
        refuse_unsupported(_table(9, table_type, **settings))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"table__log__file__format": "OTHER"}, "log file format OTHER"),
        ({"table__format": "plugged"}, "table format plugged"),
        ({"timeline__layout__version": "1"}, "table version 9 on timeline layout 1"),
    ],
)
def test_tables_that_hudi_refuses_too_are_a_table_error(settings: dict[str, str], named: str) -> None:
    with pytest.raises(TableError, match=named) as caught:
        refuse_unsupported(_table(9, **settings))
    assert not isinstance(caught.value, UnsupportedFeature)


def test_mode_that_contradicts_hudis_own_payload_class() -> None:
    payload = {"compaction__payload__class": MODEL + "PartialUpdateAvroPayload"}
    with pytest.raises(TableError, match=r"payload class .*PartialUpdateAvroPayload with") as caught:
        merge_mode(_table(8, record__merge__mode="EVENT_TIME_ORDERING", **payload))
    assert not isinstance(caught.value, UnsupportedFeature)


def test_table_that_may_hold_several_formats_is_read() -> None:
    refuse_unsupported(_table(9, table__multiple__base__file__formats__enable="true"))


def test_ordinary_settings_are_not_refused() -> None:
    refuse_unsupported(_table(9, table__cdc__enabled="true", table__format="native", populate__meta__fields="true"))
    refuse_unsupported(_table(6))


PARTIAL = MergeRules(mode=EventTimeOrdering(("ts",), deletes_win=True), fill=FillNulls())
DEBEZIUM = DeleteMarker("_change_operation_type", "d")


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ("PartialUpdateAvroPayload", PARTIAL),
        ("OverwriteNonDefaultsWithLatestAvroPayload", MergeRules(mode=COMMIT, fill=FillDefaults(by_identity=False))),
        ("AWSDmsAvroPayload", MergeRules(mode=COMMIT, delete_marker=DeleteMarker("Op", "D"))),
        (
            "debezium.PostgresDebeziumAvroPayload",
            MergeRules(
                mode=EventTimeOrdering(("_event_lsn",), deletes_win=True),
                fill=FillMarked("__debezium_unavailable_value", from_newer=False),
                delete_marker=DEBEZIUM,
            ),
        ),
        (
            "debezium.MySqlDebeziumAvroPayload",
            MergeRules(
                mode=EventTimeOrdering(("_event_seq",), dotted_numbers=True, deletes_win=True), delete_marker=DEBEZIUM
            ),
        ),
    ],
)
def test_payload_classes_below_version_9(payload: str, expected: MergeRules) -> None:
    value = {"compaction__payload__class": MODEL + payload}
    custom = {"record__merge__mode": "CUSTOM", "record__merge__strategy__id": "00000000-0000-0000-0000-000000000000"}
    assert merge_rules(_table(6, **value)) == expected
    assert merge_rules(_table(8, **value, **custom)) == expected
    assert merge_rules(_table(6, **value), DeleteMarker("a", "b")).delete_marker in (
        expected.delete_marker,
        DeleteMarker("a", "b"),
    )
    with pytest.raises(UnsupportedFeature, match="CUSTOM"):
        merge_rules(_table(9, **value, **custom))


def test_partial_modes_of_version_9() -> None:
    event = {"record__merge__mode": "EVENT_TIME_ORDERING"}
    defaults = _table(9, **event, table__partial__update__mode="IGNORE_DEFAULTS")
    assert merge_rules(defaults) == MergeRules(mode=EVENT, fill=FillDefaults(by_identity=True))
    fill = {**event, "table__partial__update__mode": "FILL_UNAVAILABLE"}
    marker = {"record__merge__property__hoodie__write__partial__update__unavailable__value": "?"}
    assert merge_rules(_table(9, **fill, **marker)).fill == FillMarked("?", from_newer=True)
    assert merge_rules(_table(9, **fill)).fill == WholeRecords()


def test_delete_markers() -> None:
    request = DeleteMarker("a", "b")
    event = {"record__merge__mode": "EVENT_TIME_ORDERING"}
    stored = {
        "record__merge__property__hoodie__payload__delete__field": "op",
        "record__merge__property__hoodie__payload__delete__marker": "D",
    }
    assert merge_rules(_table(9, **event, **stored), request).delete_marker == DeleteMarker("op", "D")
    plain = {"payload__delete__field": "op", "payload__delete__marker": "X"}
    assert merge_rules(_table(6, **plain), request).delete_marker == DeleteMarker("op", "X")
    assert merge_rules(_table(9, **event), request).delete_marker == request
    assert merge_rules(_table(9, **event)).delete_marker is None
    for half in ("field", "marker"):
        with pytest.raises(ConfigurationError, match=f"hoodie.payload.delete.{half}=x and not"):
            merge_rules(_table(6, **{f"payload__delete__{half}": "x"}))
