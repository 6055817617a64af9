"""One zone for each page: named, remembered, and the same in tables, sentences, charts and forms."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from tests.web.browser import chromium, living_shop, sign_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("browser")]

ZONE = "America/St_Johns"
PAGES = (
    "/",
    "/manifests",
    "/manifests/nightly",
    "/groups/etl",
    "/runs",
    "/runs?state=failed",
    "/queue",
    "/dead-letters",
    "/upcoming",
    "/upcoming?within=604800",
    "/workers",
    "/stats",
    "/tables",
    "/audit",
)
#: What the server writes, by the form of an instant.
FORMS = {
    "full": "%Y-%m-%d %H:%M:%S",
    "sentence": "%Y-%m-%d %H:%M:%S",
    "minute": "%Y-%m-%d %H:%M",
    "clock": "%H:%M:%S",
    "hour": "%H:%M",
    "day": "%d %b",
}
#: Records what is drawn on a canvas: the labels of a chart are no elements.
RECORD_LABELS = """
window.drawn = [];
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
  window.drawn.push(text);
  return fillText.call(this, text, ...where);
};
"""
READ_TIMES = """
() => [...document.querySelectorAll('time[datetime]')].map((element) => [
  element.dateTime, element.dataset.form || 'full', element.firstChild.data, element.title,
])
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests here."""
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser, sqlite_url: str) -> Iterator[Page]:
    """A page of a living application, seen from another zone."""
    with living_shop(sqlite_url) as address:
        context = browser.new_context(base_url=address, timezone_id=ZONE)
        context.add_init_script(RECORD_LABELS)
        found = context.new_page()
        sign_in(found)
        yield found
        context.close()


def check_times(page: Page, zone: str) -> int:
    """Compare each instant of the page with what it has to be in a zone, and return their number."""
    found = page.evaluate(READ_TIMES)
    for exact, form, said, title in found:
        at = datetime.fromisoformat(exact).astimezone(ZoneInfo(zone))
        wanted = at.strftime(FORMS.get(form, "%H:%M:%S"))
        if form == "log":
            wanted += f".{at.microsecond // 1000:03}"
        assert said == wanted, (page.url, exact, form)
        assert title == f"{at:%Y-%m-%d %H:%M:%S} {zone}"
    text = page.locator("main").inner_text()
    assert not re.search(r"\d\d:\d\dZ\b", text), "no instant is written beside those of the page"
    return len(found)


def check_chart(page: Page, zone: str) -> None:
    """Compare the hours at the axis of the chart with now in a zone."""
    page.evaluate("() => { window.drawn = []; window.dispatchEvent(new Event('resize')); }")
    page.wait_for_function("() => window.drawn.some((text) => /^\\d\\d:\\d\\d$/.test(text))")
    labels = [text for text in page.evaluate("() => window.drawn") if re.fullmatch(r"\d\d:\d\d", text)]
    now = datetime.now(UTC).astimezone(ZoneInfo(zone))
    for label in labels:
        hour, minute = map(int, label.split(":"))
        behind = (now.hour * 60 + now.minute + 5 - hour * 60 - minute) % 1440
        assert behind <= 70, (label, now)
    expect(page.locator("[data-chart-note]")).to_contain_text(f"times in {zone}")


def test_all_instants_of_a_page_are_in_the_zone_that_it_names(page: Page) -> None:
    seen = 0
    for zone, places in (("UTC", PAGES), (ZONE, PAGES), ("UTC", PAGES[:3])):
        page.goto("/")
        switch = page.locator("[data-zone]")
        if switch.inner_text() != f"Times in {zone}":
            switch.click()
        expect(switch).to_have_text(f"Times in {zone}")
        check_chart(page, zone)
        for place in places:
            answer = page.goto(place)
            assert answer is not None
            assert answer.ok, place
            expect(page.locator("[data-zone]")).to_have_text(f"Times in {zone}")
            seen += check_times(page, zone)
    assert seen > 100


def test_a_switch_needs_no_reload_and_lasts(page: Page) -> None:
    page.goto("/runs")
    page.evaluate("() => { window.isTheSame = true; }")
    check_times(page, "UTC")

    page.locator("[data-zone]").click()

    check_times(page, ZONE)
    assert page.evaluate("() => window.isTheSame")
    page.goto("/dead-letters")
    assert check_times(page, ZONE) > 0


def test_what_is_refreshed_is_in_the_same_zone(page: Page) -> None:
    page.goto("/queue?status=dispatched")
    page.locator("[data-zone]").click()
    with page.expect_response(lambda answer: answer.request.headers.get("hx-request") == "true"):
        pass
    page.wait_for_function("() => !document.querySelector('.htmx-settling, .htmx-swapping, .htmx-request')")

    assert check_times(page, ZONE) > 0


def test_an_instant_that_is_typed_is_in_the_zone_of_the_page(page: Page) -> None:
    page.goto("/runs")
    page.locator("[data-zone]").click()
    page.get_by_label("Since").fill("2026-01-31 10:00")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**since=2026-01-31T13%3A30%3A00Z*")

    expect(page.get_by_label("Since")).to_have_value("2026-01-31 10:00:00")
    page.locator("[data-zone]").click()
    expect(page.get_by_label("Since")).to_have_value("2026-01-31 13:30:00")


def test_without_a_script_times_are_in_utc_and_the_page_says_so(browser: Browser, page: Page) -> None:
    cookies = page.context.cookies()
    context = browser.new_context(
        base_url=page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2],
        timezone_id=ZONE,
        java_script_enabled=False,
    )
    context.add_cookies([{"name": each["name"], "value": each["value"], "url": page.url} for each in cookies])
    plain = context.new_page()
    plain.goto("/runs")

    expect(plain.locator("[data-zone]")).to_have_text("Times in UTC")
    for element in plain.locator("time").all()[:5]:
        exact = element.get_attribute("datetime") or ""
        assert element.inner_text() == f"{datetime.fromisoformat(exact):%Y-%m-%d %H:%M:%S}"
    context.close()
