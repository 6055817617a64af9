"""Every address that can be read, generated from the router: each page and listing, with each filter."""

from __future__ import annotations

import re
from enum import Enum
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin
from urllib.parse import quote, urlencode

from pydantic import BaseModel

from gandy.web.access.gate import Access
from gandy.web.access.routes import GuardedRoute
from gandy.web.application import PAGES, routes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


#: What to ask for, by the name of the parameter: the most frequent first, the rarest last.
FILTERS: dict[str, Sequence[object]] = {
    "train": ("send_parcel", "nobody", "log_in"),
    "manifest": ("bulk-000002", "nobody", "nightly"),
    "group": ("default", "nobody", "etl"),
    "prefix": ("bulk-0", "zz"),
    "q": ("bulk-0", "zz"),
    "state": ("enabled", "disabled"),
    "before": (2, 900_000),
    "by": ("ada", "eve"),
    "on": ("nightly", "2", "eve"),
    "within": (60, 86_400, 30 * 86_400),
    "after": ("zz-4", "bulk-07"),
    "limit": (500,),
    "since": (3_600, 86_400 * 30),
    "count": (200,),
    "error_has": ("unlucky", "nobody"),
    "input_has": ("2", "nobody"),
}
#: The same where a name means something else: a place in the order of instants.
OF_INSTANTS: Sequence[object] = ("2026-01-05T12:00:00+00:00,7", "2999-01-05T12:00:00+00:00,7")
#: A listing of jobs takes instants and periods, as the command line does.
OF_JOBS: dict[str, Sequence[object]] = {
    "since": ("720h", "1h"),
    "until": ("1s", "2026-01-05T12:00:00Z"),
}
#: What else an order of rows needs, so that an index serves it.
NEEDED: dict[object, dict[str, object]] = {
    "start_time": {"train": "send_parcel"},
    "scheduled_at": {"gate": "time", "status": "queued"},
    "resolved_at": {"status": "retried"},
}
PLACES: dict[str, Sequence[object]] = {
    "external_id": ("nightly", "bulk-000001", "bulk-000002"),
    "name": ("etl", "default"),
    "train": ("send_parcel",),
}
#: What the pages load, and is no page itself.
NO_PAGES = {"/charts/throughput"}


def addresses(**known: Sequence[object]) -> list[str]:
    """List them all; `known` names the ids that exist."""
    found = [
        address
        for route in routes()
        if isinstance(route, GuardedRoute) and route.access is Access.READS
        for place in _places(route.path, {**PLACES, **known})
        for address in _asked(place, _filters(route))
    ]
    return list(dict.fromkeys(found))


def page_addresses(**known: Sequence[object]) -> list[str]:
    """List every page, without filters, in the order of the routes."""
    return [
        address
        for router in PAGES
        for route in router.routes
        if isinstance(route, GuardedRoute) and route.methods == {"GET"} and route.path not in NO_PAGES
        for address in _places(route.path, {**PLACES, **known})
    ]


def _places(path: str, samples: Mapping[str, Sequence[object]]) -> Iterator[str]:
    """Fill the path; a parameter without a sample is a mistake of this module."""
    found = re.search(r"\{(\w+)(?::\w+)?\}", path)
    if found is None:
        yield path
        return
    for value in samples[found[1]]:
        yield from _places(path.replace(found[0], quote(str(value)), 1), samples)


def _asked(place: str, filters: Mapping[str, Sequence[object]]) -> Iterator[str]:
    """Ask for everything, for each value of each filter, and for the rarest values of each two at once."""
    yield place
    for name, values in filters.items():
        for value in values:
            yield f"{place}?{urlencode({name: value, **_needed(name, value)})}"
    for first, second in combinations(filters, 2):
        chosen = {first: filters[first][-1], second: filters[second][-1]}
        for name, value in [*chosen.items()]:
            chosen |= _needed(name, value)
        if chosen.get("sort", "id") != "id":
            chosen.pop("before", None)  # it has to be a row that is there
        yield f"{place}?{urlencode(chosen)}"


def _needed(name: str, value: object) -> dict[str, object]:
    return NEEDED.get(value, {}) if name == "sort" else {}


def _filters(route: GuardedRoute) -> dict[str, Sequence[object]]:
    found = dict(_parameters(route))
    if "input_has" in found:
        found |= OF_JOBS
    return {**found, "after": OF_INSTANTS} if route.path.endswith("/upcoming") else found


def _parameters(route: GuardedRoute) -> Iterator[tuple[str, Sequence[object]]]:
    for parameter in route.dependant.query_params:
        kind = parameter.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            for name, field in kind.model_fields.items():
                yield name, _values(name, field.annotation)
        else:
            yield parameter.alias, _values(parameter.alias, kind)


def _values(name: str, kind: Any) -> Sequence[object]:  # noqa: ANN401 an annotation may be anything
    """Give every value of a closed set, else the samples."""
    for each in (kind, *get_args(kind)):
        if get_origin(each) is Literal:
            return get_args(each)
        if isinstance(each, type) and issubclass(each, Enum):
            return [member.value for member in each]
        if each is bool:
            return ("true", "false")
    return OF_JOBS["until"] if name == "until" else FILTERS[name]
