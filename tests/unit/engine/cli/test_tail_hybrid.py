"""`penstock tail` across the hand-over, in one process: a golden table that a Hudi streamer wrote, and its topic."""

from __future__ import annotations

import json
import pathlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.scripted_topic import ScriptedTopic

if TYPE_CHECKING:
    from tests.unit.engine.cli.command_line import Cli

CASE = "C_v6_streamer"
GOLDEN = pathlib.Path(__file__).parents[3] / "golden"
SECRET = "pa55-word"
TOPIC = ("--kafka-topic", "orders", "--kafka", "bootstrap.servers=scripted")


@pytest.fixture
def topic(golden: Any, monkeypatch: pytest.MonkeyPatch) -> ScriptedTopic:
    """The topic for every client of this process."""
    scripted = ScriptedTopic.of_golden(GOLDEN, golden.case(CASE))
    monkeypatch.setattr("penstock.kafka.topic_metadata.open_topic", scripted.open)
    monkeypatch.setattr("penstock.kafka.record_reader.open_records", scripted.open_records)
    return scripted


@pytest.mark.golden
class TestHybrid:
    """Reads the table and then its topic."""

    def test_exit_at_end_is_the_end_of_the_topic(self, cli: Cli, golden: Any, topic: ScriptedTopic) -> None:
        case = golden.case(CASE)
        result = cli("tail", golden.table(CASE), "--hybrid", "changelog", *TOPIC, "--exit-at-end")
        assert (result.code, result.stderr) == (0, "")
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        late = [r for r in topic.records if r.offset >= case["handover"]["offsets"][str(r.partition)]]
        assert Counter(row["_change_type"] for row in rows)["+U"] == len(late) > 0
        assert Counter(row["_change_type"] for row in rows)["+I"] == len({row["id"] for row in rows} - _new(rows))

    def test_kafka_settings_may_be_options(self, cli: Cli, golden: Any, topic: ScriptedTopic) -> None:
        flags = ("--option", "kafka.bootstrap.servers=scripted", "--option", "kafka.topic=orders")
        result = cli("tail", golden.table(CASE), "--hybrid", "append", *flags, "--exit-at-end")
        assert (result.code, result.stderr) == (0, "")
        assert result.stdout.count(b"\n") > 20


def _new(rows: list[dict[str, Any]]) -> set[str]:
    """Keys that the table lacks at the hand-over."""
    known = {row["id"] for row in rows if row["_change_type"] == "+I"}
    return {row["id"] for row in rows} - known


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--hybrid", "changelog"), "give kafka.topic"),
        (("--hybrid", "changelog", "--kafka-topic", "t"), "give kafka.bootstrap.servers"),
        (("--hybrid", "changelogs", *TOPIC), "did you mean changelog?"),
        (TOPIC, "option kafka.topic configures the topic of a hybrid read"),
        (("--kafka", f"sasl.password:{SECRET}"), "--kafka, number 1: expected KEY=VALUE"),
        (("--kafka", f"a={SECRET}", "--kafka", f"a={SECRET}"), "--kafka a=…: given twice"),
        (("--kafka", f"a={SECRET}", "--option", f"kafka.a={SECRET}"), "option kafka.a is given twice"),
        (("--hybrid", "append", *TOPIC, "--upto", "20260101000000"), "option upto ends a stream in the table"),
        (("--hybrid", "changelog", *TOPIC, "--from", "latest"), "begins with every row of the table"),
        (("--hybrid", "append", *TOPIC, "--on-lost-range", "snapshot"), "onLostRange=snapshot"),
    ],
)
def test_topic_options_usage_errors(cli: Cli, more: tuple[str, ...], message: str, tmp_path: pathlib.Path) -> None:
    result = cli("-vv", "tail", tmp_path, *more)
    assert result.code == 2
    assert message in " ".join(result.stderr.split())
    assert SECRET not in result.stderr


def test_read_has_no_flags_of_a_topic(cli: Cli, tmp_path: pathlib.Path) -> None:
    for flag in ("--hybrid", "--kafka", "--kafka-topic"):
        assert cli("read", tmp_path, flag, "append").code == 2
    result = cli("read", tmp_path, "--option", "hybrid=append")
    assert result.code == 2
    assert "option hybrid does not apply here (cli)" in result.stderr
