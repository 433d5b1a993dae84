"""`penstock tail` across the hand-over, in one process: a golden table that a streamer filled, beside its topic."""

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
    """The topic, for every client of this process."""
    made = ScriptedTopic.of_golden(GOLDEN, golden.case(CASE))
    monkeypatch.setattr("penstock.kafka.topic_metadata.open_topic", made.open)
    monkeypatch.setattr("penstock.kafka.record_reader.open_records", made.open_records)
    return made


@pytest.mark.golden
class TestHybrid:
    """The table, then its topic."""

    def test_exit_at_end_is_the_end_of_the_topic(self, cli: Cli, golden: Any, topic: ScriptedTopic) -> None:
        case = golden.case(CASE)
        ended = cli("tail", golden.table(CASE), "--hybrid", "changelog", *TOPIC, "--exit-at-end")
        assert (ended.code, ended.stderr) == (0, "")
        rows = [json.loads(line) for line in ended.stdout.splitlines()]
        late = [r for r in topic.records if r.offset >= case["handover"]["offsets"][str(r.partition)]]
        assert Counter(row["_change_type"] for row in rows)["+U"] == len(late) > 0
        assert Counter(row["_change_type"] for row in rows)["+I"] == len({row["id"] for row in rows} - _new(rows))

    def test_kafka_settings_may_be_options(self, cli: Cli, golden: Any, topic: ScriptedTopic) -> None:
        given = ("--option", "kafka.bootstrap.servers=scripted", "--option", "kafka.topic=orders")
        ended = cli("tail", golden.table(CASE), "--hybrid", "append", *given, "--exit-at-end")
        assert (ended.code, ended.stderr) == (0, "")
        assert ended.stdout.count(b"\n") > 20


def _new(rows: list[dict[str, Any]]) -> set[str]:
    """Keys that the table did not have at the hand-over."""
    known = {row["id"] for row in rows if row["_change_type"] == "+I"}
    return {row["id"] for row in rows} - known


@pytest.mark.parametrize(
    ("more", "told"),
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
def test_topic_options_usage_errors(cli: Cli, more: tuple[str, ...], told: str, tmp_path: pathlib.Path) -> None:
    ended = cli("-vv", "tail", tmp_path, *more)
    assert ended.code == 2
    assert told in " ".join(ended.stderr.split())
    assert SECRET not in ended.stderr


def test_read_has_no_flags_of_a_topic(cli: Cli, tmp_path: pathlib.Path) -> None:
    for flag in ("--hybrid", "--kafka", "--kafka-topic"):
        assert cli("read", tmp_path, flag, "append").code == 2
    ended = cli("read", tmp_path, "--option", "hybrid=append")
    assert ended.code == 2
    assert "option hybrid does not apply here (cli)" in ended.stderr
