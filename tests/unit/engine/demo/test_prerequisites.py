"""Missing prerequisites are reported before the demo starts."""

from __future__ import annotations

import pytest

from penstock.engine.demo.prerequisites import check_prerequisites, java_major
from penstock.proto.errors import ConfigurationError

JAVA_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)'
JAVA_8 = 'java version "1.8.0_392"'


@pytest.mark.parametrize(
    ("banner", "major"),
    [(JAVA_17, 17), (JAVA_8, 8), ('openjdk version "21" 2023-09-19', 21), ("no java here", None), ("", None)],
)
def test_major_version_of_a_banner(banner: str, major: int | None) -> None:
    assert java_major(banner) == major


def test_prerequisites_present() -> None:
    check_prerequisites({}, has_module=lambda _: True, java_banner=lambda _: JAVA_17)


def test_pyspark_missing_names_the_extra() -> None:
    with pytest.raises(ConfigurationError, match=r"penstock\[spark\]"):
        check_prerequisites({}, has_module=lambda _: False, java_banner=lambda _: JAVA_17)


@pytest.mark.parametrize("banner", [None, JAVA_8, "nonsense"])
def test_java_missing_or_old_names_the_package(banner: str | None) -> None:
    with pytest.raises(ConfigurationError, match="openjdk-17-jre-headless"):
        check_prerequisites({}, has_module=lambda _: True, java_banner=lambda _: banner)


def test_java_home_has_precedence() -> None:
    commands: list[str] = []

    def banner(java: str) -> str:
        commands.append(java)
        return JAVA_17

    check_prerequisites({"JAVA_HOME": "jdk"}, has_module=lambda _: True, java_banner=banner)
    check_prerequisites({}, has_module=lambda _: True, java_banner=banner)
    assert commands == ["jdk/bin/java", "java"]
