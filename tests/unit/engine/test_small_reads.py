"""What a process imports that reads a small table: neither numba nor pandas, nor planners of other queries."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pyarrow as pa
import pytest

import penstock

PROGRAM = """
import json, sys
before = set(sys.modules)
import penstock
rows = penstock.read(sys.argv[1], **json.loads(sys.argv[2])).read_all().num_rows
print(json.dumps([rows, sorted(set(sys.modules) - before)]))
"""
CLASSES = """
import json, sys, penstock
penstock.read(sys.argv[1]).read_all()
own = [module for name, module in list(sys.modules.items()) if name.startswith("penstock.")]
known = {value for module in own for value in vars(module).values() if isinstance(value, type)}
classes = {c for c in known if c.__module__.startswith("penstock.") and "__dataclass_params__" in vars(c)}
slotted = {c for c in classes if "__slots__" in vars(c) and not c.__dataclass_params__.order}
plain = {c for c in slotted if not any(hasattr(base, "__dataclass_params__") for base in c.__mro__[1:])}
eager = sorted(f"{c.__module__}.{c.__name__}" for c in plain if "__signature__" not in vars(c))
late = [c for c in plain if hasattr(c.__init__, "is_late")]
with_fields = [c for c in plain if isinstance(vars(c)["__dataclass_fields__"], dict)]
print(json.dumps([eager, len(late), len(plain) - len(late), len(with_fields)]))
"""
PACKAGES = {"cloudpickle", "fastavro", "numpy", "penstock", "pyarrow"}
"""The packages outside of the standard library that a small read imports."""
OTHER_QUERIES = {
    "penstock.enumerator.continuous.advance",
    "penstock.enumerator.core",
    "penstock.enumerator.observer",
    "penstock.enumerator.planning.change_planner",
    "penstock.enumerator.streams.stream_planner",
    "penstock.proto.model.groups",
    "penstock.proto.model.streams",
    "penstock.reader.cdc",
    "penstock.reader.topics",
}
"""Modules of streams, groups, changes and topics."""
RARELY_NEEDED = {
    "difflib",
    "fractions",
    "penstock.enumerator.planning.pruning.groups",
    "penstock.enumerator.snapshots.plan",
    "penstock.enumerator.tables.timeline_watcher",
    "penstock.kafka.protocols",
    "penstock.kafka.secrets",
    "penstock.reader.avro.decoder",
    "penstock.reader.base.legacy_calendar",
    "penstock.reader.kernels.avro",
    "penstock.table.log.deletes",
    "penstock.table.storage.local_writes",
    "penstock.table.timeline.archive_v1",
    "penstock.table.timeline.services.clean_encoder",
    "penstock.table.timeline.services.savepoints",
    "pyarrow.compute",
    "zoneinfo",
}
"""Modules of servers, errors, logs in Avro, old files, writes and conditions, of which each costs half a millisecond
or more."""


def imported(table: str, **options: object) -> tuple[int, set[str]]:
    """The rows that a new process reads, and the modules that it imports."""
    command = [sys.executable, "-P", "-c", PROGRAM, table, json.dumps(options)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    rows, modules = json.loads(done.stdout)
    return rows, set(modules)


def packages(modules: set[str]) -> set[str]:
    """Their first names, without modules of the interpreter and of the standard library."""
    names = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names
    return {name for name in names if not name.startswith(("_", "cython_runtime"))}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """50 rows in a base file, ten of them also in a log."""
    path = str(tmp_path_factory.mktemp("small") / "t")
    schema = pa.schema([("id", pa.string()), ("seq", pa.int64()), ("city", pa.string())])
    penstock.create_table(
        path, schema, record_key="id", ordering="seq", partition_by="city", buckets=1, table_type="merge_on_read"
    )
    for seq, count in ((1, 50), (2, 10)):
        rows = {"id": [str(number) for number in range(count)], "seq": [seq] * count, "city": ["c"] * count}
        penstock.write(path, pa.table(rows, schema))
    return path


@pytest.mark.parametrize("options", [{}, {"limit": 50}, {"columns": ["id", "city"]}, {"query": "read_optimized"}])
def test_snapshot_imports_little(table: str, options: dict[str, object]) -> None:
    rows, modules = imported(table, **options)
    assert rows == 50
    assert packages(modules) == PACKAGES
    assert modules.isdisjoint(OTHER_QUERIES)
    assert modules & RARELY_NEEDED == set()


def test_classes_of_a_snapshot_make_their_methods_late(table: str) -> None:
    """But for classes that the standard decorator alone makes, and with the control that a few have been made."""
    done = subprocess.run([sys.executable, "-P", "-c", CLASSES, table], capture_output=True, text=True, check=True)
    eager, late, made, with_fields = json.loads(done.stdout)
    assert eager == []
    assert late > 150
    assert 5 < made < 50
    assert 0 < with_fields < 50


def test_other_queries_import_more(table: str) -> None:
    """The control: the program sees modules that are imported."""
    _, modules = imported(table, query="cdc", after="earliest", where="seq > 1")
    assert {"penstock.enumerator.planning.change_planner", "penstock.reader.cdc", "pyarrow.compute"} <= modules
    assert packages(modules) > PACKAGES
