"""Every page and every action, in a real browser on a live application."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.web.browser import chromium, living_shop, sign_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests here."""
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser, migrated_url: str) -> Iterator[Page]:
    """A page of a living application; what the browser complains about fails the test."""
    with living_shop(migrated_url) as address:
        context = browser.new_context(base_url=address, viewport={"width": 1360, "height": 900})
        found = context.new_page()
        complaints: list[str] = []
        found.on("pageerror", lambda error: complaints.append(str(error)))
        found.on(
            "console",
            lambda message: complaints.append(message.text) if message.type == "error" else None,
        )
        sign_in(found)
        yield found
        context.close()
        assert [said for said in complaints if "422" not in said] == []


def test_an_operator_walks_through_every_page_and_acts(page: Page) -> None:
    _look_at_home(page)
    _look_at_a_run_and_run_it_again(page)
    _pause_and_trigger_a_manifest(page)
    _switch_a_group_off_and_on(page)
    _cancel_what_waits(page)
    _deal_with_dead_letters(page)
    _look_at_workers_trains_and_tables(page)
    _find_it_all_in_the_trail(page)


def _look_at_home(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()
    expect(page.get_by_text("dead letters wait for a decision")).to_be_visible()
    expect(page.locator("table").get_by_text("wait_for_ever").first).to_be_visible()
    expect(page.locator("[data-chart] canvas")).to_be_visible()
    page.get_by_role("button", name="Light or dark").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    expect(page.locator("[data-chart] canvas")).to_be_visible()
    page.get_by_role("button", name="Light or dark").click()


def _look_at_a_run_and_run_it_again(page: Page) -> None:
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url("**/runs")
    page.get_by_label("State").select_option("failed")
    page.wait_for_url("**/runs?state=failed*")
    page.locator("tbody a.mono").first.click()
    expect(page.get_by_role("heading", name="Failure")).to_be_visible()
    expect(page.locator(".failure")).to_contain_text("<script>alert('evil')</script>")
    page.goto("/runs?train=send_parcel")
    page.locator("tbody a.mono").last.click()
    expect(page.get_by_role("heading", name="Junctions")).to_be_visible()
    page.locator("input[name='field:address']").fill("Bergen")
    page.get_by_role("button", name="Run again", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("is queued again as")
    page.goto("/runs?state=in_progress&train=wait_for_ever")
    page.locator("tbody a.mono").first.click()
    page.get_by_role("button", name="Cancel").click()
    _confirm(page, "Cancel run")
    expect(page.get_by_role("status")).to_contain_text("is asked to stop")
    expect(page.locator(".state-cancelled").first).to_be_visible(timeout=30_000)


def _pause_and_trigger_a_manifest(page: Page) -> None:
    page.goto("/manifests")
    page.keyboard.press("/")
    page.keyboard.type("night")
    page.keyboard.press("Enter")
    page.wait_for_url("**/manifests?q=night*")
    page.get_by_role("link", name="nightly").click()
    page.get_by_role("button", name="Pause…").click()
    page.get_by_label("Reason").fill("the depot is closed")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("it is disabled: the depot is closed")).to_be_visible()
    expect(page.get_by_role("heading", name="Set by an operator")).to_be_visible()
    page.get_by_role("button", name="Clear overrides").click()
    expect(page.get_by_role("status")).to_contain_text("declared values again")
    page.get_by_role("link", name="Change…").click()
    page.get_by_label("Timeout").fill("2h")
    page.get_by_label("Exclusions").fill('[{"days": ["sun"]}]')
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("is changed")
    expect(page.locator(".facts").first).to_contain_text("2 h")
    page.get_by_role("button", name="Clear overrides").click()
    expect(page.get_by_role("status")).to_contain_text("declared values again")
    page.get_by_role("button", name="Trigger now").click()
    expect(page.get_by_role("status")).to_contain_text("nightly")


def _switch_a_group_off_and_on(page: Page) -> None:
    page.goto("/groups")
    expect(page.locator(".graph .node")).to_have_count(4)
    page.get_by_role("link", name="etl", exact=True).click()
    page.get_by_role("button", name="Switch off…").click()
    page.get_by_label("Reason").fill("audit")
    page.get_by_role("button", name="Switch off", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("etl is off")
    page.get_by_role("button", name="Switch on").click()
    expect(page.get_by_role("status")).to_contain_text("etl is on")


def _cancel_what_waits(page: Page) -> None:
    page.goto("/queue")
    expect(page.locator("tbody tr").first).to_be_visible()
    waiting = page.locator("tbody tr").count()
    page.locator("tbody").get_by_role("button", name="Cancel").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Leave it").click()
    assert page.locator("tbody tr").count() == waiting
    page.locator("tbody").get_by_role("button", name="Cancel").first.click()
    _confirm(page, "Cancel entry")
    expect(page.get_by_role("status")).to_contain_text("is cancelled")


def _confirm(page: Page, question: str) -> None:
    """Answer the question that is asked before a change."""
    asked = page.get_by_role("dialog")
    expect(asked.get_by_role("heading")).to_contain_text(question)
    asked.get_by_role("button", name="Cancel").click()


def _deal_with_dead_letters(page: Page) -> None:
    page.goto("/dead-letters")
    page.locator("tbody a.mono").first.click()
    page.locator("input[name='field:line']").fill("mended")
    page.get_by_role("button", name="Requeue with this", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Requeued as")
    page.goto("/dead-letters")
    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Acknowledge selected…").click()
    expect(page.get_by_role("heading", name="Acknowledge")).to_be_visible()
    page.get_by_label("Note").fill("known, and not needed")
    page.locator("form.fields button.main").click()
    expect(page.get_by_role("status")).to_contain_text("acknowledged")


def _look_at_workers_trains_and_tables(page: Page) -> None:
    page.goto("/trains")
    page.get_by_role("row", name="send_parcel").get_by_role("link", name="Enqueue").click()
    page.locator("input[name='field:address']").fill("Rome")
    page.get_by_role("button", name="Enqueue").first.click()
    expect(page.get_by_role("status")).to_contain_text("send_parcel is queued as")
    page.goto("/tables")
    expect(page.get_by_role("heading", name="Gandy's own tables")).to_be_visible()
    page.goto("/workers")
    page.get_by_role("button", name="Drain").first.click()
    expect(page.get_by_role("status")).to_contain_text("claims no more")


def _find_it_all_in_the_trail(page: Page) -> None:
    page.goto("/audit")
    for deed in ("disable manifest", "set manifest", "reset manifest", "set group", "rerun", "drain worker"):
        expect(page.locator("tbody").get_by_text(deed).first).to_be_visible()


def test_a_page_is_live_without_reloading(page: Page) -> None:
    page.goto("/runs?state=cancelled")
    expect(page.get_by_text("No matches")).to_be_visible()
    other = page.context.new_page()
    other.goto("/runs?state=in_progress&train=wait_for_ever")
    other.locator("tbody a.mono").first.click()
    other.get_by_role("button", name="Cancel").click()
    _confirm(other, "Cancel run")

    expect(page.locator("tbody .state-cancelled")).to_be_visible(timeout=30_000)


def test_the_keyboard_alone_is_enough(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.wait_for_url("**/manifests")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/manifests/**")

    expect(page.get_by_role("button", name="Trigger now")).to_be_visible()
