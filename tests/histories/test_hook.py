"""The hook is in force: a test that starts a server has a history, in every suite of processes, and it is judged."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest
from tests.histories import hook
from tests.histories.scripted_history import Script, two_readers
from tests.histories.startup.history_recorder import CURRENT, Recorder

SERVE = [sys.executable, "-c", "import sys", "penstock", "serve"]
"""Not a server, but it has the words of one."""


@pytest.fixture
def item(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A test of the faults suite, which is being recorded."""
    fake = SimpleNamespace(path=hook.TESTS / "faults" / "test_new.py", recording=hook.recording())
    conftest.pytest_runtest_setup(fake)  # type: ignore[arg-type]
    yield fake
    shutil.rmtree(fake.recording.folder, ignore_errors=True)


def end(item: Any) -> None:
    """Ends the test as pytest does."""
    teardown = conftest.pytest_runtest_teardown(item)
    next(teardown)
    with pytest.raises(StopIteration):
        next(teardown)


def test_every_suite_of_processes_is_recorded() -> None:
    """Each file that starts a server as a process, by the words of the command or a class of the harness."""
    starts = re.compile(r"""["']serve["']|\bServed\(|\bChaosHarness\(|\bSoak\(""")
    recorded: set[str] = set()
    for path in hook.TESTS.rglob("*.py"):
        suite = path.relative_to(hook.TESTS).parts[0]
        if path.name in ("conftest.py", "test_architecture.py") or not starts.search(path.read_text()):
            continue
        is_test = path.name.startswith("test_")
        assert hook.is_recorded(path) or suite in hook.NOT_RECORDED or not is_test or path == hook.BROKEN_PARTS, path
        assert is_test or suite in hook.SUITES | hook.NOT_RECORDED.keys(), path
        recorded.add(suite)
    assert {"catalogs", "faults", "hybrid", "interop", "s3", "spark"} <= recorded
    assert not hook.SUITES & hook.NOT_RECORDED.keys()
    for name in hook.SUITES:
        assert hook.is_recorded(hook.TESTS / name / "test_new.py")
    assert not hook.is_recorded(hook.TESTS / "unit" / "test_new.py")
    assert all((hook.TESTS / name).exists() and hook.is_recorded(hook.TESTS / name) for name in hook.FILES)


def test_server_without_history_fails_its_test(item: Any) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PENSTOCK_HISTORY")}
    subprocess.run(SERVE, check=True, env=environment)
    with pytest.raises(AssertionError, match="none of them recorded its calls"):
        end(item)


def test_server_that_is_recorded_passes(item: Any) -> None:
    subprocess.run(SERVE, check=True)
    files = sorted(item.recording.folder.glob("*.jsonl"))
    lines = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    assert any("serve" in line.get("command", ()) for line in lines) and lines[-1]["end"]
    end(item)
    assert not item.recording.folder.exists()


def test_history_is_judged_at_the_end(item: Any) -> None:
    script = two_readers()
    script.join("c", 2)
    script.write(item.recording.folder)
    with pytest.raises(AssertionError, match="broken: epochs: ") as failed:
        end(item)
    assert "JoinGroup" in str(failed.value)


def test_cut_off_history_fails_its_test(item: Any) -> None:
    script = Script()
    script.join("c", 2)
    del script.files["c"]
    script.write(item.recording.folder)
    with pytest.raises(AssertionError, match="is cut off"):
        end(item)


def test_process_that_starts_when_a_test_ends_is_not_judged(item: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has read the link, and its file has no line yet. Another one writes to the folder that is gone."""
    (item.recording.folder / "1-1.jsonl").touch()
    end(item)
    late = Recorder()
    monkeypatch.setenv("PENSTOCK_HISTORY", str(item.recording.folder.parent))
    link = item.recording.folder.parent / CURRENT
    link.symlink_to(item.recording.folder)
    assert late.write(started=True) == (-1, -1) == late.write(ask="JoinGroup")
    link.unlink()
