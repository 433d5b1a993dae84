"""Classifies error texts of object stores, as pyarrow reports them: permanent refusals and transient failures. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from penstock.proto.value_classes import dataclass

_DENIED: Final = (
    r"AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|INVALID_SIGNATURE"
    r"|MISSING_AUTHENTICATION_TOKEN|INVALID_CLIENT_TOKEN_ID|UNRECOGNIZED_CLIENT|NOT_SIGNED_UP|OPT_IN_REQUIRED|REQUEST_TIME_TOO_SKEWED|REQUEST_EXPIRED)"
    r"|\bHTTP status (?:401|403)\b|\bExpiredToken\b"
    r"|Azure Error: \[\w*\] (?:401|403)\b"
    r"|\b(?:PERMISSION_DENIED|UNAUTHENTICATED)\b"  # of Google's client
    r"|org\.apache\.hadoop\.security\.AccessControlException"
)
_HEAD_400: Final = r"HTTP status 400\) during Head(?:Object|Bucket)"
"""A response without a body: a wrong region, or an expired session."""
_MOVED: Final = r"\bHTTP status 301\b|\bPermanentRedirect\b|\bAuthorizationHeaderMalformed\b"
_EXPECTED: Final = r"(?:expecting|located in) ['\"]([a-z0-9-]{2,40})['\"]"
_REGION_VARIABLES: Final = ("AWS_DEFAULT_REGION", "AWS_REGION")
"""In the order in which the AWS client reads them."""


@dataclass(frozen=True, slots=True)
class Denied:
    """The process has no permission; its permissions or credentials must change."""


@dataclass(frozen=True, slots=True)
class WrongRegion:
    """The bucket is in another region than the requested one."""

    region: str
    """The bucket's region; '' if the store does not report it."""


@dataclass(frozen=True, slots=True)
class UnexplainedRefusal:
    """The store refused with a response that has no body; another request may return the reason."""


def refusal_of(text: str) -> Denied | WrongRegion | UnexplainedRefusal | None:
    """The refusal that an error text describes; None for a failure that may be transient."""
    if re.search(_MOVED, text):
        region = re.search(_EXPECTED, text)
        return WrongRegion(region[1] if region else "")
    if re.search(_DENIED, text):
        return Denied()
    return UnexplainedRefusal() if re.search(_HEAD_400, text) else None


def requested_region(uri: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """(the region that requests go to, '' if none is configured; the environment variable that can set another)."""
    variable = next((name for name in _REGION_VARIABLES if environment.get(name)), _REGION_VARIABLES[-1])
    match = re.search(r"[?&]region=([A-Za-z0-9-]{1,40})", uri)
    return match[1] if match else environment.get(variable, ""), variable
