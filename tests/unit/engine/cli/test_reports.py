"""`timeline`, `table desc`, `splits plan`: the documented fields, and the output of `--explain`."""

from __future__ import annotations

import pathlib
import re
from typing import TYPE_CHECKING, Any

import pytest

from penstock.engine.cli.output.explain import _meaning
from penstock.enumerator.handover.topic_plans import topic_plan
from penstock.enumerator.server.run import serve
from penstock.proto.model.hybrid import Hybrid, HybridMode, KafkaRange
from penstock.proto.model.queries import PlanRequest, TopicRanges
from penstock.table.hudi_table import open_table

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables
    from tests.unit.engine.cli.command_line import Cli

pytestmark = pytest.mark.golden

ROOT = pathlib.Path(__file__).parents[4]
V9, V6, RANGES = "A_merge_event_long_v9_h120", "A_merge_event_long_v6_h0150", "B_v9_inc_mor"


def documented(heading: str) -> set[str]:
    """The field names of the table that follows `heading` in docs/reference/cli.md."""
    text = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    rows = text.split(heading, 1)[1].split("\n\n", 2)[1 if "|" not in heading else 0].splitlines()
    cells = [row.split("|")[1] for row in rows if row.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_table_without_a_schema_is_described(cli: Cli, tmp_path: pathlib.Path) -> None:
    (tmp_path / ".hoodie" / "timeline").mkdir(parents=True)
    lines = ("name=empty", "version=9", "type=MERGE_ON_READ")
    properties = "".join(f"hoodie.table.{line}\n" for line in lines) + "hoodie.record.merge.mode=COMMIT_TIME_ORDERING\n"
    (tmp_path / ".hoodie" / "hoodie.properties").write_text(properties)
    assert cli("table", "desc", tmp_path, "--format", "json").json["schema"] is None
    assert cli("table", "desc", tmp_path).code == 0


class TestTimeline:
    """`penstock timeline`."""

    def test_fields_are_documented(self, cli: Cli, golden: GoldenTables) -> None:
        timeline = cli("timeline", golden.table(V9), "--format", "json").json
        assert {name for row in timeline for name in row} == documented("`timeline`: an array")

    def test_layout_2(self, cli: Cli, golden: GoldenTables) -> None:
        timeline = cli("timeline", golden.table(V9), "--format", "json").json
        assert [row["requested_time"] for row in timeline] == sorted(row["requested_time"] for row in timeline)
        for row in timeline:
            assert row["order_key"] == row["completion_time"]
            assert row["state"] == "completed"
            assert row["requested_at"] is None  # LOCAL: the zone is unknown

    def test_layout_1(self, cli: Cli, golden: GoldenTables) -> None:
        timeline = cli("timeline", golden.table(V6), "--format", "json", "--timeline-timezone", "Europe/Berlin").json
        for row in timeline:
            assert row["completion_time"] is None
            assert row["order_key"] == row["requested_time"]
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["requested_at"])

    def test_text(self, cli: Cli, golden: GoldenTables) -> None:
        result = cli("timeline", golden.table(V9))
        head, rule, *rows = result.text.splitlines()
        assert head.split() == ["requested_time", "completion_time", "action", "state", "requested_at", "completed_at"]
        assert set(rule) == {"-", " "}
        assert len(rows) == len(cli("timeline", golden.table(V9), "--format", "json").json)

    def test_table_of_a_server(
        self, cli: Cli, golden: GoldenTables, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
    ) -> None:
        zone = ("--timeline-timezone", "UTC", "--format", "json")
        expected = cli("timeline", golden.table(V9), *zone).json
        with serve({"orders": str(golden.table(V9))}, "127.0.0.1:0") as server:
            assert cli("timeline", "orders", "--server", server.address, *zone).json == expected
            monkeypatch.setenv("PENSTOCK_SERVER", server.address)
            first = expected[0]["requested_time"]
            assert cli("timeline", "orders", "--as-of", first, *zone).json == expected[:1] != expected
            unknown = cli("timeline", "trucks", *zone)
        assert (unknown.code, unknown.stdout) == (1, b"") and "[TABLE_NOT_FOUND]" in unknown.stderr
        monkeypatch.delenv("PENSTOCK_SERVER")
        assert cli("timeline", "orders", *zone).code == 1  # without a server it is a path

    def test_as_of(self, cli: Cli, golden: GoldenTables) -> None:
        expected = cli("timeline", golden.table(V6), "--format", "json").json
        last = expected[-2]["requested_time"]
        assert cli("timeline", golden.table(V6), "--as-of", last, "--format", "json").json == expected[:-1]

    def test_bad_zone(self, cli: Cli, golden: GoldenTables) -> None:
        assert cli("timeline", golden.table(V9), "--timeline-timezone", "Mars").code == 2


