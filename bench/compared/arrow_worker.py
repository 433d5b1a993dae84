"""Runs one Arrow reader in its own process: `python -m bench.compared.arrow_worker READER` answers JSON lines.

Request: {"path", "columns": [name], "options": {name: text}, "count": mode}
  no mode: batches are counted and dropped
  "fingerprint": batches are fingerprinted by "kinds": [[name, kind]], or as change data without "kinds"
Answer: {"rows", "batches", "values", "cpu_s", "wall_s", "read_bytes"}. `cpu_s` is the process CPU time, so it includes
every thread of the reader; `read_bytes` counts the bytes of its read system calls.
"""

from __future__ import annotations

import json
import pathlib
import sys
import time
import traceback
from typing import Any

from bench.compared.arrow_readers import READERS, as_batch
from bench.compared.columns import Column, changes_fingerprint, fingerprint
from penstock.reader.read_split import warm_up


def read_bytes() -> int:
    """Bytes of this process's read system calls, page cache included; 0 if the system has no such counter."""
    io_file = pathlib.Path("/proc/self/io")
    return int(io_file.read_text().partition("rchar:")[2].split()[0]) if io_file.exists() else 0


def answer(reader: str, request: dict[str, Any]) -> dict[str, Any]:
    """Executes one request."""
    before, wall, cpu = read_bytes(), time.perf_counter(), time.process_time()
    batches = (as_batch(b) for b in READERS[reader](request["path"], request["columns"], request.get("options", {})))
    values: tuple[int, int] | None = None
    rows = batch_count = 0
    if request.get("count") == "fingerprint":
        kinds = request.get("kinds")
        columns = [Column(name, kind, "") for name, kind in kinds or ()]
        values = fingerprint(batches, columns) if kinds else changes_fingerprint(batches)
        rows = values[0]
    else:
        for batch in batches:
            rows, batch_count = rows + batch.num_rows, batch_count + 1
            del batch
    spent = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
    texts = [str(value) for value in values] if values else None
    return {"rows": rows, "batches": batch_count, "values": texts, "read_bytes": read_bytes() - before, **spent}


def main() -> None:
    """Answers until stdin ends."""
    reader = sys.argv[1]
    if reader == "penstock":
        # A small read loads no compiled kernel, so the baseline of a memory measurement would have none.
        warm_up()
    print(json.dumps({"ok": reader}), flush=True)
    for line in sys.stdin:
        try:
            result = {"ok": answer(reader, json.loads(line))}
        except BaseException:  # noqa: BLE001 - a Rust panic is no Exception; the bench reports it
            result = {"error": traceback.format_exc()[-6000:]}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
