"""What an object store's refusals mean, in the words that pyarrow passes on. Pure.

Belongs here: telling a refusal that asking again cannot mend from a failure that may pass. Not here: when it is asked
(`storage`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
_EXPECTED: Final = re.compile(r"(?:expecting|located in) ['\"]([a-z0-9-]{2,40})['\"]")
_REGION_VARIABLES: Final = ("AWS_DEFAULT_REGION", "AWS_REGION")
"""In the order in which Amazon's client asks for them."""


@dataclass(frozen=True, slots=True)
class Denied:
    """This process may not; its rights or credentials must change."""


@dataclass(frozen=True, slots=True)
class WrongRegion:
    """The bucket is in another region than was asked; `region`: which, '' if the store does not say."""

    region: str


@dataclass(frozen=True, slots=True)
class UnexplainedRefusal:
    """Refused by an answer that has no body: another request may be told why."""


def refusal_of(text: str) -> Denied | WrongRegion | UnexplainedRefusal | None:
    """What an error's text says; None for a failure that may pass."""
    if _MOVED.search(text):
        found = _EXPECTED.search(text)
        return WrongRegion(found[1] if found else "")
    if _DENIED.search(text):
        return Denied()
    return UnexplainedRefusal() if _HEAD_400.search(text) else None


def region_asked(uri: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """(the region that is asked, '' if none was given; the variable that may name another)."""
    variable = next((name for name in _REGION_VARIABLES if environment.get(name)), _REGION_VARIABLES[-1])
    found = re.search(r"[?&]region=([A-Za-z0-9-]{1,40})", uri)
    return found[1] if found else environment.get(variable, ""), variable
