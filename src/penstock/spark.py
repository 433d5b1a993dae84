"""Functions for Spark programs. Importing this module does not load pyspark.

Import it before the Spark session starts: if the environment of this program is not activated, the import sets the
variable PYSPARK_PYTHON to this environment's Python (docs/guides/spark-start.md). It changes nothing else, and nothing
that the user has set.

The data source itself needs no import: where `pyspark_penstock` is on the driver's Python path, Spark finds the format
`penstock` by itself, and `spark.read.format("penstock")` and `spark.readStream.format("penstock")` work.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from penstock.engine.spark.startup import use_this_python

if TYPE_CHECKING:
    from penstock.engine.spark.catalog.functions import register_functions
    from penstock.engine.spark.catalog.views import CreatedViews, create_views
    from penstock.engine.spark.query.explain import explain
    from penstock.engine.spark.query.sql import sql
    from penstock.engine.spark.query.table import table
    from penstock.engine.spark.source import register
    from penstock.engine.spark.stream.await_end import await_end
    from penstock.engine.spark.watermark.eviction import with_source_watermark
    from penstock.engine.spark.work import work
    from penstock.engine.spark.write.sink import sink
    from penstock.engine.spark.write.write import write

__all__ = [
    "CreatedViews",
    "await_end",
    "create_views",
    "explain",
    "register",
    "register_functions",
    "sink",
    "sql",
    "table",
    "with_source_watermark",
    "work",
    "write",
]

_MODULES = {
    "CreatedViews": "penstock.engine.spark.catalog.views",
    "await_end": "penstock.engine.spark.stream.await_end",
    "create_views": "penstock.engine.spark.catalog.views",
    "explain": "penstock.engine.spark.query.explain",
    "register": "penstock.engine.spark.source",
    "register_functions": "penstock.engine.spark.catalog.functions",
    "sink": "penstock.engine.spark.write.sink",
    "sql": "penstock.engine.spark.query.sql",
    "table": "penstock.engine.spark.query.table",
    "with_source_watermark": "penstock.engine.spark.watermark.eviction",
    "work": "penstock.engine.spark.work",
    "write": "penstock.engine.spark.write.write",
}
"""The module of each public name that is imported on first use, because its module imports pyspark."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'penstock.spark' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__


use_this_python()
