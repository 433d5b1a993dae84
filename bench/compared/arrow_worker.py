"""One Arrow reader in a process of its own: `python -m compared.arrow_worker READER` answers JSON lines.

Request: {"path", "columns": [name], "options": {name: text}, "count": how}
  "rows": batches are counted and dropped; "batches" too
  "fingerprint": and fingerprinted, by "kinds": [[name, kind]], or as change data where there is none
Answer: {"rows", "batches", "values", "cpu_s", "wall_s", "read_bytes"}; processor seconds are the process's, so of every
thread of the reader; read_bytes are those that it asked of the system.
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


def read_bytes() -> int:
    """Bytes that this process has asked of the system, from the page cache or not; 0 where the system does not say."""
    told = pathlib.Path("/proc/self/io")
    return int(told.read_text().partition("rchar:")[2].split()[0]) if told.exists() else 0


def answer(reader: str, request: dict[str, Any]) -> dict[str, Any]:
    """Carries one request out."""
    before, wall, cpu = read_bytes(), time.perf_counter(), time.process_time()
    batches = (as_batch(b) for b in READERS[reader](request["path"], request["columns"], request.get("options", {})))
    values: tuple[int, int] | None = None
    rows = held = 0
    if request.get("count") == "fingerprint":
        kinds = request.get("kinds")
        columns = [Column(name, kind, "") for name, kind in kinds or ()]
        values = fingerprint(batches, columns) if kinds else changes_fingerprint(batches)
        rows = values[0]
    else:
        for batch in batches:
            rows, held = rows + batch.num_rows, held + 1
            del batch
    spent = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
    told = [str(value) for value in values] if values else None
    return {"rows": rows, "batches": held, "values": told, "read_bytes": read_bytes() - before, **spent}


def main() -> None:
    """Answers until stdin ends."""
    reader = sys.argv[1]
    print(json.dumps({"ok": reader}), flush=True)
    for line in sys.stdin:
        try:
            result = {"ok": answer(reader, json.loads(line))}
        except BaseException:  # noqa: BLE001 - a panic of a peer is none of the usual kind; the bench reports it
            result = {"error": traceback.format_exc()[-6000:]}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
