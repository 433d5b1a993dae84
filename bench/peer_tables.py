"""Writes and reads tables of other formats for `peers.py`: runs in an environment of its own, without Penstock.

    python peer_tables.py write FORMAT TABLE ROWS     one commit for each Parquet file of the folder ROWS
    python peer_tables.py read FORMAT TABLE           a run for each line of stdin, and a JSON line for each run

A run reads what all commits after the first one changed. Its line has the processor seconds, the number of rows, and
the sum of a column. `peers.py` compares the results by the last two.
"""

from __future__ import annotations

import json
import pathlib
import sys
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

KEY, VALUE = "id", "quantity"
TIMES = "times.json"
"""File beside a Paimon table: milliseconds after its first commit and after its last one."""


def write_delta(table: str, files: list[pathlib.Path]) -> None:
    """A Delta table with a change data feed; commits after the first one merge by key."""
    from deltalake import DeltaTable, write_deltalake

    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(table, pq.read_table(files[0]), configuration=feed)
    for file in files[1:]:
        merge = DeltaTable(table).merge(pq.read_table(file), f"s.{KEY} = t.{KEY}", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()


def read_delta(table: str) -> Iterator[pa.RecordBatch]:
    """The change data feed of all versions after the first one."""
    from deltalake import DeltaTable

    yield from pa.RecordBatchReader.from_stream(DeltaTable(table).load_cdf(starting_version=1))


def write_paimon(table: str, files: list[pathlib.Path]) -> None:
    """A Paimon table of one bucket with a primary key."""
    from pypaimon import CatalogFactory, Schema

    catalog = CatalogFactory.create({"warehouse": table})
    catalog.create_database("bench", True)
    schema = pq.read_schema(files[0])
    catalog.create_table(
        "bench.t", Schema.from_pyarrow_schema(schema, primary_keys=[KEY], options={"bucket": "1"}), False
    )
    written_ms = []
    for file in files:
        builder = catalog.get_table("bench.t").new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(pq.read_table(file))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()
        written_ms.append(time.time_ns() // 1_000_000)
        time.sleep(0.01)  # the times of commits are those of the clock, in milliseconds
    pathlib.Path(table, TIMES).write_text(json.dumps([written_ms[0] + 1, written_ms[-1] + 1]))


def read_paimon(table: str) -> Iterator[pa.RecordBatch]:
    """The rows that the commits after the first one wrote: each version of a row."""
    from pypaimon import CatalogFactory

    after_ms, upto_ms = json.loads(pathlib.Path(table, TIMES).read_text())
    opened = CatalogFactory.create({"warehouse": table}).get_table("bench.t")
    builder = opened.copy({"incremental-between-timestamp": f"{after_ms},{upto_ms}"}).new_read_builder()
    yield from builder.new_read().to_arrow_batch_reader(builder.new_scan().plan().splits())


def sums(batches: Iterator[pa.RecordBatch]) -> dict[str, int]:
    """The number of rows and the sum of a column."""
    rows, total = 0, 0
    for batch in batches:
        rows += batch.num_rows
        total += pc.sum(batch.column(VALUE)).as_py() or 0
    return {"rows": rows, "sum": total}


def answer_runs(read: Callable[[], Iterator[pa.RecordBatch]]) -> None:
    """Makes a run for each line of stdin, and writes its JSON line."""
    for _ in sys.stdin:
        began = time.process_time()
        result = sums(read())
        print(json.dumps({"cpu_s": time.process_time() - began, **result}), flush=True)


WRITE = {"delta": write_delta, "paimon": write_paimon}
READ = {"delta": read_delta, "paimon": read_paimon}


def main() -> None:
    """See the module."""
    action, form, table, *rows = sys.argv[1:]
    if action == "write":
        WRITE[form](table, sorted(pathlib.Path(rows[0]).glob("*.parquet")))
    else:
        answer_runs(lambda: READ[form](table))


if __name__ == "__main__":
    main()
