"""What a visitor can show: nothing, rubbish, what is old, what belongs to others, and what is right."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.web.access.calling import Caller
    from tests.web.access.judge import Allowed

OLD: Final = "the-token-of-last-year"


@dataclass(frozen=True, slots=True)
class Credential:
    """One thing to show, and whose it is by right."""

    name: str
    headers: Mapping[str, str] = field(default_factory=dict)
    allowed: Allowed = "stranger"


@dataclass(frozen=True, slots=True)
class Known:
    """All that a holder of the read-only token knows who may read every table, the keys' own too."""

    token: str
    rows: list[dict[str, Any]]


def bearer(text: str) -> dict[str, str]:
    """Write the header of a token."""
    return {"Authorization": f"Bearer {text}"}


def cookie(text: str) -> dict[str, str]:
    """Write the header of a session."""
    return {"Cookie": f"gandy_session={text}"}


def strangers(tokens: Mapping[str, Allowed]) -> Iterator[Credential]:
    """Make what opens nothing, whatever is configured."""
    yield Credential("none")
    for text in ("", "   ", "\t", "wrong-token-entirely", OLD, "none"):
        yield Credential(f"Bearer {text!r}", bearer(text))
    yield Credential("Bearer alone", {"Authorization": "Bearer"})
    yield Credential("empty authorization", {"Authorization": ""})
    for text in ("", "a.b", "x" * 16 + "." + "y" * 32):
        yield Credential(f"cookie {text!r}", cookie(text))
    yield Credential("digest of nothing", bearer(hashlib.sha256(b"").hexdigest()))
    for token in list(tokens)[:1]:
        yield from _bent(token)


def _bent(token: str) -> Iterator[Credential]:
    """Make what is nearly a right token, or a right one in a wrong place."""
    digest = hashlib.sha256(token.encode()).hexdigest()
    for text in (token[:-1], f"{token}x", token.swapcase(), digest, f" {token}", f"{token} "):
        yield Credential(f"Bearer {text!r}", bearer(text))
    yield Credential(f"basic {token}", {"Authorization": f"Basic {_encoded(f'gandy:{token}')}"})
    yield Credential(f"cookie {token}", cookie(token))


def forgeries(known: Known) -> Iterator[Credential]:
    """Make every cookie that the holder of the read-only token can put together for an operator."""
    own = hashlib.sha256(known.token.encode()).digest()
    for name, key in (("own digest", own), ("no digest", b"")):
        yield Credential(f"first form, {name}", cookie(_first_form(key)))
        for number, row in enumerate(known.rows):
            yield Credential(f"row {number}, {name}", cookie(_second_form("session", row, key)))
    for number, row in enumerate(known.rows):
        yield Credential(f"row {number}, its secret", cookie(f"{row['id']}.{row['secret'][:32]}"))


async def swapped(call: Caller, token: str, known: Known) -> list[Credential]:
    """Log in with the read-only token and put other rows' ids before its signature."""
    _, _, signature = (await call.log_in(token)).cookie.partition(".")
    return [
        Credential(f"row {number} with another's signature", cookie(f"{row['id']}.{signature}"))
        for number, row in enumerate(known.rows)
    ]


async def holders(call: Caller, tokens: Mapping[str, Allowed]) -> list[Credential]:
    """Show each right token, and log in with each; one more logs in and out again."""
    found = []
    for token, allowed in tokens.items():
        found.append(Credential(f"{allowed}'s token", bearer(token), allowed))
        found.append(
            Credential(f"{allowed}'s token, lower case", {"authorization": f"bearer {token}"}, allowed)
        )
        found.append(
            Credential(
                f"{allowed}'s session",
                await with_form_token(call, (await call.log_in(token)).cookie),
                allowed,
            )
        )
        gone = (await call.log_in(token)).cookie
        await call("POST", "/logout", cookie(gone))
        found.append(Credential(f"{allowed}'s session after logout", cookie(gone)))
    return found


async def with_form_token(call: Caller, text: str) -> dict[str, str]:
    """Give a session, and the form token that its pages show."""
    page = (await call("GET", "/manifests/nightly", cookie(text))).text
    shown = re.search(r'name="form_token" value="([\w-]+)"', page)
    return {**cookie(text), "X-Form-Token": shown[1] if shown else "none"}


def _first_form(key: bytes) -> str:
    """Sign as sessions were signed that had no random part."""
    signing = hashlib.sha256(b"gandy session" + key).digest()
    content = {"role": "operator", "name": "eve", "until": int(time.time()) + 9_999, "salt": "00"}
    body = base64.urlsafe_b64encode(json.dumps(content).encode()).decode()
    return f"{body}.{hmac.new(signing, body.encode(), hashlib.sha256).hexdigest()}"


def _second_form(kind: str, row: Mapping[str, Any], digest: bytes) -> str:
    """Sign as sessions are signed, with a digest that is not the operator's."""
    made = hmac.new(bytes.fromhex(row["secret"]), digest, hashlib.sha256).digest()
    signed = f"{kind}\0{row['id']}\0{row['token']}\0{row['name']}"
    signature = hmac.new(made, signed.encode(), hashlib.sha256).digest()
    return f"{row['id']}.{base64.urlsafe_b64encode(signature[:24]).decode()}"


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
