"""Writes for the tests of targets. As a program: processes that write a history, and end themselves after some steps.

python -m tests.unit.engine.sync.targets.writes URL PART...
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from types import FrameType
from typing import Any, Final

import pyarrow as pa

from penstock.engine.sync.job import TargetUrl, parse_target
from penstock.engine.sync.layout import LayoutChange, TargetLayout
from penstock.engine.sync.targets.target import Write

COLUMNS: Final = pa.schema([("k", pa.string()), ("n", pa.int32()), ("v", pa.string())])
LAYOUT: Final = TargetLayout(COLUMNS, ("k", "n"))
SEED: Final = 7
WRITES: Final = 5
Row = tuple[Any, ...]


def batch(rows: list[Row], columns: pa.Schema) -> pa.RecordBatch:
    """Rows as Arrow, each column a slice of a longer array, as the reader may return it."""
    longer = [pa.array([None, *(row[index] for row in rows), None], one.type) for index, one in enumerate(columns)]
    arrays = [array.slice(1, len(rows)) for array in longer]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def write(
    position: str,
    rows: list[Row] | None = None,
    removed: list[Row] | None = None,
    *,
    expected: str | None = None,
    layout: TargetLayout = LAYOUT,
    change: LayoutChange | None = None,
    columns: pa.Schema | None = None,
    **other: Any,
) -> Write:
    """A write to table `orders` from one source."""
    keys = pa.schema([layout.columns.field(name) for name in layout.key])
    batches = [batch(rows, columns or layout.columns)] if rows else []
    return Write(
        **{"table": "orders", "source": "/lake/orders", "source_name": "orders", **other},
        expected=expected,
        position=position,
        change=change or LayoutChange(layout),
        removed=None if removed is None else pa.Table.from_batches([batch(removed, keys)], keys),
        rows=iter(batches),
    )


class History:
    """Random writes of keys with nulls, and the rows after each."""

    def __init__(self, seed: int) -> None:
        random_, model = random.Random(seed), dict[Row, Row]()
        self._writes: list[tuple[list[Row], list[Row]]] = []
        self._rows: list[list[Row]] = []
        for number in range(12):
            size = random_.randint(1, 6)
            keys = {(random_.choice(["a", "b", "", None]), random_.choice([1, 2, 3, None])) for _ in range(size)}
            removed = sorted(keys, key=repr)
            rows = [(*key, f"v{number}") for key in removed if random_.random() < 0.7]
            for key in keys:
                model.pop(key, None)
            model.update({row[:2]: row for row in rows})
            self._writes.append((rows, removed))
            self._rows.append(list(model.values()))

    def write(self, number: int, **other: Any) -> Write:
        """The write of a number, from 0."""
        rows, removed = self._writes[number]
        return write(f"p{number}", rows, removed, expected=f"p{number - 1}" if number else None, **other)

    def rows_after(self, number: int) -> list[Row]:
        """The rows of the table after it."""
        return self._rows[number]


def kills(url: str, parts: Sequence[float]) -> list[int]:
    """Runs this module: a process writes a history into table `t0`, and further ones into `t1`, `t2` and so on, each of
    which is killed after a part of the steps of the first. The exit codes of all of them."""
    command = [sys.executable, "-P", "-m", __name__, url, *map(str, parts)]
    root = str(pathlib.Path(__file__).parents[5])
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": root}, cwd=root, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return [int(code) for code in ended.stdout.split()]


def _main(url: str, parts: Sequence[float]) -> list[int]:
    """Each run is a fork of this process, which has the libraries and no thread."""
    target = parse_target("test", url)
    import_module(f"penstock.engine.sync.targets.{target.kind}")
    reader, writer = os.pipe()
    codes = [_forked(lambda: os.write(writer, str(_run(target, "t0", 0)).encode()))]
    steps = int(os.read(reader, 20))
    assert steps > 100, steps
    for number, part in enumerate(parts, 1):
        codes.append(_forked(partial(_run, target, f"t{number}", int(steps * part))))
    return codes


def _forked(run: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run()
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _run(url: TargetUrl, table: str, last: int) -> int:
    """Writes a history, and ends with `kill -9` at step `last`. The steps."""
    from penstock.engine.sync.targets.open import open_target

    target, steps = open_target(url), 0

    def step(frame: FrameType, event: str, _: object) -> None:
        nonlocal steps
        if f"{os.sep}targets{os.sep}" in frame.f_code.co_filename:
            steps += 1
            if steps == last:
                os.kill(os.getpid(), signal.SIGKILL)

    history = History(SEED)
    sys.setprofile(step)
    for number in range(WRITES):
        target.write(history.write(number, table=table))
    sys.setprofile(None)
    target.close()
    return steps


if __name__ == "__main__":
    sys.stdout.write(" ".join(map(str, _main(sys.argv[1], [float(one) for one in sys.argv[2:]]))))
