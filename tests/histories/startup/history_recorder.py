"""Records the calls of a process to a server, and those that a server answered, as JSON lines.

The environment variable PENSTOCK_HISTORY names a folder; its link `current` is the folder of the running test, in which
each process has a file of its own. A line is written before a call is sent, after its answer, before a server sends an
answer, when a server moves a group past a lost range, when a test creates a group in its process, when a reader of a
group has joined and returns a batch, before the process kills another one, and at its end. Times are those of the
monotonic clock, which all processes share. Without the link nothing is recorded. Loads nothing of the product: it waits
until the process does.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import importlib.machinery
import json
import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn

FOLDER = "PENSTOCK_HISTORY"
CURRENT = "current"
MESSAGES = importlib.import_module(f"{__package__}.history_messages" if __package__ else "history_messages")
"""The neighbour, which has another name in a process that found this module by PYTHONPATH."""


class Recorder:
    """The file of this process in the folder of the running test. Any thread; a forked child has its own file.

    A process that outlives a test can still have the test's folder in hand when that is removed: it records nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._place: tuple[int, str] | None = None
        self._file = -1
        self._lines = 0
        self._files = 0
        self._state: dict[str, Any] = {}
        self._is_ending = False
        os.register_at_fork(after_in_child=self._start_anew)

    def write(self, **fields: Any) -> tuple[int, int]:
        """Appends a line. Returns its file and its number, by which its answer names it. An answer to a line of another
        file is not recorded: the question was part of another test."""
        root = os.environ.get(FOLDER)
        with self._lock:
            try:
                folder = os.readlink(f"{root}/{CURRENT}") if root else ""  # noqa: PTH115 - for each line
            except OSError:
                folder = ""
            if self._place != (os.getpid(), folder):
                self._move(folder)
            if "state" in fields:
                self._state = fields
            if "answer" in fields:
                file, fields["answer"] = fields["answer"]
                if file != self._files:
                    return -1, -1
            if self._file < 0:
                return -1, -1
            number = self._append(fields)
            if self._is_ending:  # a thread that goes on while Python ends: each of its lines may be the last
                self._end()
            return self._files, number

    def end(self) -> None:
        """Ends the file: its last line says that nothing is missing."""
        with self._lock:
            self._end()

    def end_process(self) -> None:
        """Ends the file, and each later one after its first line."""
        self._is_ending = True
        self.end()

    def _end(self) -> None:
        if self._file >= 0 and self._place is not None and self._place[0] == os.getpid():
            self._append({"end": True})
            self._close()
        self._place = None

    def _append(self, fields: dict[str, Any]) -> int:
        number = self._lines
        self._lines += 1
        line = {"n": number, "t": time.monotonic_ns(), **fields}
        os.write(self._file, (json.dumps(line, separators=(",", ":")) + "\n").encode())
        return number

    def _move(self, folder: str) -> None:
        if self._file >= 0:
            if self._place is not None and pathlib.Path(self._place[1]).is_dir():
                self._append({"end": True})
            self._close()
        self._place = (os.getpid(), folder)
        self._files += 1
        if folder:
            path = f"{folder}/{os.getpid()}-{time.monotonic_ns()}.jsonl"
            with contextlib.suppress(FileNotFoundError):
                self._file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
        if self._file >= 0:
            self._lines = 0
            command = [text[:200] for text in sys.orig_argv[-30:]]
            names = {"process": os.getpid(), "group": os.getpgrp(), "number": self._files}
            self._append({**names, "command": command})
            if self._state:
                self._append({**self._state, "again": True})

    def _close(self) -> None:
        os.close(self._file)
        self._file = -1

    def _start_anew(self) -> None:
        self._lock, self._is_ending = threading.RLock(), False
        if self._file >= 0:
            self._close()
        self._place = None


RECORDER = Recorder()
SERVING = threading.local()
"""`call`: the name of the call that this thread answers."""
_EXIT = os._exit


class RecordedCall:
    """A call of the stub. Other ways to call it than by `__call__` are not recorded."""

    def __init__(self, call: Any, name: str) -> None:
        self._call, self._name = call, name

    def __call__(self, request: Any, *arguments: Any, **options: Any) -> Any:
        number = RECORDER.write(ask=self._name, request=request.request_id, **MESSAGES.asked(self._name, request))
        try:
            answer = self._call(request, *arguments, **options)
        except BaseException as error:
            RECORDER.write(answer=number, **MESSAGES.failed(error))
            raise
        RECORDER.write(answer=number, code="OK", **MESSAGES.received(self._name, answer))
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)


def _record_client(module: ModuleType) -> None:
    stub = module.EnumeratorServiceStub
    begin = stub.__init__

    @functools.wraps(begin)
    def recorded(self: Any, channel: Any) -> None:
        begin(self, channel)
        for name, call in list(vars(self).items()):
            setattr(self, name, RecordedCall(call, name))

    stub.__init__ = recorded


