"""Runs the Spark suite on the oldest supported PySpark. Long: installs that release, and runs for minutes.

The environment has this environment's packages after another PySpark, kept under `.cache/`.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import sysconfig
import venv

import pytest

OLDEST = "4.2.1"
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def environment_with(pyspark: str, folder: pathlib.Path) -> pathlib.Path:
    """A Python with this PySpark, and the other packages of the running one."""
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", f"pyspark=={pyspark}"]
        subprocess.run(install, check=True)
        completed = subprocess.run(
            [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            check=True,
            capture_output=True,
            text=True,
        )
        later = [path for path in sys.path if path.endswith("site-packages")] or [sysconfig.get_path("purelib")]
        (pathlib.Path(completed.stdout.strip()) / "dependencies.pth").write_text("".join(f"{path}\n" for path in later))
        (folder / ".ready").touch()
    return python


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_spark_suite_passes_on_the_oldest_pyspark() -> None:
    python = environment_with(OLDEST, REPOSITORY / ".cache" / f"pyspark-{OLDEST}")
    version = subprocess.run(
        [str(python), "-P", "-c", "import pyspark; print(pyspark.__version__)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert version.stdout.strip() == OLDEST
    # A wheel kept as an install is imported through the .pth; its console script is the running environment's.
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    run = subprocess.run(
        [str(python), "-P", "-m", "pytest", "-q", "-m", "spark and not long", "tests/spark"],
        cwd=REPOSITORY,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
