"""Decisions over records of the metadata table: what combines how, which instants count, the traps of statistics."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from penstock.enumerator.planning.event_time.bounds import slice_bounds
from penstock.proto.errors import CorruptFile
from penstock.proto.model.splits import EventTimeBounds, NoEventTimes, UnknownBounds
from penstock.table.files.slices import CommittedInstants
from penstock.table.metadata.column_stats import ColumnStats, combined_stats
from penstock.table.metadata.files import data_files, files_key, partition_paths
from penstock.table.metadata.keys import column_stats_key, partition_stats_key, xxh64
from penstock.table.metadata.records import RecordReader
from penstock.table.metadata.validity import ValidBlocks, first_not_recorded, pending_instants
from penstock.table.schema.avro import AvroType, Primitive
from penstock.table.timeline.active import Timeline, build_timeline
from penstock.table.timeline.fields import Fields
from penstock.table.timeline.instants import parse_instant_file

LOG = ".f-0_20260101000000000.log.1_0-1-2"
BASE = "f-0_0-1-2_20260101000000000.parquet"


def files(**changes: int | None) -> Fields:
    """A record of the `files` partition; None deletes. Names: `log` and `base`."""
    names = {"log": LOG, "base": BASE}
    values = {names.get(name, name): {"size": size or 0, "isDeleted": size is None} for name, size in changes.items()}
    return Fields({"filesystemMetadata": values}, "record")


def sizes(*versions: Fields | None) -> dict[str, int]:
    return {file.file_name: file.ref.size_bytes for file in data_files("p", versions)}


class TestFiles:
    def test_newer_versions_win_and_the_greater_size_counts(self) -> None:
        assert sizes(files(log=5, base=7), files(log=9)) == {LOG: 9, BASE: 7}
        assert sizes(files(log=9), files(log=5)) == {LOG: 9}
        assert sizes(files(log=9), files(log=None)) == {}
        assert sizes(files(log=None), files(log=3)) == {LOG: 3}
        assert sizes(files(log=9), None, files(base=1)) == {BASE: 1}
        assert sizes() == {}
        assert sizes(files(log=2**63 - 1)) == {LOG: 2**46}, "no more than a file can have"

    def test_paths_are_under_the_partition_and_other_files_left_out(self) -> None:
        odd = Fields({"filesystemMetadata": {"_SUCCESS": {"size": 1, "isDeleted": False}}}, "record")
        assert [file.ref.path for file in data_files("p=a", [files(base=1), odd])] == [f"p=a/{BASE}"]
        assert [file.ref.path for file in data_files("", [files(base=1)])] == [BASE]
        assert (files_key(""), files_key("p=a")) == (".", "p=a")

    @pytest.mark.parametrize("name", ["../x", "a/b.parquet", "/etc/x", "", "a\0b"])
    def test_name_that_leaves_the_folder_is_refused(self, name: str) -> None:
        with pytest.raises(CorruptFile):
            data_files("p", [Fields({"filesystemMetadata": {name: {"size": 1, "isDeleted": False}}}, "record")])

    @pytest.mark.parametrize("value", [None, {}, {"size": 1}, {"size": -1, "isDeleted": False}, {"isDeleted": 1}])
    def test_value_of_another_shape_is_refused(self, value: object) -> None:
        with pytest.raises(CorruptFile, match="expected a size"):
            data_files("p", [Fields({"filesystemMetadata": {LOG: value}}, "record")])

    def test_files_of_other_writers_lie_where_they_were_written(self) -> None:
        names = ["a.parquet_001_hudiext", "sub/b.parquet_002_fg%3Dsub_hudiext"]
        record = Fields({"filesystemMetadata": {name: {"size": 1, "isDeleted": False} for name in names}}, "r")
        result = {file.ref.path: file.file_name for file in data_files("p", [record])}
        assert result == {"p/a.parquet": names[0], "p/sub/b.parquet": "b.parquet_002_fg%3Dsub_hudiext"}

    @pytest.mark.parametrize("name", ["s/b.parquet_2_fg%3Dsub_hudiext", "b.parquet_2_fg%3Dsub_hudiext", "x_hudiext"])
    def test_name_without_its_folder_is_refused(self, name: str) -> None:
        record = Fields({"filesystemMetadata": {name: {"size": 1, "isDeleted": False}}}, "r")
        with pytest.raises(CorruptFile, match="in partition 'p'"):
            data_files("p", [record])

    @pytest.mark.parametrize(
        "name",
        [
            "", ".", "..", "/x", "a/b", "a:/b", "a\0b", "a" * 5000, "\udc80", "\u00e9", "_SUCCESS", "\n",
            "f-1_0-1-2_20260101000000000.parquet", ".f-1_20260101000000000.log.2_0-1-2.cdc",
            "f:1_0-1-2_20260101000000000.parquet", "f\u00e9_0-1-2_20260101000000000.parquet",
            "f\n1_0-1-2_20260101000000000.parquet", "x.parquet_20260101000000000_hudiext",
            "b/x.parquet_20260101000000000_fg%3Db_hudiext", "x_hudiext",
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("partition", ["", "p", "p=\u00e9/q", "../p", "p" * 4090])
    def test_check_of_all_names_together_is_that_of_each(
        self, monkeypatch: pytest.MonkeyPatch, partition: str, name: str
    ) -> None:
        def result(names: dict[str, int]) -> object:
            try:
                return data_files(partition, [files(base=1, log=2), files(**names)])
            except CorruptFile as error:
                return str(error)

        together = result({name: 3})
        monkeypatch.setattr("penstock.table.metadata.files._are_plain", lambda *_: False)
        assert together == result({name: 3})

    def test_control_names_that_are_not_looked_at_leave_the_folder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("penstock.table.metadata.files._are_plain", lambda *_: True)
        assert [file.ref.path for file in data_files("../p", [files(base=1)])] == [f"../p/{BASE}"]

    def test_partitions(self) -> None:
        assert partition_paths([Fields({"filesystemMetadata": {".": {"size": 0, "isDeleted": False}}}, "r")]) == {""}
        with pytest.raises(CorruptFile):
            partition_paths([Fields({"filesystemMetadata": {"../a": {"size": 0, "isDeleted": False}}}, "r")])


def timeline(*names: str) -> Timeline:
    return build_timeline(2, [item for name in names if (item := parse_instant_file(name, 2))])


class TestValidity:
    def test_blocks_of_what_is_pending_or_not_committed_do_not_count(self) -> None:
        data = timeline("20_21.commit", "30.commit.requested", "40_41.clean", "50.clean.inflight", "20.inflight")
        assert pending_instants(data) == {"30", "50"}
        committed = CommittedInstants(layout=2, order_keys={"20": "21", "30": "31", "45": "46"}, archived_before="15")
        valid = ValidBlocks(committed, pending_instants(data))
        held = [time for time in ("10", "15", "20", "30", "45", "50", "60") if valid.holds(time)]
        assert held == ["10", "20", "45"], "archived, completed in both, completed in the metadata table alone"

    def test_instant_that_the_metadata_table_lacks(self) -> None:
        own = timeline(
            "00000000000000000_25.deltacommit", "20_21.deltacommit", "40_41.deltacommit", "50.clean.inflight"
        )
        for names, lacking in (
            (("20_22.commit", "40_42.commit"), ""),
            (("10_12.commit", "20_22.commit"), ""),
            (("20_22.commit", "30_32.commit"), "30"),
            (("40_42.commit", "50_52.clean"), "50"),
            (("40_42.commit", "45_46.savepoint", "47_48.restore", "48_49.indexing", "60.commit.requested"), ""),
        ):
            assert first_not_recorded(timeline(*names), own) == lacking
        fresh = timeline("00000000000000000_25.deltacommit")
        assert first_not_recorded(timeline("20_22.commit"), fresh) == "", "completed before it was created"
        assert first_not_recorded(timeline("20_22.commit", "24_26.commit", "27_28.commit"), fresh) == "24"
        assert first_not_recorded(timeline(), fresh) == ""

    @pytest.mark.parametrize(
        ("restore", "lacking"),
        [
            ("50_59.restore", ""),
            ("45_48.restore", "30"),  # the metadata table was restored later, for another restore
            ("53_59.restore", "30"),
            ("50.restore.inflight", "30"),
            ("31_59.restore", "30"),  # the clean was not complete
        ],
    )
    def test_restore_of_both_tables_records_what_completed_before(self, restore: str, lacking: str) -> None:
        """Hudi's restore removes the record of the clean, and then records the files that it deleted."""
        own = timeline("20_21.deltacommit", "52_54.restore", "55_57.deltacommit")
        data = timeline("20_22.commit", "30_32.clean", restore)
        assert first_not_recorded(data, own) == lacking

    def test_instant_after_a_restore_of_both_tables_is_lacking(self) -> None:
        own = timeline("20_21.deltacommit", "52_54.restore", "55_57.deltacommit")
        data = timeline("20_22.commit", "30_32.clean", "50_59.restore", "60_61.clean")
        assert first_not_recorded(data, own) == "60"
        assert first_not_recorded(data, timeline("20_21.deltacommit", "52.restore.inflight")) == "30"

    def test_rollback_after_a_restore_of_both_tables_needs_no_record(self) -> None:
        """If the metadata table has no instant but that of the restore which the data table lacks."""
        own = timeline("20_21.deltacommit", "52_54.restore", "55_57.deltacommit")
        names = ("20_22.commit", "50_59.restore", "60_61.rollback")
        assert first_not_recorded(timeline(*names), own) == ""
        removed = timeline("20_21.deltacommit", "52_54.restore", "55_57.deltacommit", "60_60.deltacommit")
        assert first_not_recorded(timeline("20_22.commit", "50_59.restore", "61_62.rollback"), removed) == "61"


