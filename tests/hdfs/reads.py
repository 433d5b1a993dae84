"""Copies tables into HDFS, reads them there and on the local disk, and prints a line of JSON for each:

    python -m tests.hdfs.reads URI FOLDER [FOLDER …]

Its own process: the client of HDFS starts a JVM, which takes over signals.
"""

from __future__ import annotations

import json
import pathlib
import sys

import pyarrow.fs as pafs

from tests.store_answers import QUERIES, answer


def main(store: str, folders: list[str]) -> None:
    filesystem, _ = pafs.FileSystem.from_uri(store)
    for folder in folders:
        name = pathlib.Path(folder).name
        pafs.copy_files(folder, f"/lake/{name}", destination_filesystem=filesystem, use_threads=False)
        uri = f"{store}/lake/{name}"
        pairs = [(answer(uri, **options), answer(folder, **options)) for options in QUERIES]
        equal = [there == here for there, here in pairs]
        print(json.dumps({"table": name, "equal": equal, "rows": pairs[0][0][1].total()}), flush=True)
    name = pathlib.Path(folders[0]).name
    found = filesystem.get_file_info(pafs.FileSelector(f"/lake/{name}", recursive=True))
    for info in found:
        if info.path.endswith(".parquet") and "/.hoodie/" not in info.path:
            filesystem.delete_file(info.path)
    for table in (name, "none"):
        print(json.dumps({"table": table, "error": answer(f"{store}/lake/{table}")}, default=str), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
