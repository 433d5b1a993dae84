"""Counts the files that a request, a split, a watermark and a commit pass through (docs/development/architecture.md).

    .venv/bin/python -P tools/count_paths.py [-v]

Reads the demo's table, and counts the files of the package for each of the four calls:

* *passed through*: those in which a function is called with the value, or with one of the values that it consists of
  (the same object, at any depth). What a function makes of them, objects that hold them, and log lines are not
  followed.
* *traced*: those in which any function runs.

A value that was sent over gRPC is followed again from the function that receives it under the same name.
"""

from __future__ import annotations

import dataclasses
import inspect
import pathlib
import pickle
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import penstock
from penstock.engine.connect import embedded_enumerator
from penstock.enumerator.server.run import serve
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.proto.model.streams import EventTimeRule, StartAfter, StartSnapshot, StreamScope

ROOT = pathlib.Path(penstock.__file__).resolve().parent.parent.parent
FOLDERS = ("proto", "table", "kafka", "enumerator", "reader", "writer", "engine")
LOG = ("enumerator/log.py", "proto/logging.py")


class Path:
    """The files of one path. `function` is the function that has the value first, `kind` the value's class."""

    def __init__(self, function: str, kind: str) -> None:
        self.function, self.kind = function, kind
        self.passed: set[str] = set()
        self.traced: set[str] = set()
        self._values: dict[int, object] = {}  # by id; holds them, so that no other object gets the id
        self._files: dict[str, str] = {}
        self._is_counted = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Sees the calls of this thread, and of threads that start in the block."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts the calls that are seen."""
        self._is_counted = True
        try:
            yield
        finally:
            self._is_counted = False

    def _on_event(self, frame: FrameType, event: str, result: Any) -> None:
        file = self._file(frame.f_code.co_filename)
        if not file or not self._is_counted:
            return
        is_first = frame.f_code.co_name == self.function
        if event == "return" and is_first and type(result).__name__ == self.kind:
            self.passed.add(file)
            self._follow(result)
        if event != "call":
            return
        self.traced.add(file)
        arguments = list(_arguments(frame))
        for argument in arguments:
            values = argument if isinstance(argument, tuple) else (argument,)
            if is_first and any(type(value).__name__ == self.kind for value in values):
                self._follow(argument)
        if file not in LOG and any(id(argument) in self._values for argument in arguments):
            self.passed.add(file)

    def _file(self, name: str) -> str:
        """The file of a code object, relative to the repository; '' outside the package."""
        if name not in self._files:
            path = pathlib.Path(name).resolve()
            inside = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in FOLDERS
            self._files[name] = path.relative_to(ROOT).as_posix() if inside else ""
        return self._files[name]

    def _follow(self, value: Any) -> None:
        """Follows the value and the values in it. Empty ones are shared by many, so they are not followed."""
        parts = list(_parts(value))
        if parts and id(value) not in self._values:
            self._values[id(value)] = value
            for part in parts:
                self._follow(part)


def _arguments(frame: FrameType) -> Iterator[object]:
    names, rest, named, values = inspect.getargvalues(frame)
    for name in names:
        yield values.get(name)
    yield from values.get(rest or "", ())
    yield from values.get(named or "", {}).values()


def _parts(value: Any) -> Iterator[object]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, field.name) for field in dataclasses.fields(value))
    elif isinstance(value, tuple | frozenset) and not isinstance(value, str):
        yield from value


def _stored(value: Any) -> Any:
    """A copy, as a checkpoint returns it: no part of it is an object that other values share."""
    return pickle.loads(pickle.dumps(value))


def _read_stream(table: str) -> None:
    query = Incremental(EARLIEST)
    scope = StreamScope(
        request=PlanRequest(table=table, query=query, event_time="updated_at"),
        rule=EventTimeRule(max_out_of_orderness_us=0),
    )
    enumerator = embedded_enumerator()
    for start in (StartSnapshot(), StartAfter(EARLIEST)):
        point = _stored(enumerator.start_stream(scope, start))
        for _ in range(3):
            point = _stored(enumerator.next_batch(scope, point).point)


def count_paths(table: str) -> dict[str, Path]:
    """The paths, by name, of calls on the demo's table."""
    penstock.read(table).read_all()  # compiles kernels, imports modules
    paths = {
        "request": Path("plan_request", "PlanRequest"),
        "split": Path("read_split", "Split"),
        "watermark": Path("next_batch", "StreamPoint"),
        "commit": Path("commit_splits", "SplitProgress"),
    }
    with paths["request"].watched(), paths["request"].counted():
        reader = penstock.read(table, query="incremental", after="earliest")
    with paths["split"].watched(), paths["split"].counted():
        reader.read_all()
    with paths["watermark"].watched(), paths["watermark"].counted():
        _read_stream(table)
    with (
        paths["commit"].watched(),
        serve({"orders": table}, "127.0.0.1:0") as server,
        penstock.Consumer(server.address, "orders", group="g", reader_id="r") as consumer,
    ):
        batch = consumer.poll()
        with paths["commit"].counted():
            consumer.commit(batch)
    return paths


def main() -> None:
    """Prints the counts; with -v the files."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(ROOT / "engine" / "demo" / "orders" / "table.zip") as archive:
            archive.extractall(folder)
        table = next(pathlib.Path(folder).rglob(".hoodie")).parent
        for name, path in count_paths(str(table)).items():
            print(f"{name}: passes {len(path.passed)} files, {len(path.traced)} traced")
            if "-v" in sys.argv:
                print("\n".join(f"  {file}" for file in sorted(path.passed)))


if __name__ == "__main__":
    main()
