"""Hand-over points of the tables that were filled from Kafka: the offsets of the catalogue."""

from __future__ import annotations

import json
import pathlib
import zipfile
from collections import Counter
from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa
import pytest

from penstock.enumerator.handover.offset_fallbacks import Guarantee, HandOver, hand_over
from penstock.enumerator.handover.offset_search import OffsetsFound, WriterHints, find_offsets
from penstock.enumerator.handover.spark_checkpoints import SparkCheckpoints
from penstock.enumerator.handover.table_commits import commits_before
from penstock.proto.errors import ConfigurationError
from penstock.table.hudi_table import open_table

pytestmark = pytest.mark.golden

GOLDEN = pathlib.Path(__file__).parent
CASES = {case["name"]: case for case in json.loads((GOLDEN / "cases_C.json").read_text())}


class Golden(Protocol):
    """The fixture `golden`."""

    def table(self, name: str) -> pathlib.Path: ...

    def expected(self, name: str, query_id: str) -> pa.Table: ...


def points() -> Iterator[Any]:
    for name, case in CASES.items():
        for point in [case["handover"], *case["handover_more"]]:
            yield pytest.param(name, point, id=f"{name}-{point['instant']}")


def resolved(
    golden: Golden, folder: pathlib.Path, name: str, instant: str | None, rules: WriterHints | None = None
) -> HandOver:
    checkpoint = None
    if "checkpoint" in CASES[name]:
        checkpoint = str(folder / "checkpoint")
        with zipfile.ZipFile(GOLDEN / CASES[name]["checkpoint"]) as packed:
            packed.extractall(checkpoint)
    history = commits_before(open_table(str(golden.table(name))), instant)
    return hand_over(
        find_offsets(history.active, history.archived, rules or WriterHints(), SparkCheckpoints({}, checkpoint))
    )


@pytest.mark.parametrize(("name", "point"), list(points()))
def test_handover_offsets_equal_the_catalogue(
    golden: Golden, tmp_path: pathlib.Path, name: str, point: dict[str, Any]
) -> None:
    rules = WriterHints()
    if "error" in point:
        with pytest.raises(ConfigurationError, match="several writers"):
            resolved(golden, tmp_path, name, point["instant"])
        rules = WriterHints(others_read_topic=False)
    outcome = resolved(golden, tmp_path, name, point["instant"], rules)
    assert outcome.offsets.topic == point["topic"]
    assert outcome.offsets.by_partition() == {int(p): offset for p, offset in point["offsets"].items()}
    assert outcome.guarantee is Guarantee.EXACT
    assert isinstance(outcome.origin, OffsetsFound)
    assert [(s.commit.instant, s.reached.key) for s in outcome.origin.sources] == [(point["found_in"], point["key"])]


@pytest.mark.parametrize("name", ["C_v6_streamer", "C_v6_sink", "C_v9_sink"])
def test_handover_without_an_instant_uses_the_newest(golden: Golden, tmp_path: pathlib.Path, name: str) -> None:
    outcome = resolved(golden, tmp_path, name, None)
    assert outcome.offsets.by_partition() == {int(p): o for p, o in CASES[name]["handover"]["offsets"].items()}


@pytest.mark.parametrize(("name", "broken"), [("C_v6_streamer", ()), ("C_v6_sink", ("o6",)), ("C_v9_sink", ())])
def test_records_below_the_offsets_are_the_table(
    golden: Golden, tmp_path: pathlib.Path, name: str, broken: tuple[str, ...]
) -> None:
    """Replays the topic's dump up to the offsets: the highest ordering value of each key equals Hudi's snapshot."""
    below = resolved(golden, tmp_path, name, None).offsets.by_partition()
    lines = (GOLDEN / CASES[name]["kafka"]["topic_dump"]).read_text().splitlines()
    newest: dict[str, dict[str, Any]] = {}
    left = Counter[int]()
    for record in map(json.loads, lines):
        if record["offset"] >= below[record["partition"]]:
            left[record["partition"]] += 1
            continue
        value = record["value"] if isinstance(record["value"], dict) else json.loads(record["value"])
        if value["id"] not in newest or value["ts"] >= newest[value["id"]]["ts"]:
            newest[value["id"]] = value
    assert left, "the topic has records that the table has not"
    rows = {row["id"]: row for row in golden.expected(name, "snapshot").to_pylist()}
    assert rows.keys() == newest.keys()
    for key in rows.keys() - set(broken):  # o6: with the payload of Hudi 0.15 the later write wins
        assert {column: rows[key][column] for column in newest[key]} == newest[key]
