"""The choice of the Python of Spark's processes, and the effect of `import penstock.spark` on a process."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from penstock.engine.spark.interpreter import command
from penstock.engine.spark.startup import (
    Choice,
    choice,
    default_properties,
    missing_format_explained,
    submitted_properties,
)
from penstock.proto.errors import ConfigurationError

OWN = "/venv/bin/python"


def chosen(
    environment: dict[str, str], properties: dict[str, str], python3: str | None = "/usr/bin/python3", own: str = OWN
) -> Choice:
    return choice(environment, properties, own, {"python3": python3}.get)


def test_environment_that_is_not_activated_needs_its_own_python() -> None:
    assert chosen({}, {}) is Choice.SET
    assert chosen({}, {}, python3=None) is Choice.SET


def test_activated_environment_keeps_python3() -> None:
    assert chosen({}, {}, python3="/venv/bin/python3") is Choice.KEEP


def test_folder_counts_and_not_the_target_of_its_link(tmp_path: pathlib.Path) -> None:
    """The interpreter of a virtual environment is a link to the Python that created it."""
    for folder in ("system", "venv", "other"):
        (tmp_path / folder).mkdir()
    (tmp_path / "system" / "python3").touch()
    for name in ("venv/python", "venv/python3", "other/python3"):
        (tmp_path / name).symlink_to(tmp_path / "system" / "python3")
    (tmp_path / "same").symlink_to(tmp_path / "venv")
    own = str(tmp_path / "venv" / "python")
    for folder, expected in (
        ("venv", Choice.KEEP),
        ("same", Choice.KEEP),
        ("other", Choice.SET),
        ("system", Choice.SET),
    ):
        assert chosen({}, {}, python3=str(tmp_path / folder / "python3"), own=own) is expected, folder


@pytest.mark.parametrize("name", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"])
@pytest.mark.parametrize("value", ["/other/python", "python3", ""])
def test_variable_of_the_user_is_kept(name: str, value: str) -> None:
    assert chosen({name: value}, {}) is Choice.KEEP


@pytest.mark.parametrize("name", ["spark.pyspark.python", "spark.pyspark.driver.python"])
def test_property_of_the_user_is_kept(name: str) -> None:
    assert chosen({}, {name: "/other/python"}) is Choice.KEEP
    assert chosen({}, {name: "/other/python", "spark.master": "yarn"}) is Choice.KEEP


@pytest.mark.parametrize("environment", [{"PYSPARK_GATEWAY_PORT": "4711"}, {"SPARK_REMOTE": "sc://host"}])
def test_process_that_starts_no_jvm_is_left_alone(environment: dict[str, str]) -> None:
    assert chosen(environment, {}) is Choice.KEEP


def test_connect_server_in_this_process_needs_it_too() -> None:
    assert chosen({"SPARK_REMOTE": "local[2]"}, {}) is Choice.SET


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", Choice.SET),
        ("local[*]", Choice.SET),
        ("local-cluster[1,1,1024]", Choice.SET),
        ("yarn", Choice.WARN),
        ("spark://host:7077", Choice.WARN),
        ("k8s://https://host", Choice.WARN),
    ],
)
def test_on_a_cluster_it_only_warns(master: str, expected: Choice) -> None:
    assert chosen({}, {"spark.master": master}) is expected


def test_process_without_an_executable_is_left_alone() -> None:
    assert chosen({}, {}, own="") is Choice.KEEP


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("pyspark-shell", {}),
        ("--master yarn pyspark-shell", {"spark.master": "yarn"}),
        ("--master=spark://a:1 pyspark-shell", {"spark.master": "spark://a:1"}),
        (
            "--conf spark.a=1 --conf 'spark.pyspark.python=/a b/c' -c spark.b=x=y pyspark-shell",
            {"spark.a": "1", "spark.pyspark.python": "/a b/c", "spark.b": "x=y"},
        ),
        ("--conf=spark.a=1 pyspark-shell", {"spark.a": "1"}),
        ("--conf", {}),
        ("--conf 'open", {}),
    ],
)
def test_properties_in_submit_arguments(text: str, properties: dict[str, str]) -> None:
    assert submitted_properties(text) == properties


def test_properties_in_the_defaults_of_spark() -> None:
    lines = [
        "# spark.master yarn",
        "",
        "spark.master   spark://host:7077  ",
        "spark.a=1",
        "spark.b : 2 3",
        "spark.pyspark.python\t/opt/python",
        "spark.empty",
    ]
    assert default_properties(lines) == {
        "spark.master": "spark://host:7077",
        "spark.a": "1",
        "spark.b": "2 3",
        "spark.pyspark.python": "/opt/python",
    }


REPORT = (
    "import json, os, sys\n"
    "before = dict(os.environ)\n"
    "{code}\n"
    "names = {{name for name in {{*before, *os.environ}} if os.environ.get(name) != before.get(name)}}\n"
    "changed = {{name: os.environ.get(name) for name in names}}\n"
    "print(json.dumps([changed, 'pyspark' in sys.modules]))"
)


def changed_by(code: str, path: pathlib.Path, environment: dict[str, str]) -> tuple[dict[str, str], bool, str]:
    """What a process that runs `code` changed in its environment, whether it imported pyspark, and its stderr. Its PATH
    has only `path`."""
    own = {name: value for name, value in os.environ.items() if name.startswith(("HOME", "NUMBA", "LANG"))}
    done = subprocess.run(
        [sys.executable, "-P", "-c", REPORT.format(code=code)],
        env={**own, "PATH": str(path), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    changed, imported = json.loads(done.stdout)
    return changed, imported, done.stderr


@pytest.fixture
def other_path(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with another `python3`."""
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    return tmp_path


