"""What only a process of its own can meet: a disk without room, files that it may not read. One clear line, the
documented exit code."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

pytestmark = pytest.mark.golden
V9 = "A_merge_event_long_v9_h120"
_PR_CAPBSET_DROP: Final = 24
_OVERRIDES_OF_MODES: Final = (1, 2)
"""CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH."""


def the_line(code: int, name: str, *arguments: object, prefix: tuple[str, ...] = (), **more: Any) -> str:
    """What `penstock` says, as a process, that must fail so: one line."""
    command = [*prefix, sys.executable, "-m", "penstock", *map(str, arguments)]
    more.setdefault("stdout", subprocess.DEVNULL)
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=100, check=False, **more)
    assert ended.returncode == code, ended.stderr
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"error [{name}]: ")
    return line


def first(code: str) -> tuple[str, ...]:
    """What runs this Python code, and then becomes the command behind it. Not `preexec_fn`, which forks: with other
    tests' gRPC channels in this process, one such child in twenty dies."""
    return sys.executable, "-c", f"import os, sys\n{code}\nos.execv(sys.argv[1], sys.argv[1:])"


def no_longer_than(size_bytes: int) -> tuple[str, ...]:
    """For a process whose files the system will not make longer, as if the disk had no more room."""
    return first(f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({size_bytes}, {size_bytes}))")


BOUND_BY_MODES: Final = first(
    "import ctypes\nif os.geteuid() == 0:\n"
    f"    for capability in {_OVERRIDES_OF_MODES}: ctypes.CDLL(None).prctl({_PR_CAPBSET_DROP}, capability, 0, 0, 0)"
)
"""For a process that modes of files bind also as root: what lets it read any file is gone."""


def test_missing_rights_on_a_local_disk(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    table = golden.copy(V9, tmp_path)
    properties = table / ".hoodie" / "hoodie.properties"
    properties.chmod(0)
    line = the_line(4, "STORAGE_DENIED", "read", table, prefix=BOUND_BY_MODES)
    assert "hoodie.properties" in line and str(table) in line
    assert "give the user permission to read the table" in line


def test_a_full_disk_under_the_state(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    """A real one of 16 KiB, where this user may mount; everywhere a process whose files the system keeps short."""
    serve = ("serve", "--table", f"a={golden.table(V9)}", "--state")
    state = tmp_path / "state"
    line = the_line(75, "STORAGE", *serve, state, prefix=no_longer_than(4096))
    assert f"state directory {state}" in line and "start the server again" in line
    disk = tmp_path / "disk"
    disk.mkdir()
    apart = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
    mounted = f"mount -t tmpfs -o size=16k none '{disk}'"
    if shutil.which("unshare") and subprocess.run([*apart, mounted], capture_output=True, check=False).returncode == 0:
        line = the_line(75, "STORAGE", *serve, disk / "state", prefix=(*apart, f'{mounted} && exec "$@"', "sh"))
        assert f"state directory {disk}/state" in line and "the disk is full: make room" in line


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["jsonl", "parquet", "table"])
def test_full_disk_for_the_output_file(golden: GoldenTables, form: str) -> None:
    full = "/dev/full"
    assert the_line(1, "SYSTEM", "read", golden.table(V9), "-o", full, "--format", form).endswith(
        f"{full}: No space left on device"
    )


def test_full_disk_for_stdout(golden: GoldenTables) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123  a device
        line = the_line(1, "SYSTEM", "read", golden.table(V9), "--format", "jsonl", stdout=full)
    assert line.endswith("stdout: No space left on device")


def test_output_file_does_not_appear_after_a_full_disk(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("before")
    line = the_line(1, "SYSTEM", "read", golden.table(V9), "-o", file, prefix=no_longer_than(100))
    assert line.endswith(f"{file}: File too large")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"] and file.read_text() == "before"
