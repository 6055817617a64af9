from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NewType, Protocol

import pytest

from gandy.errors import ProvideError
from gandy.train.registry import Provided

Token = NewType("Token", str)


class Mailer: ...


class Sender(Protocol):
    def send(self) -> None: ...


def make_mailer() -> Mailer:
    return Mailer()


async def make_mailer_later() -> Mailer:
    return Mailer()


@pytest.mark.parametrize("source", [Mailer(), make_mailer, make_mailer_later, Mailer])
async def test_values_factories_async_factories_and_classes_provide_a_value(source: object) -> None:
    provided = Provided()
    provided.add(Mailer, source)

    async with provided.opened() as values:
        assert isinstance(values[Mailer], Mailer)


async def test_context_managers_are_entered_once_and_closed_in_reverse() -> None:
    events: list[str] = []

    @contextmanager
    def mailer() -> Iterator[Mailer]:
        events.append("mailer opened")
        yield Mailer()
        events.append("mailer closed")

    @asynccontextmanager
    async def token() -> AsyncIterator[Token]:
        events.append("token opened")
        yield Token("t")
        events.append("token closed")

    provided = Provided()
    provided.add(Mailer, mailer)
    provided.add(Token, token)
    async with provided.opened() as values:
        assert isinstance(values[Mailer], Mailer)
        assert values[Token] == "t"
        assert events == ["mailer opened", "token opened"]

    assert events[2:] == ["token closed", "mailer closed"]


async def test_a_value_that_can_be_entered_is_left_alone() -> None:
    lock = threading.Lock()
    lock_type = type(lock)
    provided = Provided()
    provided.add(lock_type, threading.Lock)

    async with provided.opened() as values:
        made = values[lock_type]
        assert isinstance(made, lock_type)
        assert not made.locked()


async def test_a_factory_that_fails_is_named_and_what_was_opened_before_is_closed() -> None:
    closed: list[str] = []

    @contextmanager
    def token() -> Iterator[Token]:
        try:
            yield Token("t")
        finally:
            closed.append("token")

    def broken() -> Mailer:
        raise ConnectionError("no server")

    provided = Provided()
    provided.add(Token, token)
    provided.add(Mailer, broken)
    with pytest.raises(
        ProvideError, match="cannot provide Mailer: its factory raised ConnectionError: no server"
    ):
        async with provided.opened():
            raise AssertionError("it opened")

    assert closed == ["token"]


def test_plain_data_is_refused() -> None:
    with pytest.raises(ProvideError, match="NewType"):
        Provided().add(str, "postgresql://...")


def test_one_type_is_provided_once() -> None:
    provided = Provided()
    provided.add(Mailer, make_mailer)
    with pytest.raises(ProvideError, match="already"):
        provided.add(Mailer, make_mailer)


async def test_a_protocol_is_provided_by_whatever_fulfils_it() -> None:
    class Smtp:
        def send(self) -> None: ...

    provided = Provided()
    provided.add(Sender, Smtp())
    async with provided.opened() as values:
        assert isinstance(values[Sender], Smtp)