def _record_reader(module: ModuleType) -> None:
    reader = module.GroupReader
    poll, join = reader.poll, reader.join

    def member_of(self: Any) -> list[Any]:
        member = self._membership.member
        return [member.table, member.group, member.reader_id, member.epoch]

    @functools.wraps(join)
    def joined(self: Any) -> None:
        join(self)
        RECORDER.write(reads=member_of(self))

    @functools.wraps(poll)
    def recorded(self: Any, timeout_ms: float | None = None) -> Any:
        batch = poll(self, timeout_ms)
        if batch is not None:
            rows = [batch.plan_id, batch.split_id, batch.start, batch.first_ordinal, batch.next_ordinal, batch.sequence]
            RECORDER.write(delivered=rows, member=member_of(self))
        return batch

    reader.poll, reader.join = recorded, joined


def _record_server(module: ModuleType) -> None:
    metrics = module.CallMetrics
    intercept = metrics.intercept_service

    @functools.wraps(intercept)
    def recorded(self: Any, continuation: Any, details: Any) -> Any:
        def wrapped(these: Any) -> Any:
            handler = continuation(these)
            behaviour = None if handler is None else module.unary_of(handler)
            service, method = module.call_of(these)
            if handler is None or behaviour is None or not service.endswith("EnumeratorService"):
                return handler

            def served(request: Any, context: Any) -> Any:
                SERVING.call = method
                try:
                    answer = behaviour(request, context)
                finally:
                    SERVING.call = ""
                RECORDER.write(served=method, request=request.request_id)
                return answer

            return module.with_unary(handler, served)

        return intercept(self, wrapped, details)

    metrics.intercept_service = recorded


def _record_journal(module: ModuleType) -> None:
    journal = module.Journal
    begin = journal.__init__

    @functools.wraps(begin)
    def recorded(self: Any, store: Any, *arguments: Any, **options: Any) -> None:
        begin(self, store, *arguments, **options)
        where = getattr(store, "directory", None)
        directory = "" if where is None else str(where)
        RECORDER.write(state=getattr(store, "state_id", ""), directory=directory, epoch=getattr(store, "epoch", 1))

    journal.__init__ = recorded


def _record_memory(module: ModuleType) -> None:
    coordinator = module.Coordinator
    begin, handle = coordinator.__init__, coordinator.handle

    @functools.wraps(begin)
    def recorded(self: Any, **options: Any) -> None:
        begin(self, **options)
        if options.get("journal") is None:
            RECORDER.write(state=f"memory {os.getpid()} {time.monotonic_ns()}", directory="", epoch=1)

    @functools.wraps(handle)
    def handled(self: Any, event: Any, plan: Any = None) -> Any:
        kind = type(event).__name__
        if kind != "RangeLost" and (kind != "CreateGroup" or getattr(SERVING, "call", "")):
            return handle(self, event, plan)
        before = self.peek(lambda state: state.groups.get(event.key))
        generation = before and before.number
        number = RECORDER.write(ask=kind, request="", table=event.key.table, group=event.key.group)
        answer = handle(self, event, plan)
        after = self.peek(lambda state: state.groups.get(event.key))
        RECORDER.write(answer=number, code="OK" if (after and after.number) != generation else "IGNORED")
        return answer

    coordinator.__init__, coordinator.handle = recorded, handled


PLACES: dict[str, Callable[[ModuleType], None]] = {
    "penstock.proto.v1.penstock_pb2_grpc": _record_client,
    "penstock.engine.group.reader": _record_reader,
    "penstock.enumerator.server.rpc.call_metrics": _record_server,
    "penstock.enumerator.store.journal": _record_journal,
    "penstock.enumerator.coordinator.coordinator": _record_memory,
}
"""Modules whose classes are replaced, by what."""


class _Finder:
    """Finds the modules of PLACES as Python does, and changes each after it was loaded. Python does not need its base
    class, whose module takes long to import."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder.find_spec`."""
        if name not in PLACES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_record(module: ModuleType) -> None:
            load(module)
            PLACES[name](module)

        spec.loader.exec_module = load_and_record  # type: ignore[method-assign]
        return spec


def _note_kill(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: notes each process, or group of processes, that this process is about to end by a signal. The file
    of a process that is replaced by another program ends."""
    if event == "os.exec":
        RECORDER.end()
    if event not in ("os.kill", "os.killpg") or arguments[1] in (0, signal.SIGSTOP, signal.SIGCONT):
        return
    number, is_group = arguments[0], event == "os.killpg" or arguments[0] <= 0
    RECORDER.write(kills=abs(number) or os.getpgrp(), is_group=is_group, signal=int(arguments[1]))


def _exit(status: int) -> NoReturn:
    """Replaces `os._exit`, by which forked processes end without the functions of `atexit`."""
    RECORDER.end()
    _EXIT(status)


def install() -> None:
    """Records from now on, also in modules that are loaded later."""
    if not os.environ.get(FOLDER) or any(type(each).__name__ == _Finder.__name__ for each in sys.meta_path):
        return
    for name, change in PLACES.items():
        if name in sys.modules:
            change(sys.modules[name])
    sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]
    sys.addaudithook(_note_kill)
    os._exit = _exit
    atexit.register(RECORDER.end_process)
    RECORDER.write(started=True)
