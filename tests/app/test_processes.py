from __future__ import annotations

import os

from gandy import Gandy
from gandy.app.opening import find_place
from gandy.desk.runs import RunInsights
from gandy.model.owners import ALL_OWNERS
from gandy.store.reading.listings import RunFilter
from tests.app.press import app as press
from tests.app.press import print_pages


async def test_a_function_with_a_process_of_its_own_is_found_by_the_place_of_its_application(
    migrated_url: str,
) -> None:
    press.configure({"database": {"url": migrated_url}})
    async with press:
        pid, pages = await press.run(print_pages, 12)

        insights = RunInsights(press.database, ALL_OWNERS)
        (run,) = await insights.list(RunFilter())
        lines = await insights.logs(run.id)
        detail = await insights.show(run.id)

    assert pid != os.getpid()
    assert pages == 12
    assert [line.message for line in lines] == ["printing 12 pages"]
    assert (detail.state, detail.progress_done) == ("completed", 12)


def test_an_application_is_found_where_its_trains_are() -> None:
    local = Gandy("local")
    local.train(name="print_pages_here")(print_pages)

    assert find_place(press) == "tests.app.press:app"
    assert find_place(local) is None
