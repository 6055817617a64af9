"""Every page, found by its route, in a real browser: for everyone, on every screen, with hard content."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import httpx
import pytest

from gandy.store.drivers.opening import migrate
from tests.web.addresses import page_addresses
from tests.web.browser import chromium, sign_in
from tests.web.busy import LONG_GROUP, LONG_ID, busy_shop
from tests.web.conftest import OPERATOR, bearer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from playwright.sync_api import Browser, Page

    from tests.support.databases import SqliteHome

# One of the two databases is enough: what a browser is shown does not depend on it.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("browser")]

#: axe-core, as npm has it: https://github.com/dequelabs/axe-core
AXE: Final = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
LOOKS: Final = Path(__file__).with_name("looks.js")
HEIGHT: Final = 900
WIDTHS: Final = (1440, 1024, 390)
Scheme: TypeAlias = Literal["light", "dark"]
#: Contrast, by far the costliest rule, follows the colours alone: once for each is enough.
#: Of the other rules only that for links in a text looks at colours: it alone sees each screen in the others.
SCREENS: Final[Sequence[tuple[int, Scheme, str | None]]] = (
    (1440, "light", None),
    (1440, "dark", "link-in-text-block"),
    (390, "dark", None),
    (390, "light", "link-in-text-block"),
)


@dataclass(frozen=True)
class Shown:
    """A living application with every kind of content, and a browser in which an operator has logged in."""

    page: Page
    pages: Sequence[str]
    client: httpx.Client

    def first(self, listing: str) -> int:
        """Give the id of the first that is listed."""
        return _ids(self.client, listing)[0]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests here."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def shown(
    browser: Browser, sqlite_home: SqliteHome, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shown]:
    """One application for all tests here; they change nothing."""
    template = sqlite_home.template("migrated", lambda url: (migrate(url), None)[1])
    with sqlite_home.database(template) as url, busy_shop(url, tmp_path_factory.mktemp("busy")) as address:
        context = browser.new_context(base_url=address, viewport={"width": 1440, "height": HEIGHT})
        context.add_init_script(path=LOOKS)
        page = context.new_page()
        sign_in(page)
        with httpx.Client(base_url=f"{address}/api/v1", headers=bearer(OPERATOR)) as client:
            yield Shown(page, _every_page(client), client)
        context.close()


def _ids(client: httpx.Client, listing: str) -> list[int]:
    items: list[dict[str, Any]] = client.get(listing).raise_for_status().json()["items"]
    return [each["id"] for each in items]


def _every_page(client: httpx.Client) -> list[str]:
    """Give each page with content of each kind: what ran, runs, waits, is held and is parked."""
    entries = _ids(client, "/queue?status=undispatched")
    kinds = ("state=failed", "state=completed&train=DeliverParcel", "train=wait_for_ever")
    found = page_addresses(
        external_id=["nightly", LONG_ID, "bad/feed"],
        name=["etl", LONG_GROUP],
        train=["send_parcel", "log_in"],
        run_id=[_ids(client, f"/runs?{kind}")[0] for kind in kinds],
        entry_id=[entries[0], entries[-1]],
        letter_id=_ids(client, "/dead-letters")[:1],
    )
    return [path for path in found if not path.endswith("/set") or "nightly" in path]


def visit(page: Page, path: str, width: int = 1440) -> None:
    """Open a page on a screen of that width."""
    page.set_viewport_size({"width": width, "height": HEIGHT})
    page.goto(path)
    page.evaluate("looks.twoFrames()")


@dataclass(frozen=True)
class Looked:
    """What was seen on one page."""

    path: str
    findings: list[tuple[int, str, str]]
    dialogs: dict[str, list[str]]  #: what axe finds in each, by its title
    misplaced: list[tuple[int, str]]
    charts: list[str | None]
    cancellations: list[bool]


@pytest.fixture(scope="module")
def looked(shown: Shown) -> list[Looked]:
    """Look at every page once, for all tests that are about all pages."""
    return [_look(shown.page, path) for path in shown.pages]


def _look(page: Page, path: str) -> Looked:
    visit(page, path)
    page.evaluate(AXE)
    return Looked(
        path=path,
        dialogs=_open_dialogs(page, path),
        charts=page.evaluate("looks.chartNames()"),
        cancellations=page.evaluate("looks.cancellations()"),
        misplaced=_misplaced(page),
        findings=[each for screen in SCREENS for each in _findings(page, *screen)],
    )


def _open_dialogs(page: Page, path: str) -> dict[str, list[str]]:
    """Open each dialog, but the one that every page has only once."""
    found = {}
    for name in set(page.evaluate("looks.dialogs()")) - {"ask"} - ({"keys"} if path != "/" else set()):
        page.evaluate("name => document.getElementById(name).showModal()", name)
        title = page.get_by_role("dialog").get_by_role("heading").inner_text()
        found[title] = page.evaluate("place => looks.findings(place)", f"#{name}")
        page.evaluate("name => document.getElementById(name).close()", name)
    return found


def _misplaced(page: Page) -> list[tuple[int, str]]:
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.evaluate("looks.twoFrames()")
        found += [(width, each) for each in page.evaluate("[...looks.wider(), ...looks.overlapping()]")]
    return found


def _findings(page: Page, width: int, scheme: Scheme, only: str | None) -> list[tuple[int, str, str]]:
    page.set_viewport_size({"width": width, "height": HEIGHT})
    page.emulate_media(color_scheme=scheme)
    page.evaluate("looks.twoFrames()")
    found = page.evaluate("only => looks.findings(null, only)", only)
    return [(width, scheme, each) for each in found]


def test_axe_finds_nothing_serious_on_any_page_in_any_colours_on_any_screen(looked: list[Looked]) -> None:
    assert [(each.path, each.findings) for each in looked if each.findings] == []
    assert len(looked) > 25


def test_axe_finds_nothing_serious_in_any_dialog_and_each_has_a_title(looked: list[Looked]) -> None:
    found = {title: findings for each in looked for title, findings in each.dialogs.items()}

    assert {title: findings for title, findings in found.items() if findings} == {}
    assert {"Keyboard shortcuts", "Pause nightly", "Switch off etl", "Cancel all of etl"} <= set(found)
    assert any(title.startswith("Acknowledge letter") for title in found)
    assert any(title.startswith("Fail run") for title in found)


def test_no_page_is_wider_than_the_screen_and_no_log_line_lies_over_another(looked: list[Looked]) -> None:
    assert [(each.path, each.misplaced) for each in looked if each.misplaced] == []


@pytest.mark.parametrize(("width", "least"), [(1440, 6), (390, 2)])
def test_an_id_of_200_characters_leaves_other_columns_in_sight(shown: Shown, width: int, least: int) -> None:
    for path in (f"/manifests?q={LONG_ID[:9]}", f"/runs?manifest={LONG_ID}", "/upcoming"):
        visit(shown.page, path, width)

        assert shown.page.evaluate("looks.columnsInSight()") >= least, path
        assert LONG_ID in shown.page.locator("#live").inner_text(), path


def test_every_control_is_reached_by_the_tabulator_and_shows_it(shown: Shown) -> None:
    page = shown.page
    for path in ("/", "/manifests/nightly", "/groups/etl", "/dead-letters", "/queue", "/stats", "/audit"):
        visit(page, path, 1024)
        stops = _stops(page)

        assert [each["what"] for each in stops if not each["isShown"]] == [], path
        assert [each["what"] for each in stops if not each["isInSight"]] == [], path
        assert len(stops) >= page.evaluate("looks.operable()"), path


def _stops(page: Page) -> list[dict[str, Any]]:
    """Press the tabulator until it has gone round."""
    found: list[dict[str, Any]] = []
    for _ in range(400):
        page.keyboard.press("Tab")
        stop = page.evaluate("looks.focus()")
        if stop is None:
            return found
        found.append(stop)
    raise AssertionError(f"the focus never leaves {page.url}")


def test_a_table_that_is_cut_is_scrolled_by_keys(shown: Shown) -> None:
    visit(shown.page, "/audit", 390)
    table = shown.page.get_by_role("group", name="Audit")
    table.focus()
    shown.page.keyboard.press("ArrowRight")

    shown.page.wait_for_function("() => document.querySelector('.scroll').scrollLeft > 0")


@pytest.mark.parametrize("path", ["/runs", "/queue", "/dead-letters"])
def test_filters_are_folded_on_a_phone_until_one_is_set(shown: Shown, path: str) -> None:
    page, group = shown.page, shown.page.locator(".more input[name=group]")
    visit(page, path, 1440)
    assert group.is_visible()
    assert not page.get_by_text("More filters").is_visible()

    visit(page, path, 390)
    assert not group.is_visible()
    page.get_by_text("More filters").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "manifest"
    assert group.is_visible()

    visit(page, f"{path}?group=etl", 390)
    assert group.is_visible()


def test_every_chart_has_a_text(shown: Shown, looked: list[Looked]) -> None:
    visit(shown.page, "/")
    shown.page.wait_for_function("() => document.getElementById('ended-note').textContent.includes('runs')")
    visit(shown.page, "/groups/etl")
    shown.page.get_by_text("As text").click()

    assert "load runs after each success of extract" in shown.page.locator("details li").all_inner_texts()
    assert [(each.path, each.charts) for each in looked if not all(each.charts)] == []
    assert sum(len(each.charts) for each in looked) > 30


def test_every_cancellation_is_asked_for_first(looked: list[Looked]) -> None:
    assert [each.path for each in looked if not all(each.cancellations)] == []
    assert {each.path.split("/")[1] for each in looked if each.cancellations} == {
        "runs", "queue", "groups", "manifests",
    }  # fmt: skip


def test_a_failed_run_leads_to_its_other_attempts_and_its_letter(shown: Shown) -> None:
    letter = shown.first("/dead-letters?train=read_feed")
    run = shown.client.get(f"/dead-letters/{letter}").json()["run_id"]
    visit(shown.page, f"/runs/{run}")
    card = shown.page.locator("section", has=shown.page.get_by_role("heading", name="All attempts"))

    assert card.get_by_role("link", name=str(run), exact=True).is_visible()
    card.get_by_role("link", name=f"dead letter {letter}").click()
    shown.page.wait_for_url(f"**/dead-letters/{letter}")


def test_a_parked_manifest_is_listed_as_parked_with_its_letter(shown: Shown) -> None:
    (listed,) = shown.client.get("/manifests?prefix=bad").json()["items"]
    visit(shown.page, "/manifests?q=bad")
    row = shown.page.get_by_role("row", name="bad/feed")

    assert " in " not in row.inner_text(), "a next instant"
    assert listed["state"] == "parked"
    assert row.locator(".state").inner_text() == "parked"
    row.get_by_role("link", name=f"dead letter {listed['dead_letter_id']}").click()
    shown.page.wait_for_url(f"**/dead-letters/{listed['dead_letter_id']}")


def test_axe_is_the_release_that_npm_has(shown: Shown) -> None:
    visit(shown.page, "/")
    shown.page.evaluate(AXE)

    assert AXE.startswith("/*! axe v")
    assert json.loads(shown.page.evaluate("JSON.stringify(axe.version)")) in AXE[:30]
