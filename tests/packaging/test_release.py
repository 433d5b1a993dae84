"""Releases are reproducible: locks with hashes that match the package's dependencies, and an SBOM of wheel and lock."""

from __future__ import annotations

import hashlib
import importlib
import json
import pathlib
import re
import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.packaging
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "requirements"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
NEEDED = {
    "wheel.lock": PROJECT["dependencies"],
    "image.lock": [*PROJECT["dependencies"], *EXTRAS["server"], *EXTRAS["kafka"]],
    "build.lock": tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["build-system"]["requires"],
}


def problems_of(text: str, needed: list[str], constraints: str) -> list[str]:
    """The differences between a lock and the requirements and constraints."""
    pinned = dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", constraints, re.MULTILINE))
    pinned = {canonicalize_name(name): version for name, version in pinned.items()}
    locked: dict[str, str] = {}
    problems = [f"names a place: {line}" for line in text.splitlines() if "://" in line or "--index" in line]
    for entry in re.split(r"\n(?=\S)", "\n".join(line for line in text.splitlines() if line[:1] != "#").strip()):
        match = re.match(r"([A-Za-z0-9._-]+)==(\S+) \\\n", entry)
        if match is None or not re.search(r"--hash=sha256:[0-9a-f]{64}", entry):
            problems.append(f"no version with a hash: {entry[:60]}")
            continue
        locked[canonicalize_name(match[1])] = match[2]
    problems += [f"{name} {version}: constraints say {pinned.get(name)}" for name, version in locked.items()
              if pinned.get(name) != version]  # fmt: skip
    for requirement in map(Requirement, needed):
        version = locked.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version):
            problems.append(f"{requirement}: locked {version}")
    return problems


@pytest.mark.parametrize("name", NEEDED)
def test_lock_has_every_dependency_by_version_and_hash(name: str) -> None:
    constraints = (FOLDER / "constraints.txt").read_text()
    assert problems_of((FOLDER / name).read_text(), NEEDED[name], constraints) == [], "run `make locks`"


def test_lock_with_missing_or_changed_entries_is_reported() -> None:
    text, constraints = (FOLDER / "image.lock").read_text(), (FOLDER / "constraints.txt").read_text()
    needed = NEEDED["image.lock"]
    assert problems_of(text, [*needed, "nosuch>=1"], constraints) == ["nosuch>=1: locked None"]
    assert problems_of(text, [*needed, "typer>=99"], constraints)[0].startswith("typer>=99: locked ")
    assert problems_of(re.sub(r"typer==\S+", "typer==0.1", text), needed, constraints)
    assert problems_of(re.sub(r"(rich==\S+ \\\n)(    --hash.*\n)+", r"\1", text), needed, constraints)
    assert problems_of("--index-url https://index.example/\n" + text, needed, constraints)


def test_image_installs_by_hash_before_the_project_and_requires_a_digest() -> None:
    text = (REPOSITORY / "deploy" / "Dockerfile").read_text()
    lines = [line for line in text.replace("\\\n", " ").splitlines() if not line.startswith("#")]
    assert [line for line in lines if line.startswith(("ARG", "FROM"))] == [
        "ARG BASE", "FROM ${BASE} AS build", "ARG BASE", "FROM ${BASE}"
    ]  # fmt: skip
    (checked,) = [line for line in lines if line.startswith("RUN case")]
    assert "*@sha256:" + "?" * 64 + ")" in checked and "exit 1" in checked
    installs = re.findall(r"pip (?:install|wheel) (.*?)(?:&&|$)", " ".join(lines))
    assert len(installs) == 4
    assert all("--require-hashes" in one or "--no-deps" in one for one in installs)
    assert "--no-build-isolation" in installs[1]
    ignored = (REPOSITORY / ".dockerignore").read_text()
    assert all(f"!{lock}" in ignored for one in installs for lock in re.findall(r"requirements/\S+", one))


def test_sbom_names_the_wheel_and_every_locked_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "tools"))
    make_sbom = importlib.import_module("make_sbom")
    wheel = tmp_path / "penstock-9.8.7-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    written = make_sbom.main(wheel)
    assert written.name == "penstock-9.8.7.cdx.json"
    document: dict[str, Any] = json.loads(written.read_text())
    root = document["metadata"]["component"]
    assert (document["bomFormat"], root["version"]) == ("CycloneDX", "9.8.7")
    assert root["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"a wheel").hexdigest()}]
    lock = (FOLDER / "image.lock").read_text()
    components = {one["name"]: one for one in document["components"]}
    assert {(name, one["version"]) for name, one in components.items()} == set(
        re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock, re.MULTILINE)
    )
    hashes = {each["content"] for one in components.values() for ref in one["externalReferences"]
              for each in ref.get("hashes", ())}  # fmt: skip
    assert hashes == set(re.findall(r"sha256:([0-9a-f]{64})", lock))
    (first,) = (one for one in document["dependencies"] if one["ref"] == root["bom-ref"])
    assert set(first["dependsOn"]) == {one["bom-ref"] for one in components.values()}
