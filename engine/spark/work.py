"""`penstock.spark.work`: a Spark job whose tasks carry out the table services that a server hands out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.engine.table_services.work.member import WorkResult
from penstock.engine.table_services.work.member import work as carry_out_services
from penstock.proto.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def work(
    spark: SparkSession,
    server: str,
    *,
    tasks: int,
    table: str = "",
    services: Collection[str] = (),
    server_options: Mapping[str, str] | None = None,
) -> WorkResult:
    """Carries out the table services that are due, in `tasks` tasks of one job: each is a member of the server's worker
    group, until nothing is due and nothing is under way. Otherwise as `penstock.work`.

    The folders of the tables must be the same on all executors. A task that is repeated, or runs twice by speculation,
    is one more member. ConfigurationError if `tasks` is not 1 or more.
    """
    if tasks < 1:
        raise ConfigurationError(f"tasks: got {tasks}, expected 1 or more")
    names, options = tuple(services), dict(server_options or {})

    def members(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in batches:
            pass
        result = carry_out_services(server, table=table, services=names, server_options=options, until_idle=True)
        yield pa.RecordBatch.from_pydict({"done": [result.done], "failed": [result.failed]})

    rows = spark.range(0, tasks, 1, tasks).mapInArrow(members, "done long, failed long").collect()
    return WorkResult(done=sum(row["done"] for row in rows), failed=sum(row["failed"] for row in rows))
