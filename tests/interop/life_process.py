"""A process that writes, reads and serves tables with Penstock for hours, or is killed in the middle of a service.

Run by `life_peers`. Requests on stdin, one JSON line each, one answer on stdout each, `{"ok": …}` or `{"error": text}`:
    {"do": "write", "path", "operation", "rows"}     rows: [id, p, ts, n]
    {"do": "read", "path", "options"}                [p, id, n, commit time] of each row
    {"do": "maintain", "path"}                       what each service did
    {"do": "clean", "path"}                          deletes all that the newest state does not need
Every answer has the processor time of its request. `refused` is the text of a WriteConflict.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

import penstock
from penstock.errors import WriteConflict

SCHEMA: Final = pa.schema([("id", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("n", pa.int64())])
RETAINED: Final = 10
"""Commits whose states the clean keeps: Hudi's default."""
KEEP_MAX: Final = 30
"""The most writes that the archival leaves on the active timeline: Hudi's default."""
CLUSTER_AFTER: Final = 8
"""Writes from one clustering to the next."""
COLUMNS: Final = ("p", "id", "n", "_hoodie_commit_time")

_tables: dict[str, penstock.Table] = {}


def write(path: str, operation: str, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """One write."""
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    result = penstock.write(path, pa.table(arrays, schema=SCHEMA), operation)
    return {"instant": result.instant, "order_key": result.completion_time}


def read(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of a table that stays open between the requests."""
    if path not in _tables:
        _tables[path] = penstock.open_table(path)
    rows = _tables[path].read(columns=COLUMNS, **options).read_all()
    return {"rows": list(zip(*(rows[name].to_pylist() for name in COLUMNS), strict=True))}


def maintain(path: str) -> dict[str, Any]:
    """The services that are due, with Hudi's defaults."""
    result = penstock.maintain(path, cluster_after=CLUSTER_AFTER)
    done = {
        "compactions": len(result.compactions or ()),
        "clusterings": len(result.clusterings or ()),
        "files cleaned": len(result.clean.files) if result.clean else 0,
        "instants archived": len(result.archive.instants) if result.archive else 0,
    }
    return {"done": done}


def clean(path: str) -> dict[str, Any]:
    """A clean that keeps one slice of each file group, and looks at all partitions."""
    return {"files": len(penstock.clean(path, file_versions=1).files)}


ACTIONS: Final[Mapping[str, Callable[..., dict[str, Any]]]] = {
    "write": write,
    "read": read,
    "maintain": maintain,
    "clean": clean,
}
"""By the name of the request."""


def answer_to(request: dict[str, Any]) -> dict[str, Any]:
    """Carries out a request."""
    began = time.process_time()
    try:
        answer = ACTIONS[request.pop("do")](**request)
    except WriteConflict as error:
        answer = {"refused": str(error)}
    except Exception:  # noqa: BLE001 - the test that asked raises it
        return {"error": traceback.format_exc()[-6000:]}
    return {"ok": {**answer, "cpu_s": time.process_time() - began}}


def main() -> None:
    """Answers until stdin ends. Only answers are on stdout."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    print(json.dumps({"ok": os.getpid()}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer_to(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
