"""Writes in a process of its own, for its peak memory: `python -m bench.writing.memory_worker` answers JSON lines.

Requests: {"part", "table", "rows", "operation", "buckets"} writes rows; {"part", "table", "buckets"} runs the service
of the part. Answer: {"ok": null}.
"""

from __future__ import annotations

import json
import pathlib
import sys
import traceback
from typing import Any

from bench.writing.parts import PARTS
from bench.writing.writers import Penstock


def answer(request: dict[str, Any]) -> None:
    """Executes one request."""
    part = next(part for part in PARTS if part.name == request["part"])
    writer, table = Penstock(request["buckets"]), pathlib.Path(request["table"])
    if "rows" in request:
        writer.write(table, pathlib.Path(request["rows"]), part, request["operation"])
    else:
        writer.serve(table, part)


def main() -> None:
    """Answers until stdin ends."""
    print(json.dumps({"ok": None}), flush=True)
    for line in sys.stdin:
        try:
            answer(json.loads(line))
            result: dict[str, Any] = {"ok": None}
        except Exception:  # noqa: BLE001 - reported to the bench, which stops
            result = {"error": traceback.format_exc()[-6000:]}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