class TestKeys:
    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            (b"", 0xEF46DB3751D8E999),
            (b"abc", 0x44BC2CF5AD770999),
            (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
        ],
    )
    def test_xxh64(self, data: bytes, expected: int) -> None:
        assert xxh64(data) == expected

    def test_lengths(self) -> None:
        key = column_stats_key("a.b", "", BASE)
        assert len(key) == 48
        assert key.startswith(partition_stats_key("a.b", "."))
        assert column_stats_key("a.b", "p", BASE) != key


def stat(low: Any, high: Any, values: int | None = 5, nulls: int | None = 0, **more: Any) -> Fields:
    """A record of the `column_stats` partition; a bound is (wrapper, value) or None."""

    def wrapped(bound: Any) -> Any:
        return bound and (f"org.apache.hudi.avro.model.{bound[0]}", {"value": bound[1]})

    fields = {"fileName": "f", "columnName": "c", "minValue": wrapped(low), "maxValue": wrapped(high)}
    return Fields(
        {"ColumnStatsMetadata": {**fields, "valueCount": values, "nullCount": nulls, "isDeleted": False, **more}}, "r"
    )


def longs(low: int, high: int, **more: Any) -> Fields:
    return stat(("LongWrapper", low), ("LongWrapper", high), **more)


def only(*versions: Fields | None) -> ColumnStats:
    result = combined_stats(versions)
    assert result is not None
    return result


