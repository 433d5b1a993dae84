"""Topics of real writers, decoded and folded by key, equal the table that Hudi wrote from them."""

from __future__ import annotations

import json
import pathlib
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.table.schema.avro import META_COLUMNS, parse_record_schema
from tests.unit.reader.topics.fake_topic import FakeTopic, read_all, rows_of, topic_scan, topic_split

GOLDEN = pathlib.Path(__file__).parents[3] / "golden"


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("case", ["C_v6_streamer", "C_v9_sink", "C_v9_streamer_keys"])
def test_fold_of_the_topic_is_the_table(golden: Any, case: str, compiled: bool) -> None:
    facts = golden.case(case)
    table = str(golden.table(case))
    schema = EmbeddedEnumerator().describe_table(table).schema_json
    columns = [f.name for f in parse_record_schema(schema).fields if f.name not in META_COLUMNS]
    scan = replace(topic_scan(key_fields=("id",)), schema_json=schema, columns=(*columns, "_change_type"))
    records: dict[int, FakeTopic] = {}
    for line in (GOLDEN / facts["kafka"]["topic_dump"]).read_text().splitlines():
        record = json.loads(line)
        topic = records.setdefault(record["partition"], FakeTopic())
        topic.records[record["offset"]] = (None, json.dumps(record["value"]).encode())
    newest: dict[object, dict[str, Any]] = {}
    for partition, end in facts["handover"]["offsets"].items():
        topic = records.get(int(partition), FakeTopic())
        for row in rows_of(read_all(scan, topic, split=topic_split(0, end, int(partition)), compiled=compiled)):
            assert row.pop("_change_type") == "+U"
            key, ordering = row["id"], row["ts"]
            if key not in newest or ordering >= newest[key]["ts"]:
                newest[key] = row
    queries = {query["id"]: query for query in facts["queries"]}
    state = queries.get(f"asof_{facts['handover']['instant']}", queries["snapshot"])
    expected = pq.read_table(GOLDEN / state["expected"]).select(columns).to_pylist()
    assert sorted(newest.values(), key=str) == sorted(expected, key=str)
    assert len(expected) >= 5
