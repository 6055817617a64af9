"""The cookie of somebody who has logged in, signed and bounded in time."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from typing import Final

from gandy.web.access.tokens import Role

COOKIE: Final = "gandy_session"
KEPT_SECONDS: Final = 12 * 60 * 60
LONGEST_NAME: Final = 80


@dataclass(frozen=True, slots=True)
class Session:
    """Who has logged in; `text` is the whole cookie, which the token of its forms is made from."""

    role: Role
    name: str
    text: str


class Sessions:
    """Issues sessions and reads them again."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def issue(self, role: Role, name: str) -> Session:
        """Make a session; a random part makes each one its own."""
        content = {
            "role": role,
            "name": name[:LONGEST_NAME],
            "until": int(time.time()) + KEPT_SECONDS,
            "salt": secrets.token_hex(8),
        }
        body = base64.urlsafe_b64encode(json.dumps(content).encode()).decode()
        return Session(role, name[:LONGEST_NAME], f"{body}.{self._sign(body)}")

    def read(self, text: str | None) -> Session | None:
        """Give the session of a cookie that is ours and not past its time."""
        body, _, signature = (text or "").partition(".")
        if not body or not hmac.compare_digest(signature.encode(), self._sign(body).encode()):
            return None
        try:
            content = json.loads(base64.urlsafe_b64decode(body))
        except (ValueError, binascii.Error):
            return None
        if content["until"] <= time.time():
            return None
        return Session(Role(content["role"]), content["name"], text or "")

    def form_token(self, session: Session) -> str:
        """Make what every form of this session carries."""
        return self._sign(f"form {session.text}")

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
