from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from gandy import Days, Gandy, Run, Train, cron, every
from gandy.errors import (
    CronExpressionError,
    DeclarationError,
    DuplicateDeclarationError,
    DuplicateTrainError,
    EnqueueError,
    IntervalError,
    MissingInputError,
    OnceError,
    PayloadError,
    TrainDefinitionError,
    UnknownHookError,
    UnknownTrainError,
)
from gandy.model.manifest import GroupDeclaration, ManifestDeclaration
from gandy.model.schedule import Cron, Dependent, DormantDependent, Interval, Manual, MisfirePolicy, Once


@dataclass(frozen=True)
class Order:
    number: int


def price(order: Order) -> int:
    return order.number * 10


class PriceOrder(Train[Order, int]):
    route = (price,)
    group = "prices"
    priority = 7
    max_retries = 5
    timeout = timedelta(minutes=2)


def tidy() -> None:
    return None


def tidy_some(limit: int = 10) -> int:
    return limit


@pytest.fixture
def app() -> Gandy:
    app = Gandy("shop", database="sqlite:///never-opened.db")
    app.register(PriceOrder)
    app.train(tidy)
    app.train(tidy_some)
    return app


def declared(app: Gandy, external_id: str) -> ManifestDeclaration:
    return next(each for each in app.declarations.manifests if each.external_id == external_id)


def test_a_decorated_function_stays_what_it_was() -> None:
    app = Gandy("shop")

    @app.train(timeout=timedelta(seconds=5), name="double_it")
    def double(number: int) -> int:
        return 2 * number

    assert double(4) == 8
    assert app.registry.get("double_it").options.timeout == timedelta(seconds=5)


def test_an_application_needs_a_name() -> None:
    with pytest.raises(DeclarationError, match="its name must be 1 to 200 characters"):
        Gandy(" ")


def test_what_a_schedule_does_not_say_is_its_trains(app: Gandy) -> None:
    app.schedule("prices", PriceOrder, Order(1), every(minutes=5))

    manifest = declared(app, "prices")
    assert (manifest.train, manifest.input_json, manifest.input_type_name) == (
        "PriceOrder",
        '{"number":1}',
        "Order",
    )
    assert manifest.schedule == Interval(timedelta(minutes=5))
    assert (manifest.group, manifest.priority, manifest.max_retries) == ("prices", 7, 5)
    assert manifest.timeout == timedelta(minutes=2)


def test_what_a_schedule_says_stands_over_its_train(app: Gandy) -> None:
    app.schedule(
        "prices",
        PriceOrder,
        Order(1),
        cron("0 3 * * *", timezone="Europe/Berlin"),
        group="nightly",
        priority=0,
        max_retries=0,
        retry=False,
        retry_delay=timedelta(seconds=9),
        timeout=timedelta(hours=1),
        enabled=False,
        variance=timedelta(seconds=30),
        exclude=Days.on("sat", "sun"),
        misfire="catch_up",
        misfire_threshold=timedelta(seconds=5),
        keep_for=timedelta(days=2),
        keep_last=3,
    )

    assert declared(app, "prices") == ManifestDeclaration(
        external_id="prices",
        train="PriceOrder",
        input_json='{"number":1}',
        input_type_name="Order",
        schedule=Cron("0 3 * * *", "Europe/Berlin"),
        group="nightly",
        priority=0,
        max_retries=0,
        is_retried=False,
        retry_delay=timedelta(seconds=9),
        timeout=timedelta(hours=1),
        is_enabled=False,
        variance=timedelta(seconds=30),
        exclusions=(Days.on("sat", "sun"),),
        misfire_policy=MisfirePolicy.CATCH_UP,
        misfire_threshold=timedelta(seconds=5),
        keep_for=timedelta(days=2),
        keep_last=3,
    )


def test_a_train_without_input_is_followed_by_its_schedule(app: Gandy) -> None:
    app.schedule("tidy", tidy, every(hours=1))
    app.schedule("tidy-some", tidy_some, every(hours=1))

    assert (declared(app, "tidy").input_json, declared(app, "tidy-some").input_json) == ("null", "10")
    assert declared(app, "tidy").schedule == Interval(timedelta(hours=1))


def test_a_manifest_without_a_schedule_waits_to_be_triggered(app: Gandy) -> None:
    app.schedule("prices", PriceOrder, Order(1))

    assert declared(app, "prices").schedule == Manual()


def test_dependents_are_chained(app: Gandy) -> None:
    first = app.schedule("first", PriceOrder, Order(1), every(hours=1))
    first.then("second", PriceOrder, Order(2)).then("third", tidy)
    first.then("asleep", PriceOrder, Order(4), dormant=True)

    assert declared(app, "second").schedule == Dependent("first")
    assert declared(app, "third").schedule == Dependent("second")
    assert declared(app, "asleep").schedule == DormantDependent("first")


def test_a_job_that_runs_once_takes_an_instant_or_a_delay(app: Gandy) -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    app.schedule_once("at-noon", PriceOrder, Order(1), at=noon)
    app.schedule_once("soon", tidy, delay=timedelta(minutes=5))

    assert declared(app, "at-noon").schedule == Once(at=noon)
    assert declared(app, "soon").schedule == Once(delay=timedelta(minutes=5))
    with pytest.raises(OnceError):
        app.schedule_once("never", tidy)


def test_many_are_declared_in_one_batch_and_one_group(app: Gandy) -> None:
    handles = app.schedule_many(
        "sync", PriceOrder, {"users": Order(1), "orders": Order(2)}, every(minutes=5), prune_empty=True
    )
    handles["users"].then("after-users", tidy)

    users = declared(app, "sync-users")
    assert (users.group, users.batch, users.input_json) == ("sync", "sync", '{"number":1}')
    assert [batch.name for batch in app.declarations.batches] == ["sync"]
    assert app.declarations.batches[0].prune_empty
    assert declared(app, "after-users").schedule == Dependent("sync-users")


