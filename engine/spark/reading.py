"""What a load and Spark's schema of it come to: the options with every column named, and how slots are read.

Pure. One rule for batch and stream.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.types import StructType

from penstock.engine.hybrid_requests import access_of
from penstock.engine.spark.options import Loaded, wanted_columns
from penstock.engine.spark.slots import SlotReading
from penstock.engine.spark.watermark_columns import WATERMARK, event_time_column, table_part
from penstock.engine.stream_requests import lost_range_policy
from penstock.proto.lost_ranges import OnLostRange


def resolved(
    load: Loaded, schema: StructType, *, limit_rows: int | None = None, narrows: bool = False
) -> tuple[Loaded, SlotReading]:
    """The load with its columns, and the event-time column, named as the schema does; and the reading of its slots.

    ConfigurationError: the schema does not hold what the options ask for.
    """
    options = load.options
    table = table_part(schema, options)
    columns = wanted_columns(table, options)
    event_time = event_time_column(table, options).name if options.event_time else ""
    reading = SlotReading(
        schema=table,
        limit_rows=limit_rows,
        batch_rows=options.batch_rows,
        event_time=event_time,
        watermarked=schema if WATERMARK in schema.fieldNames() and event_time else None,
        event_time_unit=options.event_time_unit,
        narrows=narrows,
        access=access_of(options),
        retry=options.retry,
        skips_lost=lost_range_policy(options) is OnLostRange.EARLIEST,
    )
    return Loaded(load.table, replace(options, columns=columns, event_time=event_time)), reading
