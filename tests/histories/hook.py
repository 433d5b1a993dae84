"""The hook of the suites whose tests start servers: each test is recorded, and its history is judged at its end.

A test that starts a `penstock` process, or a server in this process, must have a history.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import pathlib
import shutil
import sys
import tempfile

import psutil

from tests.histories.checker import violations
from tests.histories.history import CutOff, History, read_history
from tests.histories.journal import check_journals, check_kept_states, check_kills
from tests.histories.minimised import told
from tests.histories.startup import history_recorder

SUITES = frozenset({"catalogs", "faults", "hybrid", "interop", "s3", "spark", "streaming"})
FILES = frozenset({"contract/test_correlated_logs.py", "contract/test_waiting_calls.py"})
"""Files of other suites whose tests start servers as processes."""
NOT_RECORDED = {
    "bench": "measures",
    "demo": "one command, whose output is compared",
    "docs": "the blocks of the documentation: their output is compared",
    "histories": "tests of the recorder and of the checker",
    "ops": "judges metrics, alerts and pages of loaded servers; tests/faults has their faults",
    "packaging": "installed packages: a server starts and answers",
    "unit": "commands, their settings and their errors",
}
"""Why the tests of other suites that start servers are not recorded."""
TESTS = pathlib.Path(__file__).resolve().parents[1]
BROKEN_PARTS = TESTS / "faults" / "test_broken_parts.py"
"""Its servers and readers break the rules on purpose; the suite of faults detects that itself."""
STARTUP = str(pathlib.Path(__file__).with_name("startup"))
_servers: list[str] = []
"""The commands of the servers that this process started during the test."""


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook: notes each start of a server, however a test starts it."""
    if event == "subprocess.Popen":
        command = arguments[1]
        words = [str(word) for word in command] if isinstance(command, list | tuple) else [str(command)]
        if "serve" in words and any("penstock" in word for word in words):
            _servers.append(" ".join(words)[-300:])


sys.addaudithook(_watch)


def is_recorded(path: pathlib.Path) -> bool:
    """Whether the tests of the file are recorded."""
    if path == BROKEN_PARTS or not path.is_relative_to(TESTS):
        return False
    of_tests = path.relative_to(TESTS)
    return of_tests.parts[0] in SUITES or of_tests.as_posix() in FILES


class Recording:
    """Records this process, and those that it starts, test by test."""

    def __init__(self) -> None:
        self._root = pathlib.Path(tempfile.mkdtemp(prefix="penstock-histories-"))
        self._tests = 0
        atexit.register(self.close)

    @property
    def folder(self) -> pathlib.Path:
        """The folder of the running test."""
        return self._root / str(self._tests)

    def environment(self) -> dict[str, str]:
        """The variables with which a process records the test that runs at the time of its calls, if any."""
        paths = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry not in ("", STARTUP)]
        return {"PENSTOCK_HISTORY": str(self._root), "PYTHONPATH": os.pathsep.join([STARTUP, *paths])}

    def begin(self) -> None:
        """Records from now on."""
        self._tests += 1
        self.folder.mkdir()
        (self._root / history_recorder.CURRENT).symlink_to(self.folder)
        os.environ.update(self.environment())
        history_recorder.install()
        _servers.clear()

    def stop(self) -> None:
        """Ends the recording."""
        (self._root / history_recorder.CURRENT).unlink()
        history_recorder.RECORDER.end()  # after the link is gone: threads that go on begin no other file
        os.environ.pop("PENSTOCK_HISTORY", None)
        paths = os.environ.pop("PYTHONPATH", "").split(os.pathsep)
        if left := [entry for entry in paths if entry not in ("", STARTUP)]:
            os.environ["PYTHONPATH"] = os.pathsep.join(left)

    def end(self) -> None:
        """Ends the recording, and judges it; see `judged`."""
        self.stop()
        judged(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)  # a process that just starts may add its file meanwhile

    def close(self) -> None:
        """Removes the folder unless a history failed."""
        with contextlib.suppress(OSError):
            self._root.rmdir()


@functools.cache
def recording() -> Recording:
    """The recording of this run."""
    return Recording()


def is_running(pid: int) -> bool:
    """Whether another process runs: Spark's workers and servers of a module outlive tests."""
    try:
        return pid != os.getpid() and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def judged(folder: pathlib.Path) -> History:
    """The history of a test, after it was judged. AssertionError: it breaks a rule, it is cut off, or servers were
    started and none of them has a file."""
    try:
        history = read_history(folder, is_running)
    except CutOff as error:
        raise AssertionError(f"the history in {folder} is cut off: {error}") from None
    if _servers and not history.servers:
        raise AssertionError(
            f"the test started servers, and none of them recorded its calls: {_servers[0]}: start them with the "
            f"environment of the test, which has PENSTOCK_HISTORY and PYTHONPATH (tests/histories)"
        )
    if broken := violations(history):
        raise AssertionError(told(history, broken[0], str(folder)))
    check_journals(history)
    check_kept_states(history, folder)
    check_kills(history, folder)
    return history
