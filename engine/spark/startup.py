"""Chooses the Python of Spark's processes for a program whose environment is not activated.

Spark starts its Python processes with the command in PYSPARK_DRIVER_PYTHON or PYSPARK_PYTHON, else with the `python3`
of the PATH. For a program started as `/venv/bin/python app.py` that is another Python, which has no Penstock, and Spark
reports DATA_SOURCE_NOT_FOUND. So `import penstock.spark` sets PYSPARK_PYTHON to this interpreter, unless the user has
chose one. It must happen before the session starts, because the JVM inherits the variable.

Imports neither pyspark nor another library.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from penstock.engine.spark.interpreter import command

VARIABLES: Final = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
"""The variables that name the Python of Spark's processes, in Spark's order."""
_PROPERTIES: Final = ("spark.pyspark.python", "spark.pyspark.driver.python")
_PROPERTY: Final = re.compile(r"([^\s#!=:][^\s=:]*)(?:\s*[=:]\s*|\s+)(\S.*)")
_MASTER: Final = "spark.master"
_SUBMIT_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
_JVM_PORT: Final = "PYSPARK_GATEWAY_PORT"
_REMOTE: Final = "SPARK_REMOTE"


class Choice(StrEnum):
    """What to do about the Python of Spark's processes."""

    KEEP = "keep"
    """Nothing: the user has chosen it, or it is this Python, or this process does not start the JVM."""
    SET = "set"
    """Set PYSPARK_PYTHON to this Python."""
    WARN = "warn"
    """The processes will run another Python, which may have no Penstock; but this Python may not exist on the nodes of
    the cluster."""


def use_this_python() -> None:
    """Sets PYSPARK_PYTHON for this process and its children, or logs a warning, as `choice` says. After the start of a
    session it logs a warning, because the session keeps its Python."""
    if find_spec("pyspark") is None:
        return
    properties = {**_default_properties(os.environ), **submitted_properties(os.environ.get(_SUBMIT_ARGUMENTS, ""))}
    match choice(os.environ, properties, sys.executable, shutil.which):
        case Choice.SET if not _has_session():
            os.environ["PYSPARK_PYTHON"] = command()
        case Choice.SET:
            _warn("penstock.spark was imported after the Spark session started", "import it before, or set")
        case Choice.WARN:
            _warn(f"The master is {properties[_MASTER]}, and PYSPARK_PYTHON is not set", "set")


def _warn(cause: str, advice: str) -> None:
    import logging

    logging.getLogger("penstock.engine.spark").warning(
        "%s, so Spark's Python processes run %s and not the Python of this program. If Spark does not find the format "
        "penstock (DATA_SOURCE_NOT_FOUND), %s PYSPARK_PYTHON to a Python that has Penstock on every node, such as %s",
        cause,
        shutil.which("python3") or "python3",
        advice,
        command(),
    )


@contextmanager
def missing_format_explained() -> Iterator[None]:
    """Around a `load()`: names the cause if Spark does not find the format. ConfigurationError."""
    try:
        yield
    except Exception as error:
        if "[DATA_SOURCE_NOT_FOUND]" not in str(error):
            raise
        from penstock.proto.errors import ConfigurationError

        variable = next((name for name in VARIABLES if name in os.environ), None)
        default = f"{shutil.which('python3')}, the python3 of the PATH"
        given = f"{variable}={os.environ[variable]}" if variable else default
        raise ConfigurationError(
            f"Spark does not find the format penstock: the Python that it started ({given}) has no Penstock, or has "
            "another package pyspark_… that cannot be imported. Import penstock.spark before the session starts, or "
            f"set PYSPARK_PYTHON={command()}; `penstock doctor` checks it"
        ) from error


def choice(
    environment: Mapping[str, str],
    properties: Mapping[str, str],
    executable: str,
    which: Callable[[str], str | None],
) -> Choice:
    """KEEP if the user has set one of VARIABLES or of Spark's properties for it, if SPARK_REMOTE names a server of
    Spark Connect, if the JVM runs already (spark-submit), or if the environment is activated: the `python3` of the PATH
    is in the folder of `executable`. Otherwise WARN if the master is known and not local, else SET.

    `properties` are those known before the session starts; a master that the program itself sets is not among them.
    """
    if not executable or any(name in environment for name in (*VARIABLES, _JVM_PORT)):
        return Choice.KEEP
    if environment.get(_REMOTE, "").startswith("sc:") or any(name in properties for name in _PROPERTIES):
        return Choice.KEEP
    python3 = which("python3")
    if python3 is not None and Path(python3).parent.resolve() == Path(executable).parent.resolve():
        return Choice.KEEP
    return Choice.SET if properties.get(_MASTER, "local").startswith("local") else Choice.WARN


def submitted_properties(arguments: str) -> dict[str, str]:
    """Spark's properties in the text of PYSPARK_SUBMIT_ARGS: `--conf NAME=VALUE`, and `--master`."""
    try:
        words = shlex.split(arguments)
    except ValueError:  # Spark itself rejects it
        return {}
    properties = {}
    for name, value in _flags(words):
        if name == "--master":
            properties[_MASTER] = value
        elif name in ("--conf", "-c") and "=" in value:
            property_name, _, property_value = value.partition("=")
            properties[property_name] = property_value
    return properties


def _flags(words: list[str]) -> list[tuple[str, str]]:
    """The flags with their values, from `--name value` and `--name=value`."""
    separate = [(name, value) for name, value in itertools.pairwise(words) if name.startswith("-")]
    joined = [
        (name, value) for name, sign, value in (word.partition("=") for word in words) if name[:2] == "--" and sign
    ]
    return separate + joined


def _default_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """The properties in spark-defaults.conf of SPARK_CONF_DIR, or of SPARK_HOME."""
    home = environment.get("SPARK_HOME")
    folder = environment.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    if folder is None:
        return {}
    try:
        lines = (Path(folder) / "spark-defaults.conf").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return default_properties(lines)


def default_properties(lines: list[str]) -> dict[str, str]:
    """The properties in the lines of a spark-defaults.conf: a name, then white space, `=` or `:`, then a value."""
    properties = {}
    for line in lines:
        match = _PROPERTY.fullmatch(line.strip())
        if match is not None:
            properties[match[1]] = match[2]
    return properties


def _has_session() -> bool:
    """Whether a JVM of Spark was started in this process. Imports nothing."""
    context = getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)
    return getattr(context, "_jvm", None) is not None