class TestTable:
    """`penstock table desc`."""

    @pytest.mark.parametrize(("name", "version", "layout"), [(V9, 9, 2), (V6, 6, 1)])
    def test_fields(self, cli: Cli, golden: GoldenTables, name: str, version: int, layout: int) -> None:
        table = cli("table", "desc", golden.table(name), "--format", "json").json
        assert set(table) == documented("`table desc`: an object")
        assert (table["table_version"], table["timeline_layout"]) == (version, layout)
        assert table["record_key_fields"] == ["id"]
        assert table["partition_fields"] == ["p"]
        assert table["schema"]["fields"][0]["name"] == "_hoodie_commit_time"
        newest = cli("timeline", golden.table(name), "--format", "json").json[-1]
        assert table["newest"] == newest["order_key"]

    def test_text(self, cli: Cli, golden: GoldenTables) -> None:
        lines = cli("table", "desc", golden.table(V9)).text.splitlines()
        assert any(line.split() == ["table_type", "MERGE_ON_READ"] for line in lines)
        assert any(line.split() == ["ts", "long"] for line in lines)

    def test_types(self, cli: Cli, golden: GoldenTables) -> None:
        text = cli("table", "desc", golden.table("A_types_v9_h120")).text
        assert "timestamp-micros" in text
        assert re.search(r"decimal\(\d+, \d+\)", text)


