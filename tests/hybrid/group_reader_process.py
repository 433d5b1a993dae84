"""A reader of a hybrid consumer group, which tests kill at any time; run as a process.

Its argument is JSON: `server`, `table`, `options`, `folder`. Each batch is a file in `out` of the folder, written
before its commit and named by plan, split and ordinals. Nothing is committed while a file `hold` exists; the file
`stop` ends the process.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from penstock.engine.consumer import ConsumedBatch
from penstock.proto.errors import Fenced, PenstockError


def main(text: str) -> None:
    """Runs until the file `stop` exists."""
    arguments = json.loads(text)
    folder = pathlib.Path(arguments["folder"])
    consumer = penstock.Consumer(arguments["server"], arguments["table"], **arguments["options"])
    is_member = False
    while not (folder / "stop").exists():
        try:
            if not is_member:
                consumer.join()
                is_member = True
            consumed = consumer.poll(200)
            if consumed is not None:
                keep(folder / "out", consumed)
                while (folder / "hold").exists():
                    time.sleep(0.01)
                consumer.commit(consumed)
        except Fenced:
            is_member = False
        except PenstockError as error:
            if not error.retryable:
                raise
    consumer.close()


def keep(folder: pathlib.Path, consumed: ConsumedBatch) -> None:
    """Writes a batch as a file; a repeated batch replaces it."""
    split = hashlib.sha256(f"{consumed.plan_id} {consumed.split_id}".encode()).hexdigest()[:20]
    name = f"{split}-{consumed.first_ordinal}-{consumed.next_ordinal}.parquet"
    partial = folder / f".{os.getpid()}-{name}"
    pq.write_table(pa.Table.from_batches([consumed.batch]), partial)
    partial.replace(folder / name)


if __name__ == "__main__":
    main(sys.argv[1])
