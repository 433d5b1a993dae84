"""Faults that need a separate process: a full disk, files without read permission. One clear line, the documented
exit code."""

from __future__ import annotations

import os
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


def error_line(code: int, name: str, *arguments: object, prefix: tuple[str, ...] = (), **more: Any) -> str:
    """The one line on stderr of a `penstock` process that must fail with this exit code."""
    command = [*prefix, sys.executable, "-m", "penstock", *map(str, arguments)]
    more.setdefault("stdout", subprocess.DEVNULL)
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=100, check=False, **more)
    assert result.returncode == code, result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error [{name}]: ")
    return line


def first(code: str) -> tuple[str, ...]:
    """The prefix that runs this Python code and then replaces itself by the command after it. `preexec_fn` is not
    used because it forks: with gRPC channels of other tests in this process, one such child in twenty dies."""
    return sys.executable, "-c", f"import os, sys\n{code}\nos.execv(sys.argv[1], sys.argv[1:])"


def file_size_limit(size_bytes: int) -> tuple[str, ...]:
    """The prefix for a process with a file size limit, which behaves like a full disk. The process writes no bytecode:
    the limit would cut the files that other processes read."""
    return first(
        "import resource\nos.environ['PYTHONDONTWRITEBYTECODE'] = '1'\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size_bytes}, {size_bytes}))"
    )


BOUND_BY_MODES: Final = first(
    "import ctypes\nif os.geteuid() == 0:\n"
    f"    for capability in {_OVERRIDES_OF_MODES}: ctypes.CDLL(None).prctl({_PR_CAPBSET_DROP}, capability, 0, 0, 0)"
)
"""The prefix for a process that drops the capabilities that let root ignore file modes."""


def test_missing_rights_on_a_local_disk(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    table = golden.copy(V9, tmp_path)
    properties = table / ".hoodie" / "hoodie.properties"
    properties.chmod(0)
    line = error_line(4, "STORAGE_DENIED", "read", table, prefix=BOUND_BY_MODES)
    assert "hoodie.properties" in line and str(table) in line
    assert "give the user permission to read the table" in line


def test_full_disk_under_the_state(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    """A real file system of 16 KiB if this user may mount; a file size limit on every system."""
    serve = ("serve", "--table", f"a={golden.table(V9)}", "--state")
    state = tmp_path / "state"
    line = error_line(75, "STORAGE", *serve, state, prefix=file_size_limit(4096))
    assert f"state directory {state}" in line and "start the server again" in line
    disk = tmp_path / "disk"
    disk.mkdir()
    apart = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
    mounted = f"mount -t tmpfs -o size=16k none '{disk}'"
    if shutil.which("unshare") and subprocess.run([*apart, mounted], capture_output=True, check=False).returncode == 0:
        line = error_line(75, "STORAGE", *serve, disk / "state", prefix=(*apart, f'{mounted} && exec "$@"', "sh"))
        assert f"state directory {disk}/state" in line and "the disk is full: make room" in line


def test_process_with_a_file_size_limit_leaves_no_bytecode(tmp_path: pathlib.Path) -> None:
    """The limit would cut it, and the next process that imports the module could not."""
    (tmp_path / "module.py").write_text(f"TEXT = {'x' * 9_000!r}")
    command = (sys.executable, "-c", "import module")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(tmp_path)
    subprocess.run([*file_size_limit(4096), *command], env=environment, timeout=100, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["module.py"]
    subprocess.run(command, env=environment, timeout=100, check=True)
    assert (tmp_path / "__pycache__").is_dir(), "the negative control"


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["jsonl", "parquet", "table"])
def test_full_disk_for_the_output_file(golden: GoldenTables, form: str) -> None:
    full = "/dev/full"
    assert error_line(1, "SYSTEM", "read", golden.table(V9), "-o", full, "--format", form).endswith(
        f"{full}: No space left on device"
    )


def test_full_disk_for_stdout(golden: GoldenTables) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123  a device
        line = error_line(1, "SYSTEM", "read", golden.table(V9), "--format", "jsonl", stdout=full)
    assert line.endswith("stdout: No space left on device")


def test_output_file_does_not_appear_after_a_full_disk(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("before")
    line = error_line(1, "SYSTEM", "read", golden.table(V9), "-o", file, prefix=file_size_limit(100))
    assert line.endswith(f"{file}: File too large")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"] and file.read_text() == "before"
