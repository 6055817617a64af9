"""Random contract files, written as the TOML that both Gandy and the judge read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.lifecycle.fuzz.shapes import INSTANTS, NUMBERS, Link, Shape, TableShape

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

SPANS = ("1h", "1d", "7d", "30d")
STATES = ("open", "done", "failed", "lost")
_EPOCHS = frozenset({*NUMBERS, "yyyymmdd"})


@dataclass(slots=True)
class _Writer:
    """Writes one file."""

    chance: random.Random
    shape: Shape
    lines: list[str] = field(default_factory=lambda: ["version = 1"])

    def write(self) -> str:
        names = ["app", "billing", "audit"][: self.chance.choice((1, 1, 2, 3))]
        places: dict[str, list[TableShape]] = {name: [] for name in names}
        for table in self.shape.tables:
            if self.chance.random() < 0.85:
                places[self.chance.choice(names)].append(table)
        if not any(places.values()):
            places[names[0]].append(self.shape.tables[0])
        for name, tables in places.items():
            entries = [self._table(table) for table in tables]
            if self.chance.random() < 0.05:  # one table in two contracts is refused, or held by both
                entries += [self._held(table) for table in self.shape.tables[:1] if table not in tables]
            self._contract(name, [entry for entry in entries if entry])
        return "\n".join([*self.lines, ""])

    def _contract(self, name: str, entries: list[str]) -> None:
        if not entries:
            return
        self.lines += ["", f"[lifecycle.{name}]"]
        if self.chance.random() < 0.8:
            start = self.chance.choice((1, 2, 3, 7))
            most = self.chance.choice((start, start, start * 4, 30))  # children included
            self.lines.append(f'batch = {{ start = {start}, max = {most}, target = "1h" }}')
        if self.chance.random() < 0.06:
            self.lines.append(f"budget = {{ rows = {self.chance.randint(1, 6)} }}")
        for entry in entries:
            self.lines += ["", f"[[lifecycle.{name}.tables]]", entry]

    def _table(self, table: TableShape) -> str:
        rules = list(self._distinct(self._rule(table) for _ in range(self.chance.choice((1, 1, 2, 3)))))
        if self.chance.random() < 0.1:
            rules = []
        children = self._settle(table, rules)
        rules += self._holds(table)
        if not rules:
            return ""
        return self._entry(table, rules, children)

    def _held(self, table: TableShape) -> str:
        rules = list(self._holds(table))
        return self._entry(table, rules, {}) if rules else ""

    def _entry(self, table: TableShape, rules: list[dict[str, Any]], children: dict[str, str]) -> str:
        lines = [f"name = {_toml(table.name)}"]
        if table.schema is not None and (table.schema != "public" or self.chance.random() < 0.5):
            lines.append(f"schema = {_toml(table.schema)}")
        lines += ["rules = [", *(f"  {_toml(rule)}," for rule in rules), "]"]
        if children:
            lines.append(f"children = {_toml(children)}")
        if table.trigger is not None and self.chance.random() < 0.5:
            lines.append(f"triggers = {_toml([table.trigger])}")
        return "\n".join(lines)

    def _distinct(self, rules: Iterator[dict[str, Any] | None]) -> Iterator[dict[str, Any]]:
        """Two rules of one name on one column are refused; states and orders tell others apart."""
        seen: set[str] = set()
        for rule in rules:
            if rule is None:
                continue
            name = (
                "".join(sorted({"expires", "older_than", "terminal", "stale_cursor"} & rule.keys())) or "cap"
            )
            if name not in seen:
                seen.add(name)
                yield rule

    def _rule(self, table: TableShape) -> dict[str, Any] | None:
        column = self.chance.choice(table.of_kind(INSTANTS)).name
        match self.chance.randrange(8):
            case 0 | 1:
                grace = {"grace": self.chance.choice(SPANS)} if self.chance.random() < 0.3 else {}
                return {"expires": column, **self._unit(table, column), **grace}
            case 2 | 3:
                return {
                    "older_than": column,
                    "keep_for": self.chance.choice(SPANS),
                    **self._unit(table, column),
                }
            case 4:
                return self._terminal(table, column)
            case 5 | 6:
                return self._cap(table, column)
            case _:
                return self._cursor(table)

    def _unit(self, table: TableShape, column: str) -> dict[str, str]:
        kind = table.column(column).kind
        return {"unit": kind} if kind in _EPOCHS and self.chance.random() < 0.7 else {}

    def _terminal(self, table: TableShape, column: str) -> dict[str, Any]:
        states = self.chance.sample(STATES[1:], self.chance.randint(1, 3))
        keep_for: Any = self.chance.choice(SPANS)
        if self.chance.random() < 0.3:
            keep_for = {state: self.chance.choice(SPANS) for state in states}
        rule = {"terminal": "state", "states": states, "at": column, "keep_for": keep_for}
        return {**rule, **self._unit(table, column)}

    def _cap(self, table: TableShape, column: str) -> dict[str, Any]:
        order = self.chance.choice((column, "seq")) if table.column(column).kind != "iso" else "seq"
        per = {"per": ["grp"]} if self.chance.random() < 0.7 else {}
        kind = self.chance.choice(("cap", "keep_last"))
        return {kind: self.chance.choice((1, 2, 5)), **per, "order_by": order}

    def _cursor(self, table: TableShape) -> dict[str, Any] | None:
        logs = [
            (other, mine.name, theirs.name)
            for other in self.shape.tables
            for mine in table.of_kind(INSTANTS)
            for theirs in other.of_kind(INSTANTS)
            if other is not table and other.schema == table.schema and mine.kind == theirs.kind
        ]
        if not logs:
            return None
        log, mine, theirs = self.chance.choice(logs)
        unit = self._unit(table, mine)
        return {"stale_cursor": mine, "keep_for": "1d", "log": log.name, "log_at": theirs, **unit}

    def _holds(self, table: TableShape) -> Iterator[dict[str, Any]]:
        for column in table.columns:
            if column.name == "hold" and self.chance.random() < 0.7:
                yield {"keep": {"column": "hold", "equals": self.chance.random() < 0.85}}
        if self.chance.random() < 0.1:
            yield {"keep": {"column": "grp", "equals": 1}}

    def _settle(self, table: TableShape, rules: list[dict[str, Any]]) -> dict[str, str]:
        """Say for every reference what becomes of it; a few are left out."""
        children: dict[str, str] = {}
        seen, ahead = {table.label}, [table.label] if rules else []
        while ahead:
            label = ahead.pop()
            for link in self.shape.into(label):
                if not link.has_key and label != table.label:
                    continue
                mode = self._mode(link, rules if label == table.label else [], name=self._name(link, table))
                if mode is not None:
                    children[self._name(link, table)] = mode
                if mode in {"delete_first", "cascade"} and link.child not in seen:
                    seen.add(link.child)
                    ahead.append(link.child)
        return children

    def _mode(self, link: Link, rules: list[dict[str, Any]], *, name: str) -> str | None:
        pick = self.chance.random()
        if pick < (0.04 if link.has_key else 0.4):
            return None
        if rules and pick < 0.45:
            waiting = rules if self.chance.random() < 0.8 else rules[:1]
            for rule in waiting:
                rule.setdefault("wait_for", []).append(name)
            if len(waiting) == len(rules) and self.chance.random() < 0.9:
                return None
        return self._declared(link)

    def _declared(self, link: Link) -> str:
        child = self.shape.table(link.child)
        can_be_null = all(child.column(name).is_nullable for name in link.nulled)
        modes = ["delete_first"]
        modes += ["cascade"] * 2 if link.has_key and link.action == "CASCADE" else []
        modes += ["set_null"] if can_be_null or self.chance.random() < 0.1 else []
        return self.chance.choice(modes)

    def _name(self, link: Link, table: TableShape) -> str:
        """Bare inside the table's own schema, at times; else with the schema."""
        child = self.shape.table(link.child)
        columns = ",".join(link.columns)
        is_bare = child.schema is None or (child.schema == table.schema and int(link.columns[0][1]) % 2 == 0)
        return f"{child.name}.{columns}" if is_bare else f"{child.label}.{columns}"


def make_file(chance: random.Random, shape: Shape) -> str:
    """The text of a contract file for a database."""
    text = ""
    while "[lifecycle." not in text:
        text = _Writer(chance, shape).write()
    return text


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


def _key(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)
