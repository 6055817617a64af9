"""An application whose runs activate dormant dependents, each in another kind of junction."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gandy import Gandy, Run

if TYPE_CHECKING:
    from gandy.app.keywords import Scheduled

DOORS = ("async", "thread", "process")


@dataclass
class Table:
    """What a dependent works on."""

    name: str
    rows: int = 0


@dataclass
class Plan:
    """Which dependents a run activates, and with what.

    A dict stands for a Table, "declared" for no input, "late" for what the next run does for this one.
    """

    activate: list[tuple[str, Any]] = field(default_factory=list)


app = Gandy("sleepers", database="sqlite:///never-opened.db", worker={"slots": 4})
ran: list[str] = []
late: list[tuple[Run, str]] = []


def _activate(plan: Plan, run: Run) -> None:
    while late:
        ended, external_id = late.pop()
        ended.activate(external_id)
    for external_id, given in plan.activate:
        if given == "late":
            late.append((run, external_id))
        elif given == "declared":
            run.activate(external_id)
        else:
            run.activate(external_id, Table(**given) if isinstance(given, dict) else given)


@app.train(name="extract-async")
async def extract(plan: Plan, run: Run) -> None:
    _activate(plan, run)


@app.train(name="extract-thread")
def extract_in_thread(plan: Plan, run: Run) -> None:
    _activate(plan, run)


@app.train(name="extract-process", process=True)
def extract_in_process(plan: Plan, run: Run) -> None:
    _activate(plan, run)


@app.train
async def load(table: Table, run: Run) -> None:
    """Bad tables always fail, flaky ones once; a busy one has its parent activate it once more meanwhile."""
    if table.name != "awake":
        ran.append(table.name)
    if table.name == "bad" or (table.name == "flaky" and run.attempt == 1):
        raise ValueError(table.name)
    if table.name.startswith("busy"):
        names = table.name.split("-")[1:]
        plan = Plan([(str(run.manifest), {"name": name}) for name in names])
        await (await app.trigger("parent-async", input=plan)).result(timeout=20)
    if table.name == "trigger-itself" and run.attempt == 1:
        await app.trigger(str(run.manifest), input=Table("other"))
        raise ValueError("it fails after another input was queued")


def _parent(door: str) -> Scheduled:
    return app.schedule(
        f"parent-{door}",
        {"async": extract, "thread": extract_in_thread}.get(door, extract_in_process),
        Plan(),
        max_retries=1,
    )


app.group("quiet")
for _door in DOORS:
    _scheduled = _parent(_door)
    _scheduled.then(f"child-{_door}", load, Table("declared"), dormant=True, max_retries=1)
_first = app.schedule("parent", extract, Plan(), max_retries=1)
_first.then("child", load, Table("declared"), dormant=True, max_retries=1)
_first.then("grouped", load, Table("declared"), dormant=True, group="quiet")
_first.then("patient", load, Table("declared"), dormant=True, retry_delay=timedelta(minutes=1))
_first.then("loose", load, Table("declared"), dormant=True, retry=False)
_first.then("awake", load, Table("awake"))
app.schedule("stranger", extract, Plan()).then("strangers-child", load, Table("x"), dormant=True)
app.schedule("manual", load, Table("trigger-itself"), retry_delay=timedelta(minutes=1))
