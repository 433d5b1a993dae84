"""The option registry: spellings, types, precedence, entry points."""

from __future__ import annotations

from dataclasses import MISSING, fields

import pytest

from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import OPTIONS, EntryPoint, Option, ParsedOptions, option_named, parse_options

READS = (EntryPoint.BATCH, EntryPoint.ARROW, EntryPoint.CLI)


def parsed(
    entry_point: EntryPoint = EntryPoint.CLI, environment: dict[str, str] | None = None, /, **values: object
) -> ParsedOptions:
    return parse_options(values, entry_point=entry_point, environment=environment)


def test_parsed_fields_are_the_registry() -> None:
    settings = {field.name: field.default for field in fields(ParsedOptions)}
    del settings["explicit"], settings["warnings"]
    assert settings == {option.field: option.default for option in OPTIONS}
    assert MISSING not in settings.values()


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_spelling_is_one_option(option: Option) -> None:
    for name in (
        option.name,
        option.name.lower(),
        option.python_name,
        option.flag,
        option.flag[2:],
        option.name.upper(),
    ):
        assert option_named(name) is option


def test_names_of_one_option() -> None:
    option = option_named("maxCommitsPerTrigger")
    assert option is not None
    assert (option.python_name, option.flag) == ("max_commits_per_trigger", "--max-commits-per-trigger")
    assert option.environment_name == "PENSTOCK_MAX_COMMITS_PER_TRIGGER"


def test_options_whose_default_could_lose_a_row_have_none() -> None:
    without = {option.name for option in OPTIONS if option.default is None}
    assert without >= {"after", "upto", "asOf", "limit", "timelineTimezone", "onCorrupt"}
    assert without >= {"maxOutOfOrderness", "idleTimeout", "onLostRange", "failOnDataLoss"}


def test_explicit_before_environment_before_default() -> None:
    environment = {"PENSTOCK_BATCH_ROWS": "7", "PENSTOCK_LIMIT": "5"}
    options = parsed(EntryPoint.CLI, environment, limit="3")
    assert (options.limit, options.batch_rows, options.split_bytes) == (3, 7, 128 << 20)
    assert options.explicit == {"limit", "batchRows"}


def test_none_means_absent() -> None:
    assert parsed(limit=None, where=None) == ParsedOptions()


def test_environment_of_another_entry_point_is_ignored() -> None:
    assert parsed(EntryPoint.ARROW, {"PENSTOCK_MAX_COMMITS_PER_TRIGGER": "1"}) == ParsedOptions()


def test_bad_value_of_the_environment_names_the_variable() -> None:
    with pytest.raises(ConfigurationError, match="PENSTOCK_LIMIT: got 'x'"):
        parsed(EntryPoint.CLI, {"PENSTOCK_LIMIT": "x"})


def test_misspelt_variable_is_reported() -> None:
    (warning,) = parsed(EntryPoint.CLI, {"PENSTOCK_BATCHROWS": "7", "PENSTOCK_HOME": "/x"}).warnings
    assert "PENSTOCK_BATCHROWS" in warning
    assert "PENSTOCK_BATCH_ROWS" in warning


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("colums", "columns"),
        ("max-commit-per-triger", "maxCommitsPerTrigger"),
        ("as_off", "asOf"),
        ("hoodie.datasource.query.typ", "hoodie.datasource.query.type"),
        ("read.start-comit", "read.start-commit"),
    ],
)
def test_unknown_name_suggests_the_nearest(name: str, near: str) -> None:
    with pytest.raises(ConfigurationError, match=f"did you mean {near}"):
        parse_options({name: "1"}, entry_point=EntryPoint.STREAM)


def test_unknown_name_without_a_near_one_lists_all_options() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown option 'zzzzqqq': expected one of query, cdcFormat, after"):
        parsed(zzzzqqq="1")


@pytest.mark.parametrize("entry_point", EntryPoint)
def test_option_of_another_entry_point_is_refused(entry_point: EntryPoint) -> None:
    for option in OPTIONS:
        if entry_point not in option.entry_points:
            with pytest.raises(ConfigurationError, match=f"{option.name} does not apply here"):
                parse_options({option.name: "1"}, entry_point=entry_point)


def test_streams_refuse_limit_and_batch_bounds() -> None:
    refused = {option.name for option in OPTIONS if EntryPoint.STREAM not in option.entry_points}
    of_groups = {option.name for option in OPTIONS if option.entry_points == {EntryPoint.CONSUMER}}
    assert refused - of_groups == {"limit", "threads", "ordered", "asOf", "meta", "nativeParquet", "recordIndex"}


