"""Hybrid reads of golden tables that Hudi filled from a topic: the lake, then the rest of the topic.

The expected rows come from a replay of the whole topic.
"""

from __future__ import annotations

import json
import pathlib
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.hybrid import HandOverRules, Hybrid, HybridMode, KafkaAccess
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import Changes, Incremental, PlanRequest
from penstock.proto.model.streams import StartAfter, StartSnapshot, StreamPoint, StreamScope, batch_request
from penstock.reader.read_split import read_split
from penstock.reader.topics.reading import TopicReading
from tests.scripted_topic import ScriptedTopic

pytestmark = pytest.mark.golden

GOLDEN = pathlib.Path(__file__).parent
ACCESS = KafkaAccess(client=(("bootstrap.servers", "scripted"),))


@pytest.fixture
def checkpoint(golden: Any, tmp_path: pathlib.Path, case: str) -> str:
    """The folder of the streaming query that wrote the table; empty: no query wrote it."""
    packed = golden.case(case).get("checkpoint")
    if packed is None:
        return ""
    with zipfile.ZipFile(GOLDEN / packed) as archive:
        archive.extractall(tmp_path / "checkpoint")
    return str(next((tmp_path / "checkpoint").rglob("offsets")).parent)


def delivered(path: str, topic: ScriptedTopic, hybrid: Hybrid) -> Iterator[tuple[StreamPoint, dict[str, Any]]]:
    """Every row of the stream until the end of the topic, with the point of its batch."""
    changelog = hybrid.mode is HybridMode.CHANGELOG
    query = Changes(ChangeFormat.ROWS) if changelog else Incremental()
    scope = StreamScope(request=PlanRequest(table="t", query=query, hybrid=hybrid))
    reads = OpenTables(open_topic=topic.open)
    point = reads.start_stream(path, "t", scope, StartSnapshot() if changelog else StartAfter(EARLIEST))
    while (result := reads.next_batch(path, "t", scope, point).point) != point:
        point = result
        request = batch_request(scope, point)
        plan = None if request is None else reads.plan(path, "t", request)
        for split in () if plan is None else plan.splits:
            for part in read_split(
                plan.scan, split, topics=TopicReading(records=topic.open_records(ACCESS), access=ACCESS)
            ):
                for row in part.batch.to_pylist():
                    yield point, row
    assert point.progress.kafka is not None, "the lake was never left"
    assert point.progress.kafka.behind == 0


def folded(rows: Iterator[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The remaining row of each id: the highest ts, of equal ones the later."""
    left: dict[str, tuple[Any, ...]] = {}
    for row in rows:
        known = left.get(row["id"])
        if known is None or row["ts"] >= known[0]:
            left[row["id"]] = (row["ts"], row["region"], float(row["amount"]))
    return left


@pytest.mark.parametrize("case", ["C_v6_streamer", "C_v9_sink"])
@pytest.mark.parametrize("mode", list(HybridMode))
def test_row_19_hybrid_read_folds_to_a_replay_of_the_whole_topic(
    golden: Any, case: str, mode: HybridMode, checkpoint: str
) -> None:
    topic = ScriptedTopic.of_golden(GOLDEN, golden.case(case))
    rules = HandOverRules(checkpoints=(("", checkpoint),) if checkpoint else ())
    hybrid = Hybrid(mode=mode, topic=topic.topic, rules=rules, access=ACCESS)
    rows = list(delivered(str(golden.table(case)), topic, hybrid))
    assert folded(row for _, row in rows) == folded(json.loads(item.value or b"") for item in topic.records)
    later = [row for point, row in rows if point.progress.kafka is not None]
    reported = golden.case(case)["handover"]["offsets"]
    expected = [item for item in topic.records if item.offset >= reported[str(item.partition)]]
    assert len(later) == len(expected) > 0
    if mode is HybridMode.CHANGELOG:
        assert {row["_change_type"] for point, row in rows if point.progress.kafka is None} == {"+I"}
        assert {row["_change_type"] for row in later} == {"+U"}
        sequences = [row["_change_seq"] for _, row in rows]
        assert max(sequences[: len(sequences) - len(later)]) < min(row["_change_seq"] for row in later)


@pytest.mark.parametrize("case", ["C_v6_streamer", "C_v9_sink"])
def test_row_01_writer_killed_between_its_data_and_its_commit_changes_no_row(
    golden: Any, case: str, checkpoint: str, tmp_path: pathlib.Path
) -> None:
    """The files and the requested commit exist. The completed commit does not; for a query, nor does the entry of the
    batch in the checkpoint's commit log."""
    table = golden.copy(case, tmp_path)
    timeline = table / ".hoodie" / ("timeline" if (table / ".hoodie" / "timeline").is_dir() else "")
    done = max(timeline.glob("2*.deltacommit"), key=lambda file: file.name)
    later = [file for file in (table / ".hoodie").rglob("2*") if file.name[:17] > done.name[:17]]
    for file in (done, *later):
        file.unlink()
    if checkpoint:
        max((pathlib.Path(checkpoint) / "commits").glob("[0-9]*"), key=lambda file: int(file.name)).unlink()
    topic = ScriptedTopic.of_golden(GOLDEN, golden.case(case))
    rules = HandOverRules(checkpoints=(("", checkpoint),) if checkpoint else ())
    hybrid = Hybrid(mode=HybridMode.CHANGELOG, topic=topic.topic, rules=rules, access=ACCESS)
    rows = list(delivered(str(table), topic, hybrid))
    assert folded(row for _, row in rows) == folded(json.loads(item.value or b"") for item in topic.records)
    kafka = rows[-1][0].progress.kafka
    assert kafka is not None and kafka.instant < done.name[:17]
    reported = golden.case(case)["handover"]["offsets"]
    assert any(offset < reported[str(partition)] for partition, offset in kafka.starts)
