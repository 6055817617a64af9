"""Read a contract file; report all its problems at once."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gandy.errors import ContractInvalidError, ContractProblem
from gandy.lifecycle.contract.build import BUILDERS
from gandy.lifecycle.contract.fields import LARGEST, Fields
from gandy.lifecycle.contract.tables import (
    DEFAULT_BUDGET,
    DEFAULT_EVERY,
    ChildMode,
    Contract,
    Table,
    Throttle,
    gathered,
    located,
)
from gandy.settings.bounds import BOUNDS, shown
from gandy.sweep import Budget, Pace

if TYPE_CHECKING:
    from datetime import timedelta

    from gandy.lifecycle.contract.rules import Rule

_VERSION = 1
_MISSING = "is missing"


def load(path: str | Path) -> tuple[Contract, ...]:
    """Read the contracts of a TOML file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ContractInvalidError([ContractProblem(source=str(path), message=str(error))]) from error
    return loads(text, source=str(path))


def loads(text: str, *, source: str = "contract") -> tuple[Contract, ...]:
    """Read the contracts of a TOML text."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ContractInvalidError([ContractProblem(source=source, message=str(error))]) from error
    return read(document, source=source)


def read(document: Mapping[str, object], *, source: str = "contract") -> tuple[Contract, ...]:
    """Read the contracts of a TOML document."""
    return _Reader(source).contracts(document)


class _Reader:
    """Collects the problems of a whole file."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._problems: list[ContractProblem] = []

    def contracts(self, document: Mapping[str, object]) -> tuple[Contract, ...]:
        top = Fields()
        if document.get("version") != _VERSION:
            top.note("version", f"write version = {_VERSION}, not {document.get('version')!r}")
        _unknown(top, document, {"version", "lifecycle"})
        sections = _section(top, document, "lifecycle")
        if not sections:
            top.note("lifecycle", "needs at least one [lifecycle.<name>]")
        self._take(top)
        found = [self._contract(name, section) for name, section in sections.items()]
        if self._problems:
            raise ContractInvalidError(self._problems)
        return gathered(contract for contract in found if contract is not None)

    def _contract(self, name: str, section: object) -> Contract | None:
        called = name if BOUNDS["name"].holds(name) else shown(name)
        source = f"{self._source}: lifecycle.{called}"
        fields = Fields()
        if not isinstance(section, Mapping):
            fields.note("", f"needs a table, not {section!r}")
            self._take(fields, source=source)
            return None
        _unknown(fields, section, {"every", "database", "batch", "budget", "tables"})
        every = fields.span("every", section.get("every", DEFAULT_EVERY))
        batch, budget = _batch(fields, section), _budget(fields, section)
        database, env = _database(fields, section)
        entries = section.get("tables")
        if not isinstance(entries, list):
            fields.note("tables", f"needs at least one [[lifecycle.{called}.tables]]")
            entries = []
        self._take(fields, source=source)
        tables = [self._table(entry, source) for entry in entries]
        if self._problems:
            return None
        try:
            return Contract(
                name,
                [table for table in tables if table is not None],
                every=every,
                database=database,
                database_env=env,
                batch=batch,
                budget=budget,
                source=self._source,
            )
        except ContractInvalidError as error:
            self._problems.extend(error.problems)
            return None

    def _table(self, entry: object, source: str) -> Table | None:
        fields = Fields()
        if not isinstance(entry, Mapping):
            fields.note("tables", f"needs a table, not {entry!r}")
            self._take(fields, source=source)
            return None
        _unknown(fields, entry, {"name", "schema", "rules", "children", "throttle", "triggers"})
        name = fields.name("name", entry.get("name"))
        schema = fields.optional_name("schema", entry.get("schema"))
        children = _children(fields, entry)
        throttle = _throttle(fields, entry)
        triggers = fields.names("triggers", entry.get("triggers", []))
        rules = self._rules(entry.get("rules"), fields)
        where = name if schema is None else f"{schema}.{name}"
        if fields.problems:
            self._take(fields, source=source, table=where)
            return None
        try:
            return Table(name, rules, schema=schema, children=children, throttle=throttle, triggers=triggers)
        except ContractInvalidError as error:
            self._problems.extend(located(error.problems, source=source, table=where))
            return None

    @staticmethod
    def _rules(entries: object, fields: Fields) -> list[Rule]:
        if not isinstance(entries, list):
            fields.note("rules", "needs a list of rules")
            return []
        rules = []
        for entry in entries:
            try:
                rules.append(_rule(entry))
            except ContractInvalidError as error:
                fields.problems.extend(error.problems)
        return rules

    def _take(self, fields: Fields, *, source: str | None = None, table: str = "") -> None:
        self._problems.extend(located(fields.problems, source=source or self._source, table=table))