class TestColumnStats:
    def test_wider_bounds_and_sums(self) -> None:
        result = only(longs(5, 9, values=2), longs(3, 7, values=4, nulls=1))
        assert (result.low, result.high, result.value_count, result.null_count) == (3, 9, 6, 1)

    def test_tight_bounds_and_tombstones_replace(self) -> None:
        assert only(longs(5, 9), longs(6, 7, isTightBound=True)).low == 6
        assert only(longs(5, 9), longs(6, 7, isDeleted=True)).is_deleted
        revived = only(longs(5, 9, isDeleted=True), longs(6, 7))
        assert (revived.is_deleted, revived.low) == (False, 6)
        assert combined_stats([longs(5, 9), None]) is None
        assert combined_stats([]) is None

    def test_zeros_of_nulls_alone_are_no_bounds(self) -> None:
        result = only(longs(0, 0, values=3, nulls=3))
        assert (result.low, result.high, result.holds_nulls_alone) == (None, None, True)
        assert only(longs(0, 0, values=3, nulls=3), longs(5, 9)).low == 5
        assert only(longs(5, 9), stat(None, None, values=0)).high == 9

    def test_unknown_bounds_stay_unknown(self) -> None:
        for odd in (stat(None, None), stat(("LongWrapper", 1), None), stat(("IntWrapper", 1), ("StringWrapper", "x"))):
            assert only(odd).low is None
            assert not only(odd).holds_nulls_alone
            assert only(longs(5, 9), odd).low is None
        assert not only(stat(None, None, values=None, nulls=None)).holds_nulls_alone
        assert only(longs(5, 9), stat(("StringWrapper", "a"), ("StringWrapper", "b"))).low is None

    def test_kinds(self) -> None:
        assert only(stat(("DateWrapper", 7), ("DateWrapper", 8))).logical == "date"
        ints = stat(("IntWrapper", 7), ("IntWrapper", 8), valueType={"typeOrdinal": 12, "additionalInfo": None})
        assert only(ints).logical == "date"
        one = (10**15).to_bytes(8, "big")
        assert str(only(stat(("DecimalWrapper", one), ("DecimalWrapper", one))).low) == "1.000000000000000"
        decimal = {"typeOrdinal": 10, "additionalInfo": "10,2"}
        result = only(stat(("BytesWrapper", b"\xff"), ("BytesWrapper", b"\1\0"), valueType=decimal))
        assert (str(result.low), str(result.high)) == ("-0.01", "2.56")

    @pytest.mark.parametrize("unscaled", [10**38 - 1, -(10**38 - 1), 10**37 + 1, 0])
    @pytest.mark.parametrize("scale", [0, 10, 38])
    def test_decimals_have_all_their_digits(self, unscaled: int, scale: int) -> None:
        value = ("BytesWrapper", unscaled.to_bytes(16, "big", signed=True))
        low = only(stat(value, value, valueType={"typeOrdinal": 10, "additionalInfo": f"38,{scale}"})).low
        assert isinstance(low, Decimal) and Fraction(low) == Fraction(unscaled, 10**scale)

    @pytest.mark.parametrize(
        ("value", "extra"), [(b"", "10,2"), (b"\1" * 17, "10,2"), (b"\1", ""), (b"\1", "10,-2"), (b"\1", "9,2000")]
    )
    def test_damaged_decimals_are_unknown(self, value: bytes, extra: str) -> None:
        wrapped = ("BytesWrapper", value)
        assert only(stat(wrapped, wrapped, valueType={"typeOrdinal": 10, "additionalInfo": extra})).low is None

    def test_bound_of_another_shape_is_refused(self) -> None:
        with pytest.raises(CorruptFile, match="minValue"):
            combined_stats([Fields({"ColumnStatsMetadata": {"minValue": 7}}, "r")])