def test_consumers_refuse_batch_options() -> None:
    refused = {option.name for option in OPTIONS if EntryPoint.CONSUMER not in option.entry_points}
    of_streams = {option.name for option in OPTIONS if option.entry_points == {EntryPoint.STREAM}}
    assert refused - of_streams == {"limit", "threads", "ordered", "asOf", "slots", "nativeParquet", "recordIndex"}
    assert of_streams == {
        "streamName",
        "failOnDataLoss",
        "onNewColumns",
        "endWatermark",
    }


def test_one_option_in_two_spellings_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"options asOf and as_of both set asOf: give one of them$"):
        parsed(asOf="1", as_of="1")
    with pytest.raises(ConfigurationError, match=r"options as\.of\.instant and as_of both set asOf: .*, best as_of$"):
        parse_options({"as.of.instant": "2026-01-31", "as_of": "1"}, entry_point=EntryPoint.CLI)


class TestValues:
    """Types of values."""

    @pytest.mark.parametrize("value", [5, "5", " 5 ", "+5"])
    def test_numbers(self, value: object) -> None:
        assert parsed(limit=value).limit == 5

    @pytest.mark.parametrize("value", [-1, "-1", "1.5", "", "1e3", True, 1.0, "9" * 30, "٣٣٣x"])
    def test_bad_numbers(self, value: object) -> None:
        with pytest.raises(ConfigurationError, match="option limit"):
            parsed(limit=value)

    @pytest.mark.parametrize("value", ["0", "1048577"])
    def test_numbers_out_of_range(self, value: str) -> None:
        with pytest.raises(ConfigurationError, match=r"batchRows.*1 to 1048576"):
            parsed(batchRows=value)

    @pytest.mark.parametrize(
        ("value", "names"),
        [
            ("", ()),
            ("a", ("a",)),
            (" a , b c ", ("a", "b c")),
            ('["a,b", " c "]', ("a,b", " c ")),
            (["x", "y"], ("x", "y")),
            (("x",), ("x",)),
        ],
    )
    def test_columns(self, value: object, names: tuple[str, ...]) -> None:
        assert parsed(columns=value).columns == names

    @pytest.mark.parametrize("value", ["a,,b", ",", "[1]", '["a"', '{"a": 1}x,', [""], [1], 7, "[" * 5000])
    def test_bad_columns(self, value: object) -> None:
        with pytest.raises(ConfigurationError, match="option columns"):
            parsed(columns=value)

    @pytest.mark.parametrize("value", ["localhost:1", "127.0.0.1:65535", "[::1]:7070"])
    def test_addresses(self, value: str) -> None:
        assert parsed(server=value).server == value

    @pytest.mark.parametrize(
        "value", ["", "host", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:99999", "http://127.0.0.1:1"]
    )
    def test_bad_addresses(self, value: str) -> None:
        with pytest.raises(ConfigurationError, match="option server"):
            parsed(server=value)

    def test_query_kinds(self) -> None:
        assert parsed(query="incremental").query == "incremental"
        with pytest.raises(ConfigurationError, match="did you mean snapshot"):
            parsed(query="snapshots")

    def test_changes_have_the_format_rows_by_default(self) -> None:
        assert (parsed(query="cdc").query, parsed(query="cdc").cdc_format) == ("cdc", "rows")
        assert parsed(query="cdc", cdc_format="hudi").cdc_format == "hudi"
        with pytest.raises(ConfigurationError, match=r"cdc_format.*did you mean rows"):
            parsed(query="cdc", cdc_format="row")

    @pytest.mark.parametrize("name", ["where", "columns", "event_time", "query", "server"])
    def test_text_is_utf8(self, name: str) -> None:
        with pytest.raises(ConfigurationError, match="expected text in UTF-8"):
            parsed(**{name: "B\udcff"})

    @pytest.mark.parametrize("value", ['["a", "\\ud800"]', ["a", "\ud800"]])
    def test_each_name_is_utf8(self, value: object) -> None:
        with pytest.raises(ConfigurationError, match=r"option columns: got .*expected text in UTF-8"):
            parsed(columns=value)

    def test_text_must_be_text(self) -> None:
        with pytest.raises(ConfigurationError, match="option where: got 1"):
            parsed(where=1)
        with pytest.raises(ConfigurationError, match="option where: 70000 characters"):
            parsed(where="x" * 70_000)


def test_spellings_of_the_lost_range_policy_exclude_each_other() -> None:
    assert parsed().on_corrupt is None
    assert [parsed(on_corrupt=value).on_corrupt for value in ("error", "skip")] == ["error", "skip"]
    assert parsed(EntryPoint.STREAM, onCorrupt="skip").on_corrupt == "skip"
    with pytest.raises(
        ConfigurationError, match=r"option onCorrupt: got 'skipp', expected one of error, skip.*mean skip"
    ):
        parsed(onCorrupt="skipp")
