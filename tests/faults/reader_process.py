"""A reader of group `g` as a process, for tests that stop or kill it. Run as `python reader_process.py SERVER READER`.

For each batch it prints `holds SPLIT ROWS` (JSON: the first ordinal and the rows), waits for a line on stdin, commits,
and prints `committed`. After an error it prints the code and ends.
"""

from __future__ import annotations

import json
import os
import sys

from penstock.engine.consumer import Consumer
from penstock.proto.errors import PenstockError


def print_line(line: str) -> None:
    os.write(1, line.encode() + b"\n")


def main(server: str, reader_id: str) -> None:
    try:
        with Consumer(
            server, "t", group="g", reader_id=reader_id, query="cdc", cdc_format="hudi", max_splits=2
        ) as consumer:
            for batch in consumer:
                rows = {"first": batch.first_ordinal, "rows": batch.batch.to_pylist()}
                print_line(f"holds {batch.split_id} {json.dumps(rows)}")
                sys.stdin.readline()
                consumer.commit(batch)
                print_line("committed")
    except PenstockError as error:
        print_line(f"{error.code} {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
