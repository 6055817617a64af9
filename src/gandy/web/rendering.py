"""Rendering of pages: the menu, the template filters, the cookies, and versioned asset links."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, assert_never

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, RedirectResponse

from gandy.desk.choosing.names import sentence_of
from gandy.desk.schedules import OVERRIDABLE
from gandy.model.run import ADMINISTRATIVE_TRAINS
from gandy.settings.bounds import NoTimeout, Timeout, as_span
from gandy.web.access.keys import SESSION_FOR, cookie_of
from gandy.web.dependencies import path_of
from gandy.web.measures.sparklines import duration_line, growth_line, run_bars

if TYPE_CHECKING:
    from fastapi import Request
    from starlette.responses import Response

    from gandy.desk.growth import TableGrowth
    from gandy.desk.manifests import ManifestDetail
    from gandy.model.options import Option
    from gandy.web.access.gate import Visitor
    from gandy.web.access.keys import WebSession


class MenuEntry(NamedTuple):
    """One entry of the menu; its shortcut is g followed by the key."""

    path: str
    name: str
    key: str


MENU: Final = (
    MenuEntry("/", "Home", "h"),
    MenuEntry("/manifests", "Manifests", "m"),
    MenuEntry("/groups", "Groups", "g"),
    MenuEntry("/runs", "Runs", "r"),
    MenuEntry("/queue", "Queue", "q"),
    MenuEntry("/dead-letters", "Dead letters", "d"),
    MenuEntry("/upcoming", "Upcoming", "n"),
    MenuEntry("/workers", "Workers", "w"),
    MenuEntry("/trains", "Trains", "t"),
    MenuEntry("/stats", "Statistics", "s"),
    MenuEntry("/tables", "Tables", "b"),
    MenuEntry("/audit", "Audit", "a"),
)


_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_TEN_SECONDS: Final = timedelta(seconds=10)
_SECOND: Final = timedelta(seconds=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
NOTHING: Final = "\u2013"  # an en dash
_NOTHING_MARKED: Final = Markup('<span class="none">\u2013</span>')
_KILO: Final = 1024
_SPANS: Final = frozenset(option.field for option in OVERRIDABLE if option.form.editor == "span")


def span(value: Timeout | float | None) -> str:
    """Format a duration in its two largest units."""
    if value is None:
        return NOTHING
    if isinstance(value, NoTimeout):
        return str(value.value)
    length = value if isinstance(value, timedelta) else as_span(value)
    if length < timedelta(0):
        return f"-{span(-length)}"
    if length < _SECOND:
        return (
            f"{length / _MILLISECOND:.0f} ms" if length >= _MILLISECOND else f"{length / _MILLISECOND:.2f} ms"
        )
    if length < _TEN_SECONDS:
        return f"{length / _SECOND:.1f} s"
    return _in_two_units(length)


def _in_two_units(length: timedelta) -> str:
    units = (("d", _DAY), ("h", _HOUR), ("min", _MINUTE), ("s", _SECOND))
    first = next(index for index, (_, unit) in enumerate(units) if length >= unit)
    said = []
    for name, unit in units[first : first + 2]:
        count, length = divmod(length, unit)
        if count:
            said.append(f"{count} {name}")
    return " ".join(said)


_FORMS: Final = {  # of an instant: how the server writes it; the page's script writes the same in its zone
    "full": "%Y-%m-%d %H:%M:%S",
    "minute": "%Y-%m-%d %H:%M",
    "sentence": "%Y-%m-%d %H:%M:%S",
    "clock": "%H:%M:%S",
    "hour": "%H:%M",
    "day": "%d %b",
}
#: An instant in a sentence of the desk.
_TOLD: Final = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d)(:\d\d)?Z(?!\w)")


def instant(value: datetime | None, form: str = "full") -> Markup:
    """Format an instant in UTC; the page's script writes it in the zone of the page, and adds its age."""
    if value is None:
        return _NOTHING_MARKED
    at = value.astimezone(UTC)
    exact = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    kind = Markup("") if form == "full" else Markup(' data-form="{}"').format(form)
    said = f"{at:{_FORMS['clock']}}.{at.microsecond // 1000:03}" if form == "log" else f"{at:{_FORMS[form]}}"
    return Markup('<time datetime="{}" title="{}"{}>{}</time>').format(exact, exact, kind, said)


