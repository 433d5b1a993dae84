"""The modules that each of Spark's Python processes loads: they start often, so imports must stay light."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import Any

import pytest

from penstock.engine.spark.load import Loaded
from penstock.engine.spark.planning import plan_slots, schema_of
from penstock.engine.spark.task.input_partitions import SlotReading
from penstock.engine.spark.task.reader import SlotReader
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.proto.options.registry import ParsedOptions

SERVERS = ["grpc", "pydantic", "prometheus_client", "sqlite3", "penstock.enumerator.core", "penstock.enumerator.server"]
TOPICS = ["confluent_kafka", "penstock.enumerator.handover.resolve", "penstock.reader.topics"]
MERGING = ["numba", "llvmlite", "penstock.reader.merge_on_read", "penstock.reader.cdc.read_changes"]
FILTERS = ["sqlglot"]


def loaded(code: str, *arguments: str) -> set[str]:
    """The modules that a fresh process has loaded after running `code`."""
    process = subprocess.run(
        [sys.executable, "-c", f"import json, sys\n{code}\nprint(json.dumps(list(sys.modules)))", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(json.loads(process.stdout.splitlines()[-1]))


def test_finding_the_source_loads_none_of_it() -> None:
    modules = loaded("from pyspark_penstock import DefaultSource")
    assert {name for name in modules if name.startswith("penstock.")} <= {
        "penstock.engine",
        "penstock.engine.spark",
        "penstock.engine.spark.source",
        "penstock.engine.spark.tracebacks",
        "penstock.version",
    }
    assert "pyarrow" not in modules


@pytest.mark.parametrize("module", ["stream.reader", "batch_reader", "planning"])
def test_planner_loads_neither_servers_nor_the_data_plane(module: str) -> None:
    modules = loaded(f"import penstock.engine.spark.{module}")
    never = [*SERVERS, *TOPICS, *MERGING, *FILTERS, "penstock.reader.read_split", "penstock.proto.model.groups"]
    assert modules.isdisjoint(never)


def test_task_loads_no_planner_and_no_kernel_for_base_files(golden: Any) -> None:
    """The slots of a table without log files are read in a separate process."""
    table = str(golden.table("B_v9_inc_cow"))
    load = Loaded(table, ParsedOptions())
    schema = schema_of(load)
    request = PlanRequest(table=table, query=Snapshot(), columns=tuple(schema.fieldNames()))
    slots = plan_slots(EmbeddedEnumerator(), None, request, schema)
    reader = SlotReader(SlotReading(schema=schema, limit_rows=None, batch_rows=1000, event_time=""))
    pickled = pickle.dumps((reader, slots)).hex()
    modules = loaded(
        "import pickle\n"
        "from pyspark.sql.datasource import InputPartition\n"
        "reader, slots = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "assert sum(batch.num_rows for slot in slots for batch in reader.read(InputPartition(slot)))",
        pickled,
    )
    assert modules.isdisjoint([*SERVERS, *TOPICS, *MERGING, *FILTERS, "fastavro", "penstock.enumerator"])