def _rule(entry: object) -> Rule:
    fields = Fields()
    if not isinstance(entry, Mapping):
        fields.note("rules", f"needs a table such as {{ expires = ... }}, not {entry!r}")
        raise ContractInvalidError(fields.problems)
    kinds = [kind for kind in BUILDERS if kind in entry]
    if len(kinds) != 1:
        known = ", ".join(BUILDERS)
        fields.note("rules", f"a rule is exactly one of {known}; this one has {sorted(entry)}")
        raise ContractInvalidError(fields.problems)
    return _build(kinds[0], dict(entry))


def _build(kind: str, values: dict[str, object]) -> Rule:
    builder = BUILDERS[kind]
    first = values.pop(kind)
    if kind == "keep" and isinstance(first, Mapping):  # { keep = { column = ..., equals = ... } }
        values = {**first, **values}
        first = values.pop("column", None)
    fields = Fields(kind)
    accepted = list(inspect.signature(builder).parameters.values())[1:]
    names = {parameter.name for parameter in accepted}
    _unknown(fields, values, names)
    for parameter in accepted:
        if parameter.default is inspect.Parameter.empty and parameter.name not in values:
            fields.note(parameter.name, _MISSING)
    if any(problem.message == _MISSING for problem in fields.problems):
        fields.raise_if_wrong()
    try:
        rule = builder(first, **{name: values[name] for name in values if name in names})
    except ContractInvalidError as error:
        raise ContractInvalidError([*fields.problems, *error.problems]) from error
    fields.raise_if_wrong()
    return rule


def _unknown(fields: Fields, values: Mapping[str, object], known: set[str]) -> None:
    for name in values:
        if name not in known:
            fields.note(str(name), f"is unknown here; known are {', '.join(sorted(known))}")


def _section(fields: Fields, values: Mapping[str, object], name: str) -> Mapping[str, object]:
    section = values.get(name, {})
    if isinstance(section, Mapping):
        return section
    fields.note(name, f"needs a table, not {section!r}")
    return {}


def _batch(fields: Fields, section: Mapping[str, object]) -> Pace:
    values, usual = _section(fields, section, "batch"), Pace()
    _unknown(fields, values, {"start", "max", "target"})
    start = fields.count("batch.start", values.get("start", usual.start))
    largest = fields.count("batch.max", values.get("max", max(start, usual.largest)))
    target = fields.span("batch.target", values.get("target", usual.target)) or usual.target
    if start > largest:
        fields.note("batch", f"start = {start} is more than max = {largest}")
        return usual
    return Pace(start=start, largest=largest, target=target)


def _budget(fields: Fields, section: Mapping[str, object]) -> Budget:
    values = _section(fields, section, "budget")
    _unknown(fields, values, {"rows", "time"})
    return Budget(
        rows=fields.count("budget.rows", values.get("rows", DEFAULT_BUDGET.rows), most=LARGEST),
        time=fields.span("budget.time", values.get("time", DEFAULT_BUDGET.time)),
    )


def _database(fields: Fields, section: Mapping[str, object]) -> tuple[str | None, str | None]:
    value = section.get("database")
    if isinstance(value, Mapping):
        _unknown(fields, value, {"env"})
        return None, fields.name("database.env", value.get("env"))
    return fields.optional_name("database", value), None


def _children(fields: Fields, entry: Mapping[str, object]) -> dict[str, str]:
    values = _section(fields, entry, "children")
    for child, mode in values.items():
        fields.reference("children", child)
        fields.choice("children", mode, ChildMode)
    return {child: str(mode) for child, mode in values.items()}


def _throttle(fields: Fields, entry: Mapping[str, object]) -> Throttle:
    values = _section(fields, entry, "throttle")
    _unknown(fields, values, {"replication_lag", "lock_waiters"})
    lag: timedelta | None = None
    if "replication_lag" in values:
        lag = fields.span("throttle.replication_lag", values["replication_lag"])
    waiters = values.get("lock_waiters")
    return Throttle(
        replication_lag=lag,
        lock_waiters=None if waiters is None else fields.count("throttle.lock_waiters", waiters),
    )