MICROS, MILLIS = Primitive("long", "timestamp-micros"), Primitive("long", "timestamp-millis")
DATE = Primitive("int", "date")
NOW_US, NOW_MS = 1_700_000_000_000_000, 1_700_000_000_000


def ordinal(number: int) -> dict[str, Any]:
    return {"valueType": {"typeOrdinal": number, "additionalInfo": None}}


class TestSliceBounds:
    def test_widest_of_all_files(self) -> None:
        stats = [only(longs(NOW_US, NOW_US + 9)), only(longs(NOW_US - 5, NOW_US, **ordinal(16)))]
        assert slice_bounds(stats, MICROS) == EventTimeBounds(NOW_US - 5, NOW_US + 9)
        assert slice_bounds([only(longs(NOW_MS, NOW_MS + 1))], MILLIS) == EventTimeBounds(NOW_US, NOW_US + 1000)
        days = [only(stat(("DateWrapper", 0), ("DateWrapper", 2)))]
        assert slice_bounds(days, DATE) == EventTimeBounds(0, 2 * 86_400_000_000)

    def test_bounds_before_1900_may_be_of_the_legacy_calendar(self) -> None:
        """Hybrid 1500-03-01 is stored as -171595 and read as -171605."""
        days = [only(stat(("DateWrapper", -171595), ("DateWrapper", -171595)))]
        assert slice_bounds(days, DATE) == EventTimeBounds(-171607 * 86_400_000_000, -25565 * 86_400_000_000)
        early = -3_000_000_000_000_000
        result = slice_bounds([only(longs(early, NOW_US))], MICROS)
        assert result == EventTimeBounds(early - 12 * 86_400_000_000, NOW_US)

    def test_files_of_nulls_or_deletes_do_not_count(self) -> None:
        without = [only(longs(0, 0, values=3, nulls=3)), only(stat(None, None, values=0, **ordinal(1)))]
        assert slice_bounds([only(longs(NOW_US, NOW_US)), *without], MICROS) == EventTimeBounds(NOW_US, NOW_US)
        assert slice_bounds(without, MICROS) == NoEventTimes()

    @pytest.mark.parametrize(
        ("other", "column_type"),
        [
            (None, MICROS),
            (longs(NOW_US, NOW_US, isDeleted=True), MICROS),
            (stat(None, None), MICROS),
            (longs(NOW_MS, NOW_MS), MICROS),  # what version 9 calls micros may be millis of an older writer
            (longs(NOW_MS, NOW_MS, **ordinal(16)), MICROS),
            (longs(NOW_US, NOW_US, **ordinal(15)), MICROS),
            (longs(NOW_US, NOW_US), MILLIS),
            (longs(NOW_MS, NOW_MS, **ordinal(16)), MILLIS),
            (longs(0, NOW_US), MICROS),
            (longs(NOW_MS, NOW_MS), Primitive("long")),
            (longs(5, 6), DATE),
            (stat(("StringWrapper", "a"), ("StringWrapper", "b")), MICROS),
        ],
    )
    def test_unknown_bound_makes_the_slice_unknown(self, other: Fields | None, column_type: AvroType) -> None:
        fine = {MICROS: longs(NOW_US, NOW_US), MILLIS: longs(NOW_MS, NOW_MS)}.get(column_type)
        stats = [*([only(fine)] if fine else []), None if other is None else only(other)]
        assert slice_bounds(stats, column_type) == UnknownBounds()


@pytest.mark.parametrize(
    "schema",
    ["", "{", "[]", '"nope"', '{"type":"record","name":"r","fields":[{"name":"f","type":"r"}]}', "[" * 5000, '"int"'],
)
def test_hostile_schemas_are_refused(schema: str) -> None:
    with pytest.raises(CorruptFile, match="file x"):
        RecordReader(schema, "file x").read(b"\2")


def test_value_must_be_whole() -> None:
    reader = RecordReader('{"type":"record","name":"r","fields":[{"name":"f","type":"int"}]}', "file x")
    assert reader.read(b"\4").number("f") == 2
    for value in (b"", b"\4\4", b"\xff" * 12):
        with pytest.raises(CorruptFile, match="file x"):
            reader.read(value)
