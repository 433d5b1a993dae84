"""Checks what the demo needs beside Penstock, before anything starts: pyspark, and a Java that Spark supports."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Final

from penstock.proto.errors import ConfigurationError

NEEDED_JAVA: Final = 17
ADVICE: Final = (
    f"Spark needs Java {NEEDED_JAVA} or newer; install for instance the package openjdk-17-jre-headless (Debian, "
    "Ubuntu) or java-17-openjdk-headless (Fedora)"
)


def check_prerequisites(
    environment: Mapping[str, str] = os.environ,
    *,
    has_module: Callable[[str], bool] = lambda name: find_spec(name) is not None,
    java_banner: Callable[[str], str | None] | None = None,
) -> None:
    """Raises ConfigurationError, with what to install, if pyspark or Java 17 or newer is missing.

    The Java that is checked is the one that Spark starts: `$JAVA_HOME/bin/java`, else `java` on the PATH.
    """
    if not has_module("pyspark"):
        raise ConfigurationError(
            "pyspark is not installed, and two of the demo's four reads run in Spark: install it with "
            "`pip install 'penstock[spark]'`"
        )
    home = environment.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    banner = (java_banner or banner_of)(java)
    if banner is None:
        raise ConfigurationError(f"Java is missing ({java!r} does not run): {ADVICE}")
    version = java_major(banner)
    if version is None or version < NEEDED_JAVA:
        raise ConfigurationError(f"{java!r} is not Java {NEEDED_JAVA}: got {banner.strip()[:80]!r}: {ADVICE}")


def java_major(banner: str) -> int | None:
    """The major version in the output of `java -version` (1.8 is 8); None if it has none."""
    match = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(match[1]) if match else None


def banner_of(java: str) -> str | None:
    """The output of `java -version`; None if that Java does not run."""
    if shutil.which(java) is None:
        return None
    try:
        process = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stderr or process.stdout if process.returncode == 0 else None
