"""The page on operators' verbs in Python, from the verbs themselves and the classes of their results."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from importlib import import_module
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Final

from gandy.app import keywords
from gandy.app.verbs.dead_letters import DeadLetterVerbs
from gandy.app.verbs.face import Verb
from gandy.app.verbs.groups import GroupVerbs
from gandy.app.verbs.manifests import ManifestVerbs
from gandy.app.verbs.queue import QueueVerbs
from gandy.app.verbs.runs import RunVerbs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.app.verbs.face import Verbs

_BEGINNING: Final = """\
# Operators' verbs in Python

<!-- Written by `python -m tools.references`; a test compares. -->

Every verb of the command line, by the same word: `await app.manifests.show("a")` in an open application,
`sync.manifests.show("a")` inside `with app as sync:`, and `app.sync.manifests.show("a")` elsewhere.
[The how-to](../how-to/operate-from-python.md) has examples.

- A train is named, or passed as itself. An input is a value of the train's type, or JSON.
- `as_operator` is the name in the audit trail; by default it is `python:USER@HOST`.
- A verb for many rows has a `preview_` that takes the same filter, changes nothing and returns what the verb
  would touch.
- Errors are those of the rest of Gandy, such as `ManifestNotFoundError` and `PayloadError`, all `GandyError`.
"""
_NOUNS: Final[tuple[type[Verbs[Any]], ...]] = (
    ManifestVerbs,
    GroupVerbs,
    RunVerbs,
    QueueVerbs,
    DeadLetterVerbs,
)
_HOMES: Final = (
    *(f"desk.{noun}" for noun in ("dead_letters", "explain", "groups", "manifests", "queue", "runs")),
    *("desk.schedules", "store.cancelling", "store.letters", "store.queueing"),
    *("store.reading.listings", "store.reaping"),
)
_LISTED: Final = """\
## Results

A listing is a tuple with three more attributes: `next`, the key of the next page or None; `is_cut`, true if
the search stopped before the page was full; and `looked`, how far a search in texts looked: at `rows` rows,
back to the instant `back_to`. Without a text it is None.
"""
_WIDEST: Final = 100


def verbs_page() -> str:
    """Write the page: the verbs of each noun, then the results and their fields."""
    nouns = [line for kind in _NOUNS for line in _noun(kind)]
    results = [line for kind in _results() for line in _result(kind)]
    return "\n".join([_BEGINNING, *nouns, _LISTED, *results])


def _verbs(kind: type[Verbs[Any]]) -> Iterator[tuple[str, Verb[..., Any]]]:
    yield from ((name, verb) for name, verb in vars(kind).items() if isinstance(verb, Verb))


def _noun(kind: type[Verbs[Any]]) -> Iterator[str]:
    yield f"## app.{kind.noun}"
    yield ""
    for name, verb in _verbs(kind):
        _, *parameters = verb.signature.parameters.values()
        result = str(verb.signature.return_annotation)
        yield from (f"### {kind.noun}.{name}", "")
        yield from (line.strip() for line in (verb.__doc__ or "").strip().splitlines())
        yield from ("", "```text", *_call(name, list(_shown(parameters)), result), "```", "")
        yield from _options(parameters)


def _call(name: str, parameters: list[str], result: str) -> Iterator[str]:
    """Write a signature on one line, or a parameter a line if it is too wide."""
    line = f"{name}({', '.join(parameters)}) -> {result}"
    if len(line) <= _WIDEST:
        yield line
    else:
        yield from (f"{name}(", *(f"    {each}," for each in parameters), f") -> {result}")


def _shown(parameters: list[Parameter]) -> Iterator[str]:
    """Write the parameters as in code; a star stands before those that are passed by name."""
    is_starred = False
    for parameter in parameters:
        if parameter.kind is Parameter.VAR_POSITIONAL:
            is_starred = True
        if parameter.kind is Parameter.KEYWORD_ONLY and not is_starred:
            is_starred = True
            yield "*"
        yield _parameter(parameter)


def _parameter(parameter: Parameter) -> str:
    if parameter.kind is Parameter.VAR_KEYWORD:
        return f"**{parameter.name}"
    star = "*" if parameter.kind is Parameter.VAR_POSITIONAL else ""
    default = "" if parameter.default is Parameter.empty else f" = {_default(parameter.default)}"
    return f"{star}{parameter.name}: {parameter.annotation}{default}"


def _default(value: object) -> str:
    plain = isinstance(value, str | int | bool) or value is None
    return repr(value) if plain else "..."


def _options(parameters: list[Parameter]) -> Iterator[str]:
    for parameter in parameters:
        if parameter.kind is Parameter.VAR_KEYWORD:
            (name,) = re.findall(r"Unpack\[(\w+)\]", str(parameter.annotation))
            words = ", ".join(f"`{word}`" for word in getattr(keywords, name).__annotations__)
            yield from (f"{parameter.name.capitalize()}: {words}.", "")


def _results() -> list[Any]:
    """Find the dataclasses of the results, and those of their fields."""
    known = _classes()
    texts = [str(verb.signature.return_annotation) for kind in _NOUNS for _, verb in _verbs(kind)]
    found: dict[str, Any] = {}
    while texts:
        for name in re.findall(r"\w+", texts.pop(0)):
            if name in known and name not in found:
                found[name] = known[name]
                texts += [str(field.type) for field in fields(known[name])]
    return sorted(found.values(), key=lambda kind: kind.__name__)


def _classes() -> dict[str, Any]:
    modules = [import_module(f"gandy.{home}") for home in _HOMES]
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and is_dataclass(value) and value.__module__ == module.__name__
    }


def _result(kind: Any) -> Iterator[str]:  # noqa: ANN401 - a dataclass
    yield from (f"### {kind.__name__}", "", f"{kind.__doc__} From `{kind.__module__}`.", "")
    yield from ("| field | type |", "|---|---|")
    yield from (
        f"| `{field.name}` | `{str(field.type).replace('|', chr(92) + '|')}` |"
        for field in fields(kind)
        if field.repr
    )
    yield ""
