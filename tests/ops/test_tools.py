"""tools/ops_tools.sh on machines with missing tools: one clear error that says what to install, exit code 2."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

from tests.ops.places import REPOSITORY

pytestmark = pytest.mark.ops
PLAIN = ("bash", "cat", "dirname", "flock", "grep", "ln", "mkdir", "mktemp", "mv", "nice", "rm", "sed", "tail", "touch")

PROMETHEUS = {"promtool": "exit 0", "prometheus": "exit 0"}
SPIN = {"spin": "echo Spin Version 6.5.2", "gcc": 'touch "${@: -1}"'}
"""`gcc` makes the file that its last argument names."""
HELM = {"helm": "echo v3.14.2"}
STORES = {"npm": "exit 0", "java": 'echo "    java.home = $PWD/jdk" >&2', "cargo": "exit 0"}


def set_up(folder: pathlib.Path, scripts: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs the script in a separate checkout, with only plain commands and these scripts on the PATH."""
    (folder / "tools").mkdir()
    shutil.copy(REPOSITORY / "tools" / "ops_tools.sh", folder / "tools")
    path = folder / "path"
    path.mkdir()
    for name in PLAIN:
        if executable := shutil.which(name):
            (path / name).symlink_to(executable)
    for name, text in scripts.items():
        (path / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (path / name).chmod(0o755)
    (path / "env").symlink_to(shutil.which("env") or "")
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "python").symlink_to(shutil.which("true") or "")  # it has all imported modules
    bash = shutil.which("bash")
    assert bash
    return subprocess.run(
        [bash, "tools/ops_tools.sh"], cwd=folder, env={"PATH": str(path)}, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip


def make_jdk(folder: pathlib.Path) -> None:
    """The JDK that `STORES` names, with its header."""
    (folder / "jdk" / "include").mkdir(parents=True)
    (folder / "jdk" / "include" / "jni.h").touch()


def test_missing_apt_is_an_error_that_says_how_to_install_prometheus(tmp_path: pathlib.Path) -> None:
    ended = set_up(tmp_path, {})
    assert ended.returncode == 2
    assert "prometheus and promtool are missing, and there is no apt-get" in ended.stderr
    assert "apt-get install --no-install-recommends prometheus" in ended.stderr


def test_failed_package_download_is_an_error_with_the_reason(tmp_path: pathlib.Path) -> None:
    ended = set_up(tmp_path, {"apt-get": "echo no network; exit 1", "dpkg": "exit 1"})
    assert ended.returncode == 2
    assert "no network" in ended.stderr and "could not be fetched" in ended.stderr


def test_missing_spin_is_an_error_that_says_how_to_install_it(tmp_path: pathlib.Path) -> None:
    ended = set_up(tmp_path, PROMETHEUS)
    assert ended.returncode == 2
    assert "spin is missing, and there is no apt-get" in ended.stderr
    assert "apt-get install --no-install-recommends spin gcc" in ended.stderr


def test_another_program_named_spin_is_not_used(tmp_path: pathlib.Path) -> None:
    ended = set_up(tmp_path, {**PROMETHEUS, "spin": "echo a spinner", "gcc": "exit 0"})
    assert ended.returncode == 2
    assert "spin is missing" in ended.stderr


def test_missing_compiler_is_an_error_that_says_how_to_install_it(tmp_path: pathlib.Path) -> None:
    ended = set_up(tmp_path, {**PROMETHEUS, "spin": SPIN["spin"]})
    assert ended.returncode == 2
    assert "gcc is missing" in ended.stderr


def test_missing_go_is_an_error_that_says_how_to_install_helm(tmp_path: pathlib.Path) -> None:
    fine = {**PROMETHEUS, **SPIN}
    ended = set_up(tmp_path, fine)
    assert ended.returncode == 2
    assert "helm is missing, and there is no Go" in ended.stderr and "Go 1.26" in ended.stderr


def test_old_helm_is_not_used(tmp_path: pathlib.Path) -> None:
    fine = {**PROMETHEUS, **SPIN, **STORES, "helm": "echo v3.9.0"}
    ended = set_up(tmp_path, fine)
    assert ended.returncode == 2 and "helm is missing" in ended.stderr


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("npm", "npm is missing"),
        ("java", "java is missing"),
        ("cargo", "cargo is missing"),
        ("jdk", "jdk has no include/jni.h"),
    ],
)
def test_missing_tool_of_a_store_is_an_error_that_says_how_to_install_it(
    tmp_path: pathlib.Path, missing: str, expected: str
) -> None:
    if missing != "jdk":
        make_jdk(tmp_path)
    scripts = {**PROMETHEUS, **SPIN, **HELM, **STORES}
    ended = set_up(tmp_path, {name: text for name, text in scripts.items() if name != missing})
    assert ended.returncode == 2
    assert expected in ended.stderr
    assert "apt-get install --no-install-recommends nodejs npm" in ended.stderr
    assert "apt-get install --no-install-recommends cargo openjdk-17-jdk-headless" in ended.stderr


def test_tools_on_the_path_are_used(tmp_path: pathlib.Path) -> None:
    make_jdk(tmp_path)
    ended = set_up(tmp_path, {**PROMETHEUS, **SPIN, **HELM, **STORES})
    assert ended.returncode == 0, ended.stderr
    tools = {path.name for path in (tmp_path / ".cache" / "ops" / "bin").iterdir()}
    assert {"promtool", "prometheus", "helm"} <= tools
    assert (tmp_path / ".cache" / "ops" / "hdfs" / "libhdfs.so").exists()
