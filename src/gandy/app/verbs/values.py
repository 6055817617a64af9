"""What the verbs take, as the desk takes it: trains by name or as themselves, inputs as values or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gandy.app.keywords import FilterKeywords
from gandy.desk.cancelling import CancelDesk
from gandy.desk.declarations import NOT_GIVEN, NotGiven
from gandy.errors import DeclarationError
from gandy.model.schedule import Cron, Interval
from gandy.rules.schedules import checked
from gandy.settings.bounds import check
from gandy.settings.values import shortened, written
from gandy.train.codec import encode_any

if TYPE_CHECKING:
    from gandy.app.keywords import AnyTrain
    from gandy.context import Context
    from gandy.model.owners import Operator
    from gandy.train.registry import AnyTrain as Definition

__all__ = [
    "NOT_GIVEN",
    "cancel_desk",
    "chosen",
    "input_json",
    "known_train",
    "recurring",
    "train_name",
]


def train_name(context: Context, train: AnyTrain | str | None) -> str | None:
    """Return the name of a train in a filter; None does not filter, and a name need not be known."""
    if train is None:
        return None
    if isinstance(train, str) or not callable(train):
        check("name", train, called="train")
        return train
    return context.registry.resolve(train).name


def known_train(context: Context, train: AnyTrain | str) -> Definition:
    """Return a train of the application; raise if it is unknown."""
    return context.registry.get(train_name(context, train) or "")


def input_json(value: object, *, of: str) -> str | None:
    """Return a given input as JSON text, which the desk checks by the train's type; None if none is given.

    The value may be of the train's type, or JSON as `show` returns it; a mask in it keeps the stored secret.
    """
    return None if isinstance(value, NotGiven) else encode_any(value, train=of)


def recurring(schedule: Cron | Interval | None) -> Cron | Interval | None:
    """Check a schedule that replaces the declared one; None leaves it unchanged."""
    if schedule is None:
        return None
    if not isinstance(schedule, Cron | Interval):
        problem = f"is a {type(schedule).__name__}; use every(...) or cron(...)"
        raise DeclarationError(shortened(written(schedule)), problem, what="schedule")
    checked(schedule)
    return schedule


_BOUND_OF: Final = {"manifest": "external_id", "since": "moment", "until": "moment"}


def chosen(context: Context, filters: FilterKeywords) -> dict[str, Any]:
    """Check the filters, and return them for the desk."""
    given: dict[str, Any] = {**filters, "train": train_name(context, filters.get("train"))}
    if unknown := [name for name in given if name not in FilterKeywords.__annotations__]:
        raise TypeError(
            f"there is no filter {unknown[0]!r}; there are {', '.join(FilterKeywords.__annotations__)}"
        )
    for name, value in given.items():
        if value is not None and name != "train":
            check(_BOUND_OF.get(name, name), value, called=name)
    return given


def cancel_desk(context: Context, operator: Operator) -> CancelDesk:
    """Return the desk that cancels."""
    return CancelDesk(
        context.database, operator, context.settings, owners=context.owners, registry=context.registry
    )
