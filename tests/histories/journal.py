"""Compares the stored records of a server with what the server said: they are replayed in a process of their own."""

from __future__ import annotations

import atexit
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from typing import Any, Final

from penstock.enumerator.store.sqlite.row_format import DATABASE, LOCK
from tests.histories.history import IN_A_SERVER, NEVER, Call, History, is_move

ROOT: Final = pathlib.Path(__file__).resolve().parents[2]
PROGRAM: Final = (
    "import importlib.util, sys; "
    f"spec = importlib.util.spec_from_file_location('tests', {str(ROOT / 'tests' / '__init__.py')!r}); "
    "sys.modules['tests'] = importlib.util.module_from_spec(spec); "
    "import tests.histories.journal_process as each; each.main()"
)
"""The tests are a package, and its folder is not on the import path."""
FROM: Final = "from"
"""The file of a copy with the directory that it is a copy of."""
CAUSES: Final = (
    "AddTable", "CommitSplits", "CreateGroup", "DeleteGroup", "JoinGroup", "LeaveGroup", "NextSplit", "OpenPlan",
    "RemoveTable", "RequestSplits", "ResetGroup",
)  # fmt: skip
"""The calls that cause records."""
STORED: Final = (
    "committed", "planned", "readers", "rounds", "pending", "held", "members", "watermark_us",
)  # fmt: skip
"""The parts of a description that follow from the records."""


class Replayer:
    """The process, started by the first request. One request at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def differences(self, directory: pathlib.Path, history: History, state: str, before_ns: int = NEVER) -> list[str]:
        """What the records of the directory say otherwise than the answers before a time of the servers of the state.
        The directory is copied, and not changed."""
        calls = [call for call in history.calls if call.state == state]
        with tempfile.TemporaryDirectory(prefix="penstock-replay-") as place:
            copy = pathlib.Path(place, "state")
            shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("*-shm", LOCK))
            return self._ask({"directory": str(copy), **expected(calls, before_ns), "causes": _causes(history, state)})

    def _ask(self, request: dict[str, Any]) -> list[str]:
        if self._process is None:
            environment = {name: value for name, value in os.environ.items() if name != "PENSTOCK_HISTORY"}
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", PROGRAM],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
            )  # fmt: skip
            atexit.register(self.close)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the process that replays {request['directory']} ended without an answer"
        answer: list[str] = json.loads(line)["differences"]
        return answer

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            process, self._process = self._process, None
            process.communicate()


def expected(calls: Iterable[Call], before_ns: int = NEVER) -> dict[str, list[dict[str, Any]]]:
    """What the records must agree with: the server's answers before a time."""
    answered = [call for call in calls if call.is_ok and call.answered_ns < before_ns]
    handed_out = {one["place"][0] for call in answered if call.name == "RequestSplits" for one in call.answer["splits"]}
    moved = {(call.question["table"], call.question["group"]) for call in answered if is_move(call)}
    return {
        "joined": [call.answer["member"][2:] for call in answered if call.name == "JoinGroup"],
        "left": [call.member for call in answered if call.name == "LeaveGroup"],
        "assigned": [
            [call.member[2], *one["place"]]
            for call in answered
            if call.name == "RequestSplits"
            for one in call.answer["splits"]
        ],
        "reports": [_report(call) for call in answered if call.name == "DescribeGroup" and _is_of_a_table(call)],
        "committed": [
            {"table": call.member[0], "group": call.member[1], "done": done}
            for call in answered
            if call.name == "CommitSplits" and call.member[:2] not in moved
            for done in call.question["done"]
            if done[0] in handed_out
        ],
        "entries": [
            {"entry": call.question["entry"], "split": call.answer["split"]}
            for call in answered
            if call.name == "NextSplit"
        ],
    }


def _causes(history: History, state: str) -> list[dict[str, Any]] | None:
    """The calls that may have caused a record of the state, also those that no server is known to have received. None
    if the state is older than the history: so are the calls."""
    if state in history.inherited:
        return None
    return [
        {
            "name": call.name,
            "question": call.question,
            "asked_ns": call.asked_ns,
            "answered_ns": call.answered_ns if call.is_ok else NEVER,
            "epoch": call.answer["member"][3] if call.name == "JoinGroup" and call.is_ok else None,
        }
        for call in history.calls
        if call.name in CAUSES and call.state in (state, "") and call.may_count
    ]


def _is_of_a_table(call: Call) -> bool:
    """Whether the description is of one group: that of a group over tables is put together from several."""
    return not call.answer["described"]["over"]


def _report(call: Call) -> dict[str, Any]:
    described = call.answer["described"]
    return {
        "table": described["table"],
        "group": described["group"],
        "asked_ns": call.asked_ns,
        "answered_ns": call.answered_ns,
        "described": {name: described[name] for name in STORED},
    }


REPLAYER: Final = Replayer()
"""The process of this run."""


def check_journals(history: History) -> None:
    """AssertionError if the records of a state on disk differ from what its servers said, or are gone."""
    for state, name in history.directories.items():
        directory = pathlib.Path(name)
        if not any(call.state == state and call.name not in IN_A_SERVER for call in history.calls):
            continue  # a test that calls a service of its own process has no calls
        assert (directory / DATABASE).exists(), f"{directory}, the state of a server of this test, is gone: keep it"
        if found := REPLAYER.differences(directory, history, state):
            raise AssertionError(f"the journal in {directory} disagrees with its server: {found[0]}")


def keep_state(directory: pathlib.Path) -> None:
    """Copies the state of a server that was just killed, to be compared at the end of the test. Does nothing in a test
    that is not recorded."""
    folder = pathlib.Path(os.environ.get("PENSTOCK_HISTORY", ""), "current")
    if not (directory / DATABASE).exists() or not folder.exists():
        return
    copy = folder / f"killed-{time.monotonic_ns()}"
    shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("*-shm", LOCK))
    (copy / FROM).write_text(str(directory))


def check_kills(history: History, folder: pathlib.Path) -> None:
    """AssertionError if a server was killed, another one continued its state, and no copy was made in between."""
    kept = [
        (int(copy.name.removeprefix("killed-")), (copy / FROM).read_text()) for copy in sorted(folder.glob("killed-*"))
    ]
    for state, killed_ns, continued_ns in history.kills:
        directory = history.directories[state]
        assert any(killed_ns < at_ns < continued_ns for at_ns, name in kept if name == directory), (
            f"a server of {directory} was killed, and its state was not kept before the next one: call keep_state"
        )


def check_kept_states(history: History, folder: pathlib.Path) -> None:
    """AssertionError if a state at a kill lacks something that its server had answered before."""
    of_directory = {directory: state for state, directory in history.directories.items()}
    for copy in sorted(folder.glob("killed-*")):
        state = of_directory.get((copy / FROM).read_text(), "")
        if found := REPLAYER.differences(copy, history, state, int(copy.name.removeprefix("killed-"))):
            raise AssertionError(f"the state at a kill, {copy}, disagrees with its server: {found[0]}")
