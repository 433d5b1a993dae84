"""Penstock: consume and write Apache Hudi tables from Python and Spark, row for row what Hudi returns.

`read` reads a table into Arrow, `open_table` opens a table that is read several times; `Consumer` reads a table as a
member of a consumer group; `create_table` creates a table, `write` writes Arrow data into one, `rollback` rolls writes
back; `compact`, `cluster`, `clean`, `archive`, `savepoint`, `savepoint_readers`, `delete_savepoint` and `restore` are
table services; `maintain` runs those that are due; `errors` holds the exceptions, `spark` the functions for Spark
programs, and `daft`, `duckdb`, `polars` and `ray` those for these engines. The classes are those of results and
settings. Everything else in this package is internal and may change.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from penstock.version import __version__

if TYPE_CHECKING:
    from penstock import daft, duckdb, errors, polars, ray, spark
    from penstock.engine.arrow import read
    from penstock.engine.consumer import Consumer
    from penstock.engine.group.batch import ConsumedBatch
    from penstock.engine.instants import TableInstant
    from penstock.engine.table.plan import PlannedSplit, TablePlan
    from penstock.engine.table.scan import Scan
    from penstock.engine.table.table import Table, open_table
    from penstock.engine.table_services.archive import ArchiveResult, archive
    from penstock.engine.table_services.clean import CleanResult, clean
    from penstock.engine.table_services.clustering import ClusteringSizes, cluster
    from penstock.engine.table_services.compaction import compact
    from penstock.engine.table_services.holding.readers import CleanerHold
    from penstock.engine.table_services.holding.savepoints import ReaderSavepoints, savepoint_readers
    from penstock.engine.table_services.inline_compaction import write
    from penstock.engine.table_services.maintain import MaintainResult, maintain
    from penstock.engine.table_services.restore import RestoreResult, restore
    from penstock.engine.table_services.results import ServiceResult
    from penstock.engine.table_services.savepoints import SavepointResult, delete_savepoint, savepoint
    from penstock.engine.table_services.work.member import WorkResult, work
    from penstock.engine.write.create import create_table
    from penstock.engine.write.results import WriteResult
    from penstock.engine.write.rollback import rollback
    from penstock.proto.model.groups import ResetOutcome
    from penstock.proto.model.positions import Position


__all__ = [
    "ArchiveResult",
    "CleanResult",
    "CleanerHold",
    "ClusteringSizes",
    "ConsumedBatch",
    "Consumer",
    "MaintainResult",
    "PlannedSplit",
    "Position",
    "ReaderSavepoints",
    "ResetOutcome",
    "RestoreResult",
    "SavepointResult",
    "Scan",
    "ServiceResult",
    "Table",
    "TableInstant",
    "TablePlan",
    "WorkResult",
    "WriteResult",
    "__version__",
    "archive",
    "clean",
    "cluster",
    "compact",
    "create_table",
    "daft",
    "delete_savepoint",
    "duckdb",
    "errors",
    "maintain",
    "open_table",
    "polars",
    "ray",
    "read",
    "restore",
    "rollback",
    "savepoint",
    "savepoint_readers",
    "spark",
    "work",
    "write",
]

_SUBMODULES = ("daft", "duckdb", "errors", "polars", "ray", "spark")
"""The public modules."""

_MODULES = {
    "ArchiveResult": "penstock.engine.table_services.archive",
    "CleanResult": "penstock.engine.table_services.clean",
    "CleanerHold": "penstock.engine.table_services.holding.readers",
    "ClusteringSizes": "penstock.engine.table_services.clustering",
    "ConsumedBatch": "penstock.engine.group.batch",
    "Consumer": "penstock.engine.consumer",
    "MaintainResult": "penstock.engine.table_services.maintain",
    "PlannedSplit": "penstock.engine.table.plan",
    "Position": "penstock.proto.model.positions",
    "ReaderSavepoints": "penstock.engine.table_services.holding.savepoints",
    "ResetOutcome": "penstock.proto.model.groups",
    "RestoreResult": "penstock.engine.table_services.restore",
    "SavepointResult": "penstock.engine.table_services.savepoints",
    "Scan": "penstock.engine.table.scan",
    "ServiceResult": "penstock.engine.table_services.results",
    "Table": "penstock.engine.table.table",
    "TableInstant": "penstock.engine.instants",
    "TablePlan": "penstock.engine.table.plan",
    "WorkResult": "penstock.engine.table_services.work.member",
    "WriteResult": "penstock.engine.write.results",
    "archive": "penstock.engine.table_services.archive",
    "clean": "penstock.engine.table_services.clean",
    "cluster": "penstock.engine.table_services.clustering",
    "compact": "penstock.engine.table_services.compaction",
    "create_table": "penstock.engine.write.create",
    "delete_savepoint": "penstock.engine.table_services.savepoints",
    "maintain": "penstock.engine.table_services.maintain",
    "open_table": "penstock.engine.table.table",
    "read": "penstock.engine.arrow",
    "restore": "penstock.engine.table_services.restore",
    "rollback": "penstock.engine.write.rollback",
    "savepoint": "penstock.engine.table_services.savepoints",
    "savepoint_readers": "penstock.engine.table_services.holding.savepoints",
    "work": "penstock.engine.table_services.work.member",
    "write": "penstock.engine.table_services.inline_compaction",
}
"""The module of each public name that is imported on first use. `import penstock` loads neither pyarrow nor pyspark."""


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return import_module(f"penstock.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
