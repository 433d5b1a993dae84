"""Writes the stubs of `penstock.v1` from proto/v1/penstock.proto, or with --check reports whether they are current.

`python tools/generate_stubs.py [--check]` needs grpcio-tools in the version that the extra `test` of pyproject.toml
pins, because other versions write other bytes. protoc gets the package path as a virtual path, so that the stubs import
each other as `penstock.proto.v1`. It writes to a scratch folder, from which this tool copies the stubs.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile

from grpc_tools import protoc

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
STUBS = REPOSITORY / "proto" / "v1"
NAMES = ("penstock_pb2.py", "penstock_pb2.pyi", "penstock_pb2_grpc.py")


def generate(scratch: pathlib.Path) -> dict[str, bytes]:
    """The stubs that protoc generates, by file name. `scratch` is an existing folder for its output."""
    status = protoc.main(
        [
            "protoc",
            f"-Ipenstock/proto={REPOSITORY / 'proto'}",
            f"--python_out={scratch}",
            f"--pyi_out={scratch}",
            f"--grpc_python_out={scratch}",
            "penstock/proto/v1/penstock.proto",
        ]
    )
    if status != 0:
        raise SystemExit(f"protoc failed with status {status}: see its message above")
    return {name: (scratch / "penstock" / "proto" / "v1" / name).read_bytes() for name in NAMES}


def differing(stubs: dict[str, bytes]) -> list[str]:
    """Names of the checked-in stubs that are missing or differ."""
    return [name for name, data in stubs.items() if not _holds(STUBS / name, data)]


def _holds(file: pathlib.Path, data: bytes) -> bool:
    return file.is_file() and file.read_bytes() == data


def main() -> int:
    """Exit status 1 if --check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a stub is not current")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        stubs = generate(pathlib.Path(folder))
    stale = differing(stubs)
    if arguments.check:
        for name in stale:
            print(f"proto/v1/{name} is out of date: run tools/generate_stubs.py")
        return 1 if stale else 0
    for name in stale:
        (STUBS / name).write_bytes(stubs[name])
        print(f"wrote proto/v1/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