def told(text: str | None) -> Markup:
    """Format a sentence of the desk: its instants, which are in UTC, as those of the page."""
    escaped = str(escape(text or ""))
    return Markup(_TOLD.sub(_told, escaped))  # noqa: S704 the sentence is escaped


def _told(found: re.Match[str]) -> str:
    try:
        at = datetime.fromisoformat(f"{found[1]}{found[2] or ''}+00:00")
    except ValueError:  # it only looks like one
        return found[0]
    return str(instant(at, "sentence" if found[2] else "minute"))


def pretty(value: object) -> str:
    """Format JSON on several lines."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value)


def size(value: float | None) -> str:
    """Format a number of bytes."""
    if value is None:
        return NOTHING
    if value < 0:
        return f"-{size(-value)}"
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < _KILO:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= _KILO
    return f"{amount:.1f} TiB"


def number(value: float | None) -> str:
    """Format a number with thousands separators."""
    if value is None:
        return NOTHING
    return (
        f"{value:,.0f}".replace(",", "\u202f")
        if value == int(value)
        else f"{value:,.1f}".replace(",", "\u202f")
    )


def share(value: float | None) -> str:
    """Format a part of a whole in percent."""
    return NOTHING if value is None else f"{value:.1%}" if 0 < value < 1 else f"{value:.0%}"


def words(value: object) -> str:
    """Format an identifier as words."""
    return str(value).replace("_", " ")


def state(value: object) -> Markup:
    """Format a state as a badge; the text alone identifies it, not the colour."""
    text = str(value)
    return Markup('<span class="state state-{}">{}</span>').format(text.replace("_", "-"), words(text))


def shown(value: object) -> Markup:
    """Format a value of any type."""
    match value:
        case None | "":
            return _NOTHING_MARKED
        case bool():
            return Markup("yes") if value else Markup("no")
        case datetime():
            return instant(value)
        case timedelta() | NoTimeout():
            return escape(span(value))
        case Mapping() | list() | tuple():
            return Markup("<code>{}</code>").format(json.dumps(value, default=_plain, ensure_ascii=False))
        case _:
            return escape(str(value))


def set_over(overrides: Mapping[str, object]) -> list[tuple[str, object]]:
    """Return overrides with readable names, and durations converted from seconds."""
    return [
        (
            words(name),
            as_span(value) if name in _SPANS and isinstance(value, int | float) else value,
        )
        for name, value in overrides.items()
    ]


def option_value(manifest: ManifestDetail, option: Option) -> str:
    """Format the effective value of an option."""
    value = getattr(manifest, option.keyword if hasattr(manifest, option.keyword) else option.field)
    match option.form.editor:
        case "span":
            return "none" if value == timedelta(0) else span(value)
        case "switch":
            return "yes" if value else "no"
        case "choice":
            return words(value)
        case "json":
            return json.dumps(value) if value else NOTHING
        case "text" | "number":
            return NOTHING if value is None else str(value)
        case _:
            assert_never(option.form.editor)


def option_values(manifest: ManifestDetail) -> list[tuple[str, str]]:
    """Return the labels and effective values of all options."""
    return [(option.label, option_value(manifest, option)) for option in OVERRIDABLE]


def _growth_line(growth: TableGrowth) -> Markup:
    return growth_line(growth.samples, number if growth.bytes is None else size)


FILTERS: Final[Mapping[str, Callable[..., object]]] = {
    "span": span,
    "option_value": option_value,
    "option_values": option_values,
    "instant": instant,
    "told": told,
    "sentence_of": sentence_of,
    "pretty": pretty,
    "size": size,
    "number": number,
    "words": words,
    "state": state,
    "shown": shown,
    "set_over": set_over,
    "share": share,
    "run_bars": run_bars,
    "duration_line": lambda slots: duration_line(slots, span),
    "growth_line": _growth_line,
}


Context: TypeAlias = "Mapping[str, Any]"

_NOTICE: Final = "gandy_notice"
_NOTICE_SECONDS: Final = 30


@cache
def _templates() -> Environment:
    """Compile each template once in a process, however many applications it has."""
    environment = Environment(
        loader=PackageLoader("gandy.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(menu=MENU, own_trains=ADMINISTRATIVE_TRAINS)
    environment.filters.update(FILTERS)
    return environment


class Rendering:
    """Renders templates as pages."""

    def __init__(self, app_name: str) -> None:
        self._app_name = app_name

    def page(
        self, request: Request, template: str, context: Context, *, status: int = HTTPStatus.OK
    ) -> Response:
        """Return a page, or only its live part for an htmx request."""
        visitor: Visitor | None = getattr(request.state, "visitor", None)
        session = None if visitor is None else visitor.session
        found = _templates().get_template(template)
        text = found.render(
            **context,
            app_name=self._app_name,
            request=request,
            visitor=visitor,
            may_change=visitor is not None and visitor.may_change,
            has_login=session is not None,
            form_token="" if session is None else session.form_token,
            is_part="hx-request" in request.headers,
            path=path_of(request),
            link=lambda path: self.link(request, path),
            asset=lambda name: self.link(request, f"/static/{name}?v={_version(name)}"),
            notice=_notice(request),
        )
        response = HTMLResponse(text, status_code=status, headers={"Vary": "HX-Request, Cookie"})
        if _NOTICE in request.cookies and "hx-request" not in request.headers:
            response.delete_cookie(_NOTICE, path=_root(request))
        return response

    def done(self, request: Request, path: str, said: str, *, is_error: bool = False) -> Response:
        """Redirect to a page and show a notice there."""
        response = RedirectResponse(self.link(request, path), HTTPStatus.SEE_OTHER)
        text = base64.urlsafe_b64encode(json.dumps([said[:1000], is_error]).encode()).decode()
        response.set_cookie(
            _NOTICE,
            text,
            max_age=_NOTICE_SECONDS,
            path=_root(request),
            httponly=True,
            samesite="lax",
            secure=_is_secure(request),
        )
        return response

    def set_session(self, request: Request, response: Response, session: WebSession) -> None:
        """Set the cookie of a session."""
        response.set_cookie(
            cookie_of(request),
            session.text,
            max_age=int(SESSION_FOR.total_seconds()),
            path=_root(request),
            httponly=True,
            samesite="lax",
            secure=_is_secure(request),
        )

    def end_session(self, request: Request, response: Response) -> None:
        """Delete the cookie of a session."""
        response.delete_cookie(cookie_of(request), path=_root(request), httponly=True, samesite="lax")

    @staticmethod
    def link(request: Request, path: str) -> str:
        """Return the URL of a page, including the mount point."""
        root: str = request.scope.get("root_path", "")
        return f"{root}{path}"


def _root(request: Request) -> str:
    return f"{request.scope.get('root_path', '')}/"


def _is_secure(request: Request) -> bool:
    """Whether the client used TLS, to this process or to a proxy before it."""
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"


def _notice(request: Request) -> tuple[str, bool] | None:
    text = request.cookies.get(_NOTICE)
    if text is None or "hx-request" in request.headers:
        return None
    try:
        said, is_error = json.loads(base64.urlsafe_b64decode(text))
    except ValueError:
        return None
    return str(said), bool(is_error)


@cache
def _version(name: str) -> str:
    """Return a digest of a file, so that its URL changes with its content."""
    content = files("gandy.web").joinpath("static", *name.split("/")).read_bytes()
    return hashlib.sha256(content).hexdigest()[:12]
