from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from gandy import every
from gandy.errors import (
    AppNotOpenError,
    AppOpenElsewhereError,
    DeclaredTooLateError,
    JobFailedError,
    JobNotFoundError,
    JobTimeoutError,
    ManifestNotFoundError,
    MissingInputError,
    MissingProvidedError,
    PayloadError,
    UnknownServiceError,
)
from gandy.store.seeding import seed
from tests.app.shop import Order, Receipt, SellOrder, double, make_shop


async def test_a_job_gives_the_output_of_its_run(migrated_url: str) -> None:
    async with make_shop(migrated_url).running(services=("worker",)) as app:
        job = await app.enqueue(SellOrder, Order(4))
        jobs = await app.enqueue_many(double, [1, 2, 3])

        assert await job.result(timeout=20) == Receipt(order=4, total=6)
        assert [await each.result(timeout=timedelta(seconds=20)) for each in jobs] == [2, 4, 6]


async def test_the_result_of_a_failed_job_says_why(migrated_url: str) -> None:
    async with make_shop(migrated_url).running(services=("worker",)) as app:
        job = await app.enqueue(SellOrder, Order(-1), retry=False)

        with pytest.raises(JobFailedError) as caught:
            await job.result(timeout=20)
    assert (caught.value.job_id, caught.value.exception) == (job.id, "ValueError")
    assert caught.value.reason == "there is no such order"


async def test_a_job_that_nobody_runs_is_waited_for_so_long_and_goes_on(migrated_url: str) -> None:
    async with make_shop(migrated_url) as app:
        job = await app.enqueue(double, 1)
        with pytest.raises(JobTimeoutError, match="still queued"):
            await job.result(timeout=0.02)
        with pytest.raises(TimeoutError):
            await job.result(timeout=timedelta(0))


async def test_a_job_that_is_not_there_says_so(migrated_url: str) -> None:
    async with make_shop(migrated_url) as app:
        job = await app.enqueue(double, 1)
        job.id += 1_000
        with pytest.raises(JobNotFoundError, match="not committed, or its retention has ended"):
            await job.result(timeout=1)


async def test_unique_work_is_answered_with_the_job_that_is_there(migrated_url: str) -> None:
    async with make_shop(migrated_url) as app:
        first = await app.enqueue(SellOrder, Order(1), unique_for=timedelta(hours=1))
        again = await app.enqueue(SellOrder, Order(1), unique_for=timedelta(hours=1))
        other = await app.enqueue(SellOrder, Order(2), unique_for=timedelta(hours=1))
        keyed = await app.enqueue(double, 1, key="nightly")
        keyed_again = await app.enqueue(double, 2, key="nightly")

    assert (first.is_new, again.is_new, other.is_new) == (True, False, True)
    assert first.id == again.id != other.id
    assert keyed.id == keyed_again.id


async def test_nothing_to_enqueue_is_nothing(migrated_url: str) -> None:
    async with make_shop(migrated_url) as app:
        assert await app.enqueue_many(double, []) == []


async def test_bad_inputs_enqueue_nothing_at_all(migrated_url: str) -> None:
    async with make_shop(migrated_url) as app:
        with pytest.raises(PayloadError, match="double"):
            await app.enqueue_many(double, [1, "two", 3])  # type: ignore[arg-type]
        with pytest.raises(MissingInputError):
            await app.enqueue(double)  # type: ignore[arg-type]
        job = await app.enqueue(double, 1)

    assert job.is_new


async def test_many_jobs_are_queued_in_their_order_or_none_of_them(migrated_url: str) -> None:
    numbers = [*range(4_001)]
    with_a_word: list[Any] = [*numbers[:-1], "last"]
    async with make_shop(migrated_url) as app:
        jobs = await app.enqueue_many(double, numbers)
        with pytest.raises(PayloadError, match="input at index 4000"):
            await app.enqueue_many(double, with_a_word)
        page = await app.queue.list(limit=10_000)

    assert [job.id for job in jobs] == sorted(job.id for job in jobs)
    assert sorted(entry.id for entry in page) == [job.id for job in jobs]
    async with make_shop(migrated_url) as app:
        assert [(await app.queue.show(jobs[at].id)).input for at in (0, 1_999, 2_000, 4_000)] == [
            0,
            1_999,
            2_000,
            4_000,
        ]


async def test_declaring_after_opening_is_refused_and_says_what_to_do(migrated_url: str) -> None:
    app = make_shop(migrated_url)
    async with app:
        with pytest.raises(DeclaredTooLateError, match="add_schedule"):
            app.schedule("late", double, 1, every(hours=1))
        with pytest.raises(DeclaredTooLateError):
            app.group("late")
    app.schedule("early", double, 1, every(hours=1))


async def test_schedules_are_added_triggered_and_removed_at_run_time(migrated_url: str) -> None:
    async with make_shop(migrated_url).running(services=("worker",)) as app:
        await app.add_schedule("doubling", double, 21)
        await app.add_schedule("later", double, 1, after="doubling")
        job = await app.trigger("doubling")
        assert await job.result(timeout=20) == 42
        with_input = await app.trigger("doubling", input=4)
        assert await with_input.result(timeout=20) == 8

        await app.remove_schedule("later")
        with pytest.raises(ManifestNotFoundError):
            await app.trigger("later")


async def test_a_trigger_checks_its_input_by_the_train_of_the_manifest(migrated_url: str) -> None:
    async with make_shop(migrated_url) as app:
        await app.add_schedule("doubling", double, 21)
        with pytest.raises(PayloadError, match="double"):
            await app.trigger("doubling", input="four")


async def test_what_is_declared_can_be_seeded_as_it_is(migrated_url: str) -> None:
    app = make_shop(migrated_url)
    app.group("sums", max_active_jobs=2)
    app.schedule("doubling", double, 21, every(hours=1), group="sums").then("selling", SellOrder, Order(1))
    async with app:
        first = await app.database.run(seed(app.declarations))
        again = await app.database.run(seed(app.declarations))

    assert (first.created, again.created, again.unchanged) == (2, 0, 2)


async def test_missing_values_of_all_trains_are_one_error_at_opening(migrated_url: str) -> None:
    app = make_shop(migrated_url)

    class Mailer: ...

    class Printer: ...

    @app.train
    def send(number: int, mailer: Mailer) -> None: ...

    @app.train
    def print_out(number: int, printer: Printer) -> None: ...

    with pytest.raises(MissingProvidedError) as caught:
        async with app:
            pass
    assert len(caught.value.missing) == 2


async def test_opening_twice_in_one_loop_is_one_opening(migrated_url: str) -> None:
    app = make_shop(migrated_url)
    async with app:
        async with app:
            database = app.database
        assert app.database is database
        assert await app.run(double, 1) == 2
    with pytest.raises(AppNotOpenError):
        await app.enqueue(double, 1)


async def test_another_event_loop_is_sent_to_the_sync_face(migrated_url: str) -> None:
    app = make_shop(migrated_url)

    def elsewhere() -> int:
        return asyncio.run(app.run(double, 1))

    async with app:
        with pytest.raises(AppOpenElsewhereError, match=r"app\.sync"):
            await asyncio.to_thread(elsewhere)


async def test_a_lifespan_keeps_the_application_open(migrated_url: str) -> None:
    app = make_shop(migrated_url)
    async with app.lifespan(object()):
        assert await app.run(double, 4) == 8


async def test_an_unknown_service_is_refused_with_the_known_ones(migrated_url: str) -> None:
    app = make_shop(migrated_url)
    with pytest.raises(UnknownServiceError, match="worker"):
        async with app.running(services=("workers",)):
            pass
