"""The lower bounds of pyproject.toml are true: with exactly those versions the package imports, reads and serves.

The environment of the bounds is made once and kept in .cache/floors, by the bounds' digest; what they depend on in turn
is the newest that fits, as for a user who installs today. Spark's bound is not tried: its suites have its version.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import penstock
from penstock.enumerator.server.auth.tokens import new_token
from tests.faults.served import end, until
from tests.ops.places import REPOSITORY

pytestmark = [pytest.mark.ops, pytest.mark.golden, pytest.mark.timeout(900)]
CASE = "A_merge_event_long_v9_h120"
PROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
EXTRAS = ("server", "kafka")
IMPORT_ALL = """
import importlib, json, sys
failed = {}
for name in json.load(sys.stdin):
    try:
        importlib.import_module(name)
    except Exception as error:
        failed[name] = repr(error)
print(json.dumps(failed))
"""
INSTALLED = """
import importlib.metadata, json
print(json.dumps([(one.name, one.version) for one in importlib.metadata.distributions()]))
"""


def bounds() -> list[str]:
    """NAME==VERSION of each lower bound; a dependency without one is a mistake."""
    project = PROJECT["project"]
    needed = [*project["dependencies"], *(one for extra in EXTRAS for one in project["optional-dependencies"][extra])]
    found = []
    for requirement in map(Requirement, needed):
        (floor,) = [each.version for each in requirement.specifier if each.operator == ">="]
        found.append(f"{requirement.name}=={floor}")
    return sorted(found)


@pytest.fixture(scope="module")
def python() -> pathlib.Path:
    """The interpreter of an environment that holds the bounds, and not the package."""
    pins = bounds()
    home = REPOSITORY / ".cache" / "floors" / hashlib.sha256("\n".join(pins).encode()).hexdigest()[:16]
    made = home / "bin" / "python"
    if not (home / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", home], check=True, timeout=120)
        install = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            made,
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-compile",
        ]
        subprocess.run([*install, *pins], check=True, timeout=500)
        (home / "complete").touch()
    return made


@pytest.fixture(scope="module")
def environment(python: pathlib.Path) -> dict[str, str]:
    """The package under test on the path, and nothing that it depends on: files `.pth` do not count there."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PENSTOCK"))}
    kernels = str(python.parents[1] / "kernels")
    return {**clean, "PYTHONPATH": sysconfig.get_path("purelib"), "NUMBA_CACHE_DIR": kernels}


def run(python: pathlib.Path, environment: dict[str, str], *arguments: str, given: str = "") -> str:
    result = subprocess.run(
        [python, "-P", *arguments], env=environment, input=given, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    return result.stdout


def test_every_module_imports_with_the_bounds_and_nothing_else(
    python: pathlib.Path, environment: dict[str, str]
) -> None:
    found = json.loads(run(python, environment, "-c", INSTALLED))
    installed = {canonicalize_name(name): Version(version) for name, version in found}
    for name, floor in (pin.split("==") for pin in bounds()):
        assert installed[canonicalize_name(name)] == Version(floor), name
    names = [
        package if path.stem == "__init__" else f"{package}.{path.stem}"
        for package, folder in PROJECT["tool"]["setuptools"]["package-dir"].items()
        for path in (REPOSITORY / folder).glob("*.py")
        if "spark" not in package and path.stem != "__main__"
    ]
    assert len(names) > 300
    assert json.loads(run(python, environment, "-c", IMPORT_ALL, given=json.dumps(names))) == {}


def test_the_command_line_reads_what_is_read_here(
    python: pathlib.Path, environment: dict[str, str], golden: Any
) -> None:
    table = str(golden.table(CASE))
    expected = penstock.read(table, where="v > 3").read_all().to_pylist()
    command = ("-m", "penstock", "read", table, "--where", "v > 3", "--format", "jsonl")
    rows = [json.loads(line) for line in run(python, environment, *command).splitlines()]
    assert rows and sorted(map(repr, (row["id"] for row in rows))) == sorted(repr(row["id"]) for row in expected)
    for help_of in ([], ["groups", "reset"]):
        assert "Usage" in run(python, environment, "-m", "penstock", *help_of, "--help")


def test_a_server_with_configuration_tokens_and_metrics_is_read(
    python: pathlib.Path, environment: dict[str, str], golden: Any, tmp_path: pathlib.Path
) -> None:
    token, line = new_token("reader")
    (tmp_path / "tokens").write_text(line + "\n")
    (tmp_path / "token").write_text(token)
    (tmp_path / "penstock.toml").write_text(
        f'tokens = "{tmp_path}/tokens"\nstate = "{tmp_path}/state"\nmetricsListen = "127.0.0.1:0"\nreflection = true\n'
        f'[tables]\nt = "{golden.table(CASE)}"\n'
        '[[acl]]\nprincipal = "token:reader"\nrights = ["read", "plan", "consume"]\n'
    )
    command = [python, "-P", "-m", "penstock", "serve", "--config", tmp_path / "penstock.toml"]
    with (tmp_path / "address").open("w") as out, (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=log, text=True)
    try:
        until(lambda: process.poll() is not None or (tmp_path / "address").read_text().endswith("\n"), "the address")
        assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
        server = {
            "PENSTOCK_SERVER": (tmp_path / "address").read_text().split()[-1],
            "PENSTOCK_SERVER_TOKEN": str(tmp_path / "token"),
        }
        rows = run(python, environment | server, "-m", "penstock", "read", "t", "--format", "jsonl").splitlines()
        assert len(rows) == penstock.read(str(golden.table(CASE))).read_all().num_rows
        tail = ("tail", "t", "--group", "g", "--exit-at-end", "--format", "jsonl")
        assert len(run(python, environment | server, "-m", "penstock", *tail).splitlines()) == len(rows)
        assert "running" in run(python, environment | server, "-m", "penstock", "groups", "list")
    finally:
        end(process)
