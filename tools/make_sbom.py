"""Writes the SBOM of a wheel beside it, in CycloneDX's JSON: the wheel with its SHA-256, and its locked dependencies.

    python tools/make_sbom.py dist/penstock-VERSION-py3-none-any.whl

The components are those of requirements/image.lock: the wheel's dependencies and those of the image's extras. The same
wheel and lock give the same file.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, Final

REPOSITORY: Final = pathlib.Path(__file__).resolve().parents[1]
LOCK: Final = REPOSITORY / "requirements" / "image.lock"


def components_of(lock: pathlib.Path) -> dict[str, Any]:
    """The CycloneDX document of a lock, without its root component."""
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "sbom.json"
        subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "cyclonedx_py", "requirements", str(lock), "--output-reproducible",
             "--of", "JSON", "-o", str(target)],
            check=True,
        )  # fmt: skip
        document: dict[str, Any] = json.loads(target.read_text())
        return document


def sbom(wheel: pathlib.Path, lock: pathlib.Path = LOCK) -> dict[str, Any]:
    """The CycloneDX document of a wheel: `metadata.component` is the wheel, and depends on every component."""
    name, version = wheel.name.split("-")[:2]
    document = components_of(lock)
    reference = f"pkg:pypi/{name}@{version}"
    document.setdefault("metadata", {})["component"] = {
        "bom-ref": reference,
        "type": "library",
        "name": name,
        "version": version,
        "purl": reference,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}],
    }
    needed = sorted(component["bom-ref"] for component in document["components"])
    others = [one for one in document.get("dependencies", []) if one["ref"] != reference]
    document["dependencies"] = [{"ref": reference, "dependsOn": needed}, *others]
    return document


def main(wheel: pathlib.Path) -> pathlib.Path:
    """Writes NAME-VERSION.cdx.json beside the wheel; its path."""
    target = wheel.with_name("-".join(wheel.name.split("-")[:2]) + ".cdx.json")
    target.write_text(json.dumps(sbom(wheel), indent=1, sort_keys=True) + "\n")
    return target


if __name__ == "__main__":
    print(main(pathlib.Path(sys.argv[1])))
