"""The checked-in stubs are what protoc writes from the .proto, byte for byte."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import pathlib
import re
import tomllib

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


def test_regenerating_the_stubs_changes_nothing(tmp_path: pathlib.Path) -> None:
    spec = importlib.util.spec_from_file_location("generate_stubs", REPOSITORY / "tools" / "generate_stubs.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    stubs = tool.generate(tmp_path)
    assert set(stubs) == {"penstock_pb2.py", "penstock_pb2.pyi", "penstock_pb2_grpc.py"}
    assert tool.differing(stubs) == []
    assert tool.differing({**stubs, "penstock_pb2.py": b"other"}) == ["penstock_pb2.py"]


def test_declared_floors_are_those_the_stubs_demand() -> None:
    """A stub refuses an older runtime at import: pip must refuse it first."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    stubs = REPOSITORY / "proto" / "v1"
    grpcio = re.search(r"GRPC_GENERATED_VERSION = '([\d.]+)'", (stubs / "penstock_pb2_grpc.py").read_text())
    protobuf = re.search(r"# Protobuf Python Version: ([\d.]+)", (stubs / "penstock_pb2.py").read_text())
    assert grpcio is not None
    assert protobuf is not None
    assert f"grpcio>={grpcio[1]}" in project["dependencies"]
    assert any(line.startswith(f"protobuf>={protobuf[1]}") for line in project["dependencies"])
    assert f"grpcio-tools=={importlib.metadata.version('grpcio-tools')}" in project["optional-dependencies"]["test"]
