"""Names of Hudi, Flink and hudi-rs: exact translations, and errors that name Penstock's option."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import ConfigurationError
from penstock.proto.options.foreign_names import RULES, Renamed
from penstock.proto.options.registry import EntryPoint, ParsedOptions, option_named, parse_options


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("hoodie.datasource.query.type", "incremental", "query", "incremental"),
        ("hoodie.datasource.query.type", "read_optimized", "query", "read_optimized"),
        ("as.of.instant", "20260131235959123", "as_of", "20260131235959123"),
        ("as.of.instant", "20260131235959", "as_of", "20260131235959"),
        ("as.of.instant", "2026-01-31", "as_of", "20260131000000000"),
        ("as.of.instant", "2026-01-31 23:59:59", "as_of", "20260131235959999"),
        ("as.of.instant", "2026-01-31T23:59:59.123", "as_of", "20260131235959123"),
        ("as.of.instant", "1700000000", "as_of", "1700000000"),
        ("hoodie.datasource.read.begin.instanttime", "000", "after", "earliest"),
        ("hoodie.datasource.read.begin.instanttime", "20260131235959123", "after", "20260131235959123"),
        ("HOODIE.Datasource.Read.End.InstantTime", "20260131235959", "upto", "20260131235959"),
        ("hoodie.datasource.view.type", "realtime", "query", "snapshot"),
        ("read.start-commit", "earliest", "after", "earliest"),
        ("read.start-commit", "0000", "after", "earliest"),
        ("read.start-commit", "20260131235959123", "after", "20260131235959122"),
        ("read.streaming.start-commit", "20260131235959000", "after", "20260131235959"),
        ("read.start-commit", "20260131235900", "after", "20260131235899999"),
        ("read.end-commit", "20260131235959123", "upto", "20260131235959123"),
        ("hoodie.read.use.read_optimized.mode", True, "query", "read_optimized"),
        ("hoodie.read.as.of.timestamp", "20260131235959123", "as_of", "20260131235959123"),
        ("hoodie.read.stream.batch_size", 9, "batch_rows", 9),
    ],
)
def test_exact_translations(name: str, value: object, field: str, expected: object) -> None:
    options = parse_options({name: value}, entry_point=EntryPoint.CLI)
    assert getattr(options, field) == expected
    assert options.warnings == ()


def test_streams_start() -> None:
    name = "hoodie.datasource.streaming.startOffset"
    assert parse_options({name.lower(): "latest"}, entry_point=EntryPoint.STREAM).after == "latest"
    with pytest.raises(ConfigurationError, match="Penstock's option after"):
        parse_options({name: "20260131235959123"}, entry_point=EntryPoint.STREAM)


@given(
    start=st.from_regex(r"[0-9]{14}([0-9]{3})?", fullmatch=True),
    other=st.from_regex(r"[0-9]{14}([0-9]{3})?", fullmatch=True),
    digits=st.integers(0, 17),
)
def test_start_of_flink_is_inclusive(start: str, other: str, digits: int) -> None:
    """The exclusive bound divides the instants as `>= start` does, those with a common beginning too."""
    bound = parse_options({"read.start-commit": start}, entry_point=EntryPoint.BATCH).after
    for instant in (
        other,
        start,
        (start[:digits] + other[digits:])[:14],
        (start[:digits] + other[digits:] + "000")[:17],
    ):
        if len(instant) in (14, 17) and bound is not None and bound != "earliest":
            assert (instant > bound) == (instant >= start)


def test_names_of_ranges_imply_a_range() -> None:
    bounds = {"read.start-commit": "earliest", "read.end-commit": "20260131235959123"}
    assert parse_options(bounds, entry_point=EntryPoint.ARROW).query == "incremental"
    assert parse_options({**bounds, "query": "cdc"}, entry_point=EntryPoint.ARROW).query == "cdc"
    for streamed in (EntryPoint.STREAM, EntryPoint.CONSUMER):
        assert parse_options(bounds, entry_point=streamed) == parse_options(
            {"after": "earliest", "upto": "20260131235959123"}, entry_point=streamed
        )


def test_streams_of_flink() -> None:
    names = {"read.streaming.enabled": "true", "read.commits.limit": "7"}
    assert parse_options(names, entry_point=EntryPoint.STREAM).max_commits_per_trigger == 7
    assert parse_options({"read.streaming.enabled": "false"}, entry_point=EntryPoint.BATCH) == ParsedOptions()
    for value, entry_point in (("true", EntryPoint.BATCH), ("false", EntryPoint.CONSUMER)):
        with pytest.raises(ConfigurationError, match=r"penstock\.Consumer read a stream"):
            parse_options({"read.streaming.enabled": value}, entry_point=entry_point)
    for limit in ("0", "-1", "all"):
        with pytest.raises(ConfigurationError, match="maxCommitsPerTrigger"):
            parse_options({"read.commits.limit": limit}, entry_point=EntryPoint.STREAM)


def test_tasks() -> None:
    assert parse_options({"read.tasks": "4"}, entry_point=EntryPoint.BATCH).slots == 4
    assert parse_options({"hoodie.read.input.partitions": "4"}, entry_point=EntryPoint.BATCH).slots == 4


@pytest.mark.parametrize(
    ("name", "value", "penstock_option"),
    [
        ("hoodie.datasource.read.begin.instanttime", "earliest", "after"),
        ("hoodie.datasource.read.begin.instanttime", "2026", "after"),
        ("hoodie.datasource.read.end.instanttime", "2026-01-31", "upto"),
        ("hoodie.datasource.query.type", "all", "query"),
        ("as.of.instant", "yesterday", "asOf"),
        ("as.of.instant", "2026-01-31T23:59:59Z", "asOf"),
        ("read.start-commit", "2026-01-31", "after"),
        ("read.start-commit", "1", "after"),
        ("read.end-commit", "latest", "upto"),
        ("read.commits.limit", "1", "maxCommitsPerTrigger"),
        ("read.splits.limit", "1", "maxFilesPerTrigger"),
        ("hoodie.datasource.view.type", "snapshot", "query"),
        ("hoodie.read.start.timestamp", "20260131235959123", "after"),
        ("hoodie.read.end.timestamp", "20260131235959123", "upto"),
        ("hoodie.read.as.of.timestamp", "2026-01-31", "asOf"),
        ("hoodie.datasource.read.incr.path.glob", "a*", "where"),
        ("hoodie.datasource.read.incr.filters", "a > 1", "where"),
        ("hoodie.datasource.read.incr.table.version", "1", "after"),
        ("hoodie.table.timeline.timezone", "UTC", "timelineTimezone"),
    ],
)
def test_inexact_translation_names_the_penstock_option(name: str, value: str, penstock_option: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"\b{penstock_option}\b"):
        parse_options({name: value}, entry_point=EntryPoint.BATCH)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.datasource.query.incremental.format", "cdc"),
        ("cdc.enabled", "true"),
        ("changelog.enabled", "true"),
    ],
)
def test_cdc_options_of_hudi_name_the_penstock_option(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name.replace(".", r"\.") + r"=.*query=cdc.*cdcFormat"):
        parse_options({name: value}, entry_point=EntryPoint.CLI)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.datasource.query.incremental.format", "latest_state"),
        ("hoodie.datasource.read.incr.fallback.fulltablescan.enable", "false"),
        ("hoodie.datasource.read.incr.skip_compact", "true"),
        ("hoodie.datasource.read.incr.path.glob", ""),
        ("hoodie.read.use.read_optimized.mode", "false"),
        ("read.streaming.enabled", "FALSE"),
        ("hoodie.datasource.merge.type", "payload_combine"),
    ],
)
def test_hudi_options_with_the_penstock_behaviour_are_accepted(name: str, value: str) -> None:
    assert parse_options({name: value}, entry_point=EntryPoint.CLI) == ParsedOptions()


def test_full_scan_fallback_is_never_taken() -> None:
    with pytest.raises(ConfigurationError, match="lose rows"):
        parse_options(
            {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "true"}, entry_point=EntryPoint.BATCH
        )


@pytest.mark.parametrize("name", ["hoodie.metadata.enable", "metadata.enabled"])
def test_metadata_table_is_a_switch(name: str) -> None:
    assert parse_options({name: "FALSE"}, entry_point=EntryPoint.BATCH).metadata == "off"
    assert parse_options({name: True}, entry_point=EntryPoint.BATCH).metadata == "on"
    assert parse_options({"metadata": False}, entry_point=EntryPoint.BATCH).metadata == "off"
    for values in ({name: "yes"}, {"metadata": "yes"}):
        with pytest.raises(ConfigurationError, match="yes"):
            parse_options(values, entry_point=EntryPoint.BATCH)


def test_columns_of_an_altered_table_are_matched_by_id_unless_disabled() -> None:
    name = "hoodie.schema.on.read.enable"
    assert parse_options({}, entry_point=EntryPoint.BATCH).columns_by_name == "off"
    assert parse_options({name: "TRUE"}, entry_point=EntryPoint.BATCH).columns_by_name == "off"
    assert parse_options({name: False}, entry_point=EntryPoint.CLI).columns_by_name == "on"
    assert parse_options({"columnsByName": "on"}, entry_point=EntryPoint.STREAM).columns_by_name == "on"
    for values in ({name: "yes"}, {"columnsByName": "yes"}):
        with pytest.raises(ConfigurationError, match="yes"):
            parse_options(values, entry_point=EntryPoint.BATCH)
    with pytest.raises(ConfigurationError, match="both set columnsByName"):
        parse_options({name: "true", "columns-by-name": "off"}, entry_point=EntryPoint.BATCH)


def test_writer_options_are_one_warning() -> None:
    options = parse_options(
        {
            "hoodie.table.name": "t",
            "hoodie.upsert.shuffle.parallelism": "2",
            "hoodie.clean.automatic": "true",
        },
        entry_point=EntryPoint.BATCH,
    )
    (warning,) = options.warnings
    for name in ("hoodie.table.name", "hoodie.upsert.shuffle.parallelism", "hoodie.clean.automatic"):
        assert name in warning
    assert options.explicit == frozenset()


def test_unknown_name_about_reading_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="unknown option"):
        parse_options({"hoodie.datasource.read.something.new": "1"}, entry_point=EntryPoint.BATCH)


def test_option_and_its_translation_together_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="both set query"):
        parse_options({"query": "snapshot", "hoodie.datasource.query.type": "snapshot"}, entry_point=EntryPoint.CLI)


NAMES_OF_FLINK = (
    "read.tasks",
    "source.avro-schema",
    "source.avro-schema.path",
    "hoodie.datasource.query.type",
    "hoodie.datasource.merge.type",
    "read.utc-timezone",
    "read.streaming.enabled",
    "read.streaming.check-interval",
    "read.streaming.skip_compaction",
    "read.streaming.skip_clustering",
    "read.streaming.skip_insertoverwrite",
    "read.streaming.start-commit",
    "read.start-commit",
    "read.end-commit",
    "read.commits.limit",
    "read.splits.limit",
    "read.cdc.from.changelog",
    "read.data.skipping.enabled",
    "read.data.skipping.rli.keys.max.num",
    "read.data.skipping.rli.partitions.max.num",
    "read.source-v2.enabled",
    "cdc.enabled",
    "changelog.enabled",
    "metadata.enabled",
    "hoodie.metadata.enable",
)
"""The read options of `FlinkOptions` in Hudi's source up to June 2026, and the options of its other sections that the
source of Flink reads. The suites have no jar of Hudi's Flink module to compare this list with."""


def test_each_read_option_of_flink_has_a_rule() -> None:
    """A name without one would be refused as unknown, and the error could not name Penstock's option."""
    assert [name for name in NAMES_OF_FLINK if name not in RULES] == []
    for name in ("read.no.such.option", "read.record.index.keys.max.count"):
        with pytest.raises(ConfigurationError, match="unknown option"):
            parse_options({name: "1"}, entry_point=EntryPoint.BATCH)


def test_rules_are_lower_case_and_lead_to_options() -> None:
    for name, rule in RULES.items():
        assert name == name.lower()
        if isinstance(rule, Renamed):
            assert option_named(rule.option) is not None
