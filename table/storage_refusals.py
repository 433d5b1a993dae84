"""What an object store's refusals mean, in the words that pyarrow passes on. Pure.

Belongs here: telling a refusal that asking again cannot mend from a failure that may pass. Not here: when it is asked
(`storage`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_DENIED: Final = re.compile(
    r"AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|INVALID_SIGNATURE"
    r"|MISSING_AUTHENTICATION_TOKEN|INVALID_CLIENT_TOKEN_ID|UNRECOGNIZED_CLIENT|NOT_SIGNED_UP|OPT_IN_REQUIRED|REQUEST_TIME_TOO_SKEWED|REQUEST_EXPIRED)"
    r"|\bHTTP status (?:401|403)\b|\bExpiredToken\b"
    r"|\b(?:PERMISSION_DENIED|UNAUTHENTICATED)\b"  # of Google's client
    r"|org\.apache\.hadoop\.security\.AccessControlException"
)
_HEAD_400: Final = re.compile(r"HTTP status 400\) during Head(?:Object|Bucket)")
"""An answer without a body: of a wrong region, or of a session that is over."""
_MOVED: Final = re.compile(r"\bHTTP status 301\b|\bPermanentRedirect\b|\bAuthorizationHeaderMalformed\b")
_EXPECTED: Final = re.compile(r"expecting '([a-z0-9-]{2,40})'|located in '([a-z0-9-]{2,40})'")


@dataclass(frozen=True, slots=True)
class Denied:
    """This process may not; its rights or credentials must change."""


@dataclass(frozen=True, slots=True)
class WrongRegion:
    """The bucket is in another region than was asked; `region`: which, '' if the store does not say."""

    region: str


def refusal_of(text: str) -> Denied | WrongRegion | None:
    """What an error's text says; None for a failure that may pass."""
    if _MOVED.search(text):
        found = _EXPECTED.search(text)
        return WrongRegion(next(filter(None, found.groups()), "") if found else "")
    return Denied() if _DENIED.search(text) or _HEAD_400.search(text) else None


def region_of(uri: str) -> str:
    """The region that a URI names, '' if none."""
    found = re.search(r"[?&]region=([A-Za-z0-9-]{1,40})", uri)
    return found[1] if found else ""
