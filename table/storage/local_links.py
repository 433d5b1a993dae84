"""Symbolic links below a folder of the local file system."""

from __future__ import annotations

import os
import stat


def has_no_link(root: str, path: str) -> bool:
    """Whether no part of `path` below `root` is a symbolic link, so that the file is inside `root`.

    `path` is relative and has no '..' part; its parts need not exist. `root` itself may be a link. False if a part
    cannot be examined. One system call for each part: resolving the whole path takes several times as long.
    """
    at = root.rstrip("/")
    for part in path.split("/") if path else ():
        at = f"{at}/{part}"
        try:
            if stat.S_ISLNK(os.lstat(at).st_mode):
                return False
        except (FileNotFoundError, NotADirectoryError):
            return True  # nothing is below it
        except OSError:
            return False
    return True
