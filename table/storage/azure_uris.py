"""URIs of Azure, in which the user name is no secret: it locates the table.

`abfs://CONTAINER[:KEY]@ACCOUNT.dfs.core.windows.net/FOLDER`, or `abfs://ACCOUNT[:KEY]@HOST[:PORT]/CONTAINER/FOLDER` for
another host. Source: Arrow `AzureOptions::FromUri`.
"""

from __future__ import annotations

import re
from typing import Final

AZURE_SCHEMES: Final = ("abfs", "abfss")
_HOST: Final = re.compile(r"[^:/]*(:\d*)?/")
"""A host, perhaps with a port, and the beginning of a path."""


def located_user(scheme: str, rest: str) -> str:
    """`USER@` of a URI of Azure whose `rest` follows `SCHEME://`, without the key; '' for another scheme, or without a
    user."""
    before = rest.partition("@")[0]
    if scheme.lower() not in AZURE_SCHEMES or before == rest or _HOST.match(before):
        return ""
    user = before.partition(":")[0]
    return f"{user}@" if user else ""
