"""Names in class files: the relocated ones; everything else is unchanged."""

from __future__ import annotations

import pathlib
import struct
import zipfile

from tests.hybrid.moved_classes import move

PACKAGES = ("com/example/metrics", "org/example/io")
NAMES = {
    "com/example/metrics/Timer": "below/com/example/metrics/Timer",
    "(JLcom/example/metrics/Timer;[Lorg/example/io/File;)V": (
        "(JLbelow/com/example/metrics/Timer;[Lbelow/org/example/io/File;)V"
    ),
    "Ljava/util/List<Lorg/example/io/File;>;": "Ljava/util/List<Lbelow/org/example/io/File;>;",
    "below/org/example/io/File": "below/org/example/io/File",
    "com/example/metricsbis/Timer": "com/example/metricsbis/Timer",
    "own/com/example/metrics/Timer": "own/com/example/metrics/Timer",
}


def class_file(names: list[str]) -> bytes:
    """A pool of texts, each after a long (two numbers) and a reference; the code contains no name."""
    constants = b""
    for name in names:
        text = name.encode()
        constants += struct.pack(">Bq", 5, 1) + struct.pack(">BH", 7, 1) + struct.pack(">BH", 1, len(text)) + text
    head = b"\xca\xfe\xba\xbe" + struct.pack(">HHH", 0, 52, 4 * len(names) + 1)
    return head + constants + b"com/example/metrics/code"


def test_package_names_begin_with_the_folder(tmp_path: pathlib.Path) -> None:
    before, after = tmp_path / "before.jar", tmp_path / "after.jar"
    with zipfile.ZipFile(before, "w") as jar:
        jar.writestr("own/Job.class", class_file(list(NAMES)))
        jar.writestr("own/notes.txt", "com/example/metrics/Timer")
    move(before, after, PACKAGES, "below")
    with zipfile.ZipFile(after) as jar:
        assert jar.read("own/Job.class") == class_file(list(NAMES.values()))
        assert jar.read("own/notes.txt") == b"com/example/metrics/Timer"
        assert len(jar.namelist()) == 2
