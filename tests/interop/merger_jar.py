"""The Java classes of the golden tables with custom mergers, compiled for the process of Hudi."""

from __future__ import annotations

import pathlib
import zipfile
from typing import Any

from tests.interop.hudi_process import make_environment
from tests.kafka_broker import checked

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "golden" / "generators"
CLASSES = ("CountingPayload", "LowestMerger")


def add_mergers(hudi: Any, folder: pathlib.Path) -> None:
    """Compiles the classes in `folder`, and adds them to the process of Hudi."""
    environment = make_environment()
    assert environment.jar, "the bundle needs Maven"
    (of_spark,) = environment.python.parents[1].glob("lib/python*/site-packages/pyspark/jars")
    sources = [str(SOURCES / f"{name}.java") for name in CLASSES]
    class_path = f"{environment.jar}:{of_spark}/*"
    checked(["javac", "-nowarn", "-proc:none", "-d", str(folder), "-cp", class_path, *sources], cwd=folder)
    jar = folder / "mergers.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for name in CLASSES:
            file = f"example/mergers/{name}.class"
            archive.write(folder / file, file)
    hudi.add_jar(jar)
