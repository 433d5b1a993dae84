"""Every real table: properties, timeline, every commit and plan load, or are refused by name; nothing else happens."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pyarrow.fs as pafs
import pytest

from penstock.enumerator.planning.discovery import read_timeline
from penstock.enumerator.planning.schemas import table_schema_text
from penstock.proto.model.splits import (
    CommitTimeOrdering,
    DeleteMarker,
    EventTimeOrdering,
    FillDefaults,
    FillMarked,
    FillNulls,
)
from penstock.table.config.merge_rules import merge_rules
from penstock.table.config.payload_classes import MergeRules
from penstock.table.config.properties import load_properties
from penstock.table.files.names import parse_file_name
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.storage.filesystem import ArrowStorage
from penstock.table.timeline.instants import Action, comparable_action

pytestmark = pytest.mark.golden

GOLDEN = pathlib.Path(__file__).parents[2] / "golden"
CASES = {case["name"]: case for file in sorted(GOLDEN.glob("cases_*.json")) for case in json.loads(file.read_text())}

_OP = DeleteMarker("Op", "D")
_DEBEZIUM = DeleteMarker("_change_operation_type", "d")
_TOAST = "__debezium_unavailable_value"
_TS = EventTimeOrdering(("ts",))
MERGE_RULES = {
    "A_merge_custom_delete_v9": MergeRules(mode=_TS, delete_marker=DeleteMarker("op", "D")),
    "A_merge_multi_ordering_v9": MergeRules(mode=EventTimeOrdering(("ts", "seq"))),
    "A_payload_awsdms": MergeRules(mode=CommitTimeOrdering(), delete_marker=_OP),
    "A_payload_mysql_v6": MergeRules(
        mode=EventTimeOrdering(("_event_seq",), dotted_numbers=True, deletes_win=True), delete_marker=_DEBEZIUM
    ),
    "A_payload_mysql_v9": MergeRules(
        mode=EventTimeOrdering(("_event_bin_file", "_event_pos")), delete_marker=_DEBEZIUM
    ),
    "A_payload_nondefaults_v6": MergeRules(mode=CommitTimeOrdering(), fill=FillDefaults(by_identity=False)),
    "A_payload_nondefaults_v9": MergeRules(mode=CommitTimeOrdering(), fill=FillDefaults(by_identity=True)),
    "A_payload_partial_update_v6": MergeRules(mode=EventTimeOrdering(("ts",), deletes_win=True), fill=FillNulls()),
    "A_payload_partial_update_v8": MergeRules(mode=EventTimeOrdering(("ts",), deletes_win=True), fill=FillNulls()),
    "A_payload_partial_update_v9": MergeRules(mode=_TS, fill=FillDefaults(by_identity=True)),
    "A_payload_postgres_v6": MergeRules(
        mode=EventTimeOrdering(("_event_lsn",), deletes_win=True),
        fill=FillMarked(_TOAST, from_newer=False),
        delete_marker=_DEBEZIUM,
    ),
    "A_payload_postgres_v9": MergeRules(
        mode=EventTimeOrdering(("_event_lsn",)), fill=FillMarked(_TOAST, from_newer=True), delete_marker=_DEBEZIUM
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_table_loads(golden: Any, case: str) -> None:
    table = open_table(str(golden.table(case)))
    assert table.properties.version == CASES[case]["table_version"]
    assert table.properties.layout == (1 if table.properties.version < 8 else 2)
    table.refuse_unsupported()
    _check_merge_mode(table, case)
    named = _check_timeline(table)
    partitions = table.list_partitions()
    assert {partition for partition, _ in named} <= set(partitions)
    listed = {file.ref.path for partition in partitions for file in table.list_partition(partition)}
    assert listed and {path for _, path in named if path} & listed


def _check_merge_mode(table: HudiTable, case: str) -> None:
    expected = next((rules for prefix, rules in MERGE_RULES.items() if case.startswith(prefix)), None)
    rules = merge_rules(table.properties)
    if expected is None:
        assert rules in (MergeRules(mode=CommitTimeOrdering()), MergeRules(mode=_TS))
    elif table.properties.is_merge_on_read:
        assert rules == expected


def _check_timeline(table: HudiTable) -> set[tuple[str, str]]:
    """Every commit, plan and clean decodes; (partition, path) of every write stat."""
    timeline = table.timeline()
    named: set[tuple[str, str]] = set()
    for instant in timeline.completed_writes:
        commit = table.commit(instant)
        assert commit.operation and commit.schema_json and timeline.completed_write(instant.requested_time) is instant
        for stat in commit.stats:
            name = parse_file_name(stat.file_name)
            assert name is not None and name.file_id == stat.file_id
            named.add((stat.partition, stat.path))
        if instant.action is Action.REPLACE_COMMIT:
            clustering = table.requested_replace(instant).is_clustering
            assert clustering is (commit.operation == "CLUSTER")
            assert not clustering or set(table.requested_replace(instant).input_groups) == set(commit.replaced)
    for instant in timeline.pending:
        assert timeline.completed_write(instant.requested_time) is None
        assert instant.requested_time >= timeline.first_active
        if instant.action in (Action.COMPACTION, Action.LOG_COMPACTION):
            assert table.compaction_plan(instant)
        elif comparable_action(instant.action) is Action.REPLACE_COMMIT:
            assert table.requested_replace(instant).is_clustering
    for instant in timeline.completed_cleans:
        assert table.clean(instant).partitions
    return named


@pytest.mark.parametrize("case", [name for name, case in CASES.items() if case.get("instants")])
def test_completed_instants_are_those_the_catalogue_names(golden: Any, case: str) -> None:
    timeline = open_table(str(golden.table(case))).timeline()
    result = {(i.requested_time, i.completion_time, i.action) for i in timeline.instants if i.is_completed}
    expected = {(requested, completion, action) for requested, completion, action in CASES[case]["instants"]}
    if timeline.layout == 1:
        expected = {(requested, None, action) for requested, _, action in expected}
    assert result == expected


@pytest.mark.parametrize("case", CASES)
def test_schema_has_the_columns_hudi_returned(golden: Any, case: str) -> None:
    table = open_table(str(golden.table(case)))
    schema = table_schema_text(table, read_timeline(table))
    queries = [q for q in CASES[case]["queries"] if q["query"] == "snapshot" and q["rows"] and not q.get("error")]
    for query in queries[:1]:
        names = [field["name"] for field in json.loads(schema)["fields"]]
        assert names == golden.expected(case, query["id"]).column_names


@pytest.mark.parametrize("case", ["A_merge_event_long_v6_h0150", "B_v9_arch_mor"])
def test_nothing_assumes_a_local_path(golden: Any, case: str) -> None:
    memory = pafs._MockFileSystem()
    base: pathlib.Path = golden.table(case)
    for file in sorted(path for path in base.rglob("*") if path.is_file()):
        target = f"bucket/lake/{file.relative_to(base).as_posix()}"
        memory.create_dir(target.rpartition("/")[0], recursive=True)
        with memory.open_output_stream(target) as out:
            out.write(file.read_bytes())
    storage = ArrowStorage("mock://bucket/lake", memory, "bucket/lake")
    far, near = HudiTable(storage, load_properties(storage)), open_table(str(base))
    assert far.timeline() == near.timeline()
    assert far.list_partitions() == near.list_partitions()
    assert far.archived_completions() == near.archived_completions()
    commits = [[table.commit(i) for i in table.timeline().completed_writes] for table in (far, near)]
    assert commits[0] == commits[1]
    for partition in near.list_partitions():
        paths = [[file.ref.path for file in table.list_partition(partition)] for table in (far, near)]
        assert paths[0] == paths[1]