class TestImport:
    """`import penstock.spark` in a process of its own."""

    def test_it_sets_one_variable_and_does_not_import_pyspark(self, other_path: pathlib.Path) -> None:
        changed, imported, log = changed_by("import penstock.spark", other_path, {})
        assert changed == {"PYSPARK_PYTHON": command()}
        assert not imported
        assert log == ""

    @pytest.mark.parametrize("code", ["import penstock", "import penstock, penstock.errors", "import pyspark_penstock"])
    def test_other_imports_change_nothing(self, other_path: pathlib.Path, code: str) -> None:
        assert changed_by(code, other_path, {})[0] == {}

    def test_setting_of_the_user_stays(self, other_path: pathlib.Path) -> None:
        for environment in (
            {"PYSPARK_PYTHON": "mine"},
            {"PYSPARK_DRIVER_PYTHON": "mine"},
            {"PYSPARK_SUBMIT_ARGS": "--conf spark.pyspark.python=mine pyspark-shell"},
        ):
            assert changed_by("import penstock.spark", other_path, environment) == ({}, False, "")

    def test_setting_in_the_defaults_of_spark_stays(self, other_path: pathlib.Path) -> None:
        (other_path / "conf").mkdir()
        (other_path / "conf" / "spark-defaults.conf").write_text("spark.pyspark.driver.python mine\n")
        for environment in ({"SPARK_HOME": str(other_path)}, {"SPARK_CONF_DIR": str(other_path / "conf")}):
            assert changed_by("import penstock.spark", other_path, environment) == ({}, False, "")

    def test_on_a_cluster_the_warning_names_both_pythons(self, other_path: pathlib.Path) -> None:
        environment = {"PYSPARK_SUBMIT_ARGS": "--master spark://host:7077 pyspark-shell"}
        changed, _, log = changed_by("import penstock.spark", other_path, environment)
        assert changed == {}
        assert log == (
            "The master is spark://host:7077, and PYSPARK_PYTHON is not set, so Spark's Python processes run "
            f"{other_path / 'python3'} and not the Python of this program. If Spark does not find the format penstock "
            "(DATA_SOURCE_NOT_FOUND), set PYSPARK_PYTHON to a Python that has Penstock on every node, such as "
            f"{command()}\n"
        )

    def test_after_the_start_of_the_session_it_only_warns(self, other_path: pathlib.Path) -> None:
        code = (
            "from pyspark.core.context import SparkContext\nSparkContext._jvm = object()\n"
            "before = dict(os.environ)\nimport penstock.spark"
        )
        changed, _, log = changed_by(code, other_path, {})
        assert changed == {}
        assert "penstock.spark was imported after the Spark session started, so Spark's Python processes run" in log

    def test_without_pyspark_it_changes_nothing(self, other_path: pathlib.Path) -> None:
        code = (
            "import importlib.util\nfind = importlib.util.find_spec\n"
            "importlib.util.find_spec = lambda name, *rest: None if name == 'pyspark' else find(name, *rest)\n"
            "import penstock.spark"
        )
        assert changed_by(code, other_path, {}) == ({}, False, "")


class TestMissingFormat:
    """The error of a `load()` in `penstock.spark.table` and `penstock.spark.sql`."""

    TEXT = "o33.load.\n: SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: penstock."

    def explained(self, error: Exception) -> str:
        with pytest.raises(ConfigurationError) as caught, missing_format_explained():
            raise error
        assert caught.value.__cause__ is error
        return str(caught.value)

    def test_default_python(self, monkeypatch: pytest.MonkeyPatch, other_path: pathlib.Path) -> None:
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PATH", str(other_path))
        text = self.explained(ValueError(self.TEXT))
        assert text == (
            "Spark does not find the format penstock: the Python that it started "
            f"({other_path / 'python3'}, the python3 of the PATH) has no Penstock, or has another package pyspark_… "
            "that cannot be imported. Import penstock.spark before the session starts, or set "
            f"PYSPARK_PYTHON={command()}; `penstock doctor` checks it"
        )

    def test_python_that_the_user_chose(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYSPARK_PYTHON", "/other/python")
        monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
        assert "(PYSPARK_PYTHON=/other/python) has no Penstock" in self.explained(ValueError(self.TEXT))

    def test_other_errors_are_unchanged(self) -> None:
        with pytest.raises(ValueError, match="TABLE_OR_VIEW_NOT_FOUND"), missing_format_explained():
            raise ValueError("[TABLE_OR_VIEW_NOT_FOUND]")
        with missing_format_explained():
            pass
