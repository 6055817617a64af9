"""Where a request comes from: this machine or another, a page of ours or another site's."""

from __future__ import annotations

import hmac
import ipaddress
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from gandy.errors import ForeignOriginError

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

#: Headers that proxies and content networks add: the address, host or scheme that they were asked by.
_OF_PROXIES: Final = re.compile(
    r"via|(x-)?forwarded|x-forwarded-.+|x-original-.+|x-envoy-.+|cf-.+|cdn-loop"
    r"|(.+-)?(client|real|connecting|user|remote|source)-?(ip|addr|address)(v6)?"
)
_OWN_SITE: Final = frozenset({"same-origin", "none"})
FORM_FIELD: Final = "form_token"
FORM_HEADER: Final = "x-form-token"


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only mean this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_from_this_machine(request: HTTPConnection) -> bool:
    """Whether nobody else can have asked: no proxy between, and no foreign name that leads here."""
    if request.client is None or not is_loopback(request.client.host):
        return False
    if any(_OF_PROXIES.fullmatch(name.lower()) for name in request.headers):
        return False
    return is_loopback(urlsplit(f"//{request.headers.get('host', '')}").hostname or "")


def refuse_foreign(request: HTTPConnection) -> None:
    """Refuse what another site makes a browser send."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in _OWN_SITE:
        raise ForeignOriginError(request.headers.get("origin", site))
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise ForeignOriginError(origin)


def is_same_token(shown: object, expected: str) -> bool:
    """Compare a form's token in constant time."""
    return isinstance(shown, str) and hmac.compare_digest(shown.encode(), expected.encode())