def test_a_batch_with_one_bad_member_declares_nothing(app: Gandy) -> None:
    app.schedule("sync-b", tidy)

    with pytest.raises(DuplicateDeclarationError, match="sync-b"):
        app.schedule_many("sync", PriceOrder, {"a": Order(1), "b": Order(2)}, every(minutes=5))

    assert [each.external_id for each in app.declarations.manifests] == ["sync-b"]
    assert app.declarations.batches == ()


def test_groups_are_declared_once(app: Gandy) -> None:
    app.group("etl", max_active_jobs=4, priority=20)

    assert app.declarations.groups == (GroupDeclaration(name="etl", max_active_jobs=4, priority=20),)
    with pytest.raises(DuplicateDeclarationError, match="etl"):
        app.group("etl")
    with pytest.raises(
        DeclarationError, match="max_active_jobs must be a whole number from 1 to 2147483647, not 0"
    ):
        app.group("none", max_active_jobs=0)
    with pytest.raises(DeclarationError, match="priority must be a whole number from 0 to 31, not 32"):
        app.group("high", priority=32)


@pytest.mark.parametrize("external_id", ["", "  ", "a\nb", "x" * 201])
def test_an_id_that_nobody_can_type_is_refused(app: Gandy, external_id: str) -> None:
    with pytest.raises(DeclarationError):
        app.schedule(external_id, tidy)


def test_an_id_is_declared_once_and_the_error_lists_what_exists(app: Gandy) -> None:
    app.schedule("prices", PriceOrder, Order(1))

    with pytest.raises(DuplicateDeclarationError, match="declared so far: prices"):
        app.schedule("prices", PriceOrder, Order(2))


def test_a_bad_input_is_refused_when_it_is_declared(app: Gandy) -> None:
    with pytest.raises(PayloadError, match="PriceOrder"):
        app.schedule("prices", PriceOrder, Order("seven"))  # type: ignore[arg-type]
    with pytest.raises(MissingInputError, match="Order"):
        app.schedule("prices", PriceOrder, every(hours=1))  # type: ignore[arg-type]

    assert app.declarations.manifests == ()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"variance": timedelta(seconds=-1)}, "variance"),
        ({"timeout": timedelta(0)}, "timeout"),
        ({"retry_delay": timedelta(-1)}, "retry_delay"),
        ({"max_retries": -1}, "max_retries"),
        ({"keep_last": 0}, "keep_last"),
        ({"misfire": "sometimes"}, "misfire"),
        ({"misfire_threshold": timedelta(-1)}, "misfire_threshold"),
        ({"group": " "}, "group"),
    ],
)
def test_a_bad_option_is_refused_by_name(app: Gandy, options: dict[str, object], problem: str) -> None:
    with pytest.raises(DeclarationError, match=problem):
        app.schedule("tidy", tidy, every(hours=1), **options)  # type: ignore[call-overload]


def test_schedules_are_checked_at_once() -> None:
    with pytest.raises(CronExpressionError):
        cron("61 * * * *")
    with pytest.raises(IntervalError):
        every(seconds=0)


def test_an_unknown_train_is_refused_with_what_exists(app: Gandy) -> None:
    def stranger() -> None: ...

    with pytest.raises(UnknownTrainError, match="PriceOrder, tidy, tidy_some"):
        app.schedule("x", stranger)


def test_two_trains_with_one_name_are_refused(app: Gandy) -> None:
    with pytest.raises(DuplicateTrainError, match="'tidy'"):
        app.train(name="tidy")(tidy_some)


def test_train_options_are_checked(app: Gandy) -> None:
    with pytest.raises(TrainDefinitionError, match="priority"):

        @app.train(priority=99)
        def urgent() -> None: ...


def test_an_unknown_hook_is_refused(app: Gandy) -> None:
    with pytest.raises(UnknownHookError, match="completed"):
        app.on("finished")  # type: ignore[arg-type]


def test_cleanup_adds_trains_by_class_or_name_to_the_settings(app: Gandy) -> None:
    app.cleanup(retention=timedelta(minutes=10), batch_size=None, trains=[PriceOrder, "LegacyTrain"])

    cleanup = app.settings.cleanup
    assert (cleanup.retention, cleanup.batch_size) == (timedelta(minutes=10), None)
    assert cleanup.trains == ("PriceOrder", "LegacyTrain")
    assert cleanup.interval == timedelta(minutes=1)


async def test_enqueue_options_are_checked_before_anything_is_written(app: Gandy) -> None:
    with pytest.raises(EnqueueError, match="delay must be a duration from 0s to 3650d, not -1d; priority"):
        await app.enqueue(tidy, delay=timedelta(-1), priority=40)
    with pytest.raises(EnqueueError, match="one key"):
        await app.enqueue_many(tidy_some, [1, 2], key="both")


def test_the_settings_of_keywords_stand_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANDY_WORKER_SLOTS", "7")
    monkeypatch.setenv("GANDY_WORKER_PREFETCH", "9")
    app = Gandy("shop", worker={"slots": 3})

    assert (app.settings.worker.slots, app.settings.worker.prefetch) == (3, 9)


def test_run_is_not_taken_for_the_input() -> None:
    app = Gandy("shop")

    @app.train
    def report(run: Run, order: Order) -> int:
        return run.id + order.number

    app.schedule("report", report, Order(3))
    assert declared(app, "report").input_json == '{"number":3}'