def test_server_in_the_environment_is_ignored_with_a_warning(
    cli: Cli, golden: GoldenTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_SERVER", "127.0.0.1:1")
    result = cli("splits", "plan", golden.table(V9))
    assert result.code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning: environment variable PENSTOCK_SERVER is not used")
    assert cli("-q", "splits", "plan", golden.table(V9)).stderr == ""


class TestSplits:
    """`penstock splits plan`."""

    def test_server_is_refused(self, cli: Cli, golden: GoldenTables) -> None:
        result = cli("splits", "plan", golden.table(V9), "--option", "server=127.0.0.1:1")
        assert (result.code, result.stdout) == (2, b"")
        assert "reads the table itself: leave server out" in result.stderr

    def test_plan_counts_splits_that_the_filter_excludes(self, cli: Cli, golden: GoldenTables) -> None:
        command = ("splits", "plan", golden.table(RANGES), "--where", "p = 'c'")
        text = cli(*command, "--explain").text
        assert "2 more splits that the filter rules out:" in text
        assert re.search(r"partition filter +2 +2 ", text) and re.search(r"remaining +0 +0 ", text)
        assert "p=a" in text and "p=b" in text
        assert "rules out" not in cli(*command).text
        assert "rules out" not in cli("splits", "plan", golden.table(RANGES), "--where", "v > 0", "--explain").text

    def test_flags_of_the_plan(self, cli: Cli, golden: GoldenTables) -> None:
        plan = self.plan(cli, golden.table(V9), "--columns", "v,id", "--where", "v > 1", "--metadata", "off")
        assert plan["columns"] == ["v", "id"]
        assert cli("splits", "plan", golden.table(V9), "--where", "nosuch > 1").code == 2

    def plan(self, cli: Cli, *arguments: object) -> Any:
        result = cli("splits", "plan", *arguments, "--format", "json")
        assert result.code == 0, result.stderr
        return result.json

    def test_fields_are_documented(self, cli: Cli, golden: GoldenTables) -> None:
        plain = self.plan(cli, golden.table(RANGES))
        explained = self.plan(cli, golden.table(RANGES), "--explain")
        assert set(explained) == documented("`splits plan`: an object")
        assert set(explained) - set(plain) == {"range", "instants", "pruning"}
        assert explained["pruning"] is None
        fields = {name for split in explained["splits"] for name in split}
        assert fields == documented("| field of a split | value |\n")
        assert fields - {name for split in plain["splits"] for name in split} == {"why"}

    def test_pruning_is_counted_by_reason(
        self, cli: Cli, golden: GoldenTables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The counts of the reasons, and of what remains, are those of the plan without the filter."""
        monkeypatch.setattr("penstock.enumerator.planning.pruning.groups.FEW_FILES", 0)
        table = golden.table("B_v9_colstats_cow")
        whole = self.plan(cli, table)["splits"]
        plan = self.plan(cli, table, "--where", "v < -1 AND p != 'a'", "--explain")
        pruning = plan["pruning"]
        by = {item["reason"]: item for item in pruning["ruled_out"]}
        assert {reason: (item["file_groups"], item["not_used"]) for reason, item in by.items()} == {
            "partition filter": (1, None),
            "column statistics": (2, None),
        }
        for name, count in (
            ("partitions", len({split["partition"] for split in whole})),
            ("file_groups", len(whole)),
            ("files", sum(1 + len(split["log_files"]) for split in whole)),
            ("size_bytes", sum(split["size_bytes"] for split in whole)),
        ):
            assert sum(item[name] for item in by.values()) + pruning["remaining"][name] == count, name
        assert pruning["remaining"]["file_groups"] == len(plan["splits"]) == 0

    def test_splits_are_in_commit_order_and_repeatable(self, cli: Cli, golden: GoldenTables) -> None:
        plan = self.plan(cli, golden.table(RANGES))
        keys = [(split["order_key"], split["split_id"]) for split in plan["splits"]]
        assert keys == sorted(keys)
        assert self.plan(cli, golden.table(RANGES)) == plan
        assert plan["size_bytes"] == sum(split["size_bytes"] for split in plan["splits"])

    def test_range_without_query_is_incremental(self, cli: Cli, golden: GoldenTables) -> None:
        keys = sorted(completed for _, completed, _ in golden.case(RANGES)["instants"])
        plan = self.plan(cli, golden.table(RANGES), "--after", keys[0], "--upto", keys[2], "--explain")
        assert (plan["after"], plan["upto"]) == (keys[0], keys[2])
        assert [item["order_key"] for item in plan["instants"]] == keys[1:3]
        assert f"({keys[0]}, {keys[2]}]" in plan["range"]
        assert "exclusive" in plan["range"]
        selected = {item["requested_time"] for item in plan["instants"]}
        for split in plan["splits"]:
            assert any(time in split["why"] for time in selected), split["why"]

    def test_empty_range_has_no_splits(self, cli: Cli, golden: GoldenTables) -> None:
        plan = self.plan(cli, golden.table(RANGES), "--after", "latest", "--explain", "--option", "query=incremental")
        assert (plan["splits"], plan["instants"]) == ([], [])

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "snapshot"),
            (["--query", "read_optimized"], "read-optimized"),
            (["--as-of", "20991231000000000"], "snapshot as of"),
        ],
    )
    def test_plan_explain_as_text(self, cli: Cli, golden: GoldenTables, arguments: list[str], message: str) -> None:
        for name in (V9, V6):
            result = cli("splits", "plan", golden.table(name), *arguments, "--explain")
            assert result.code == 0, result.stderr
            assert result.text.startswith(message)
            assert "base file of" in result.text

    def test_event_time_bounds(self, cli: Cli, golden: GoldenTables) -> None:
        plan = self.plan(cli, golden.table("B_v9_colstats_cow"))
        assert all(split["event_time_us"] is None for split in plan["splits"])


def test_plan_of_a_topic_prints_its_ranges(golden: Any) -> None:
    ranges = tuple(KafkaRange(topic="orders", topic_id="", partition=n, first=5, end=9) for n in range(12))
    hybrid = Hybrid(mode=HybridMode.APPEND, topic="orders")
    request = PlanRequest(table="t", query=TopicRanges(ranges), hybrid=hybrid)
    topic = topic_plan(open_table(str(golden.table("C_v6_streamer"))), "t", request, ranges, None)
    meaning = _meaning(topic, request.query, 1)
    assert meaning.startswith(
        "records of the topic that the table is filled from, by partition and offset: orders-0 5 to 8"
    )
    assert meaning.endswith("orders-9 5 to 8, and 2 more")
