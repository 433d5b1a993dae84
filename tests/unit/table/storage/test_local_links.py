"""Links below a folder are detected; everything else that is inside needs no resolution."""

from __future__ import annotations

import pathlib

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.table.storage.local_links import has_no_link


def test_folder_that_is_a_link_itself_has_no_link_below(tmp_path: pathlib.Path) -> None:
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "real" / "a" / "file").touch()
    (tmp_path / "current").symlink_to(tmp_path / "real")
    for path in ("", "a", "a/file", "a/file/below", "absent", "absent/file"):
        assert has_no_link(str(tmp_path / "current"), path), path


def test_link_in_any_part_is_detected(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t" / "a").mkdir(parents=True)
    (tmp_path / "t" / "a" / "out").symlink_to(tmp_path)
    (tmp_path / "t" / "dangling").symlink_to(tmp_path / "nowhere")
    for path in ("a/out", "a/out/file", "a/out/t/a", "dangling", "dangling/file"):
        assert not has_no_link(str(tmp_path / "t"), path), path


def test_part_that_cannot_be_examined_counts_as_a_link(tmp_path: pathlib.Path) -> None:
    assert not has_no_link(str(tmp_path), "x" * 300)


@given(st.lists(st.sampled_from(["folder", "file", "out", "within", "absent"]), max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_path_without_a_link_is_inside(tmp_path: pathlib.Path, parts: list[str]) -> None:
    root = tmp_path / "root"
    if not root.exists():
        for folder in (root, root / "folder", root / "folder" / "folder"):
            folder.mkdir()
            (folder / "file").touch()
            (folder / "out").symlink_to(tmp_path)
            (folder / "within").symlink_to(root / "file")
    path = "/".join(parts)
    if has_no_link(str(root), path):
        assert (root / path).resolve() == root.resolve() / path, "resolving the path follows no link"
    else:
        assert {"out", "within"} & set(parts)
