"""Objects that a role with CREATE in a schema can put in the way of every name that the package looks up.

What is planted is discovered: each function, operator and relation of PostgreSQL's own whose name stands in
the package, for the argument types that PostgreSQL itself has and for all near them. A call of any of them
moves a sequence on, which no rollback undoes. A cast cannot be planted: its types belong to PostgreSQL.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gandy.store.statements import parse_statements

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    import psycopg

    Connection = psycopg.Connection[Any]

KINDS: Final = (
    "text", "varchar", "name", "int2", "int4", "int8", "float8", "numeric", "bool", "date", "timestamp",
    "timestamptz", "interval", "json", "oid", "regclass", "_text", "_int8",
)  # fmt: skip
_BEGIN: Final = "SET check_function_bodies = off;\n"
_MARK: Final = 'CREATE SEQUENCE marks."{name}"; GRANT ALL ON SEQUENCE marks."{name}" TO PUBLIC;\n'
_FUNCTION: Final = (
    'CREATE FUNCTION {schema}."{name}"({arguments}) RETURNS {result} LANGUAGE plpgsql AS $$ '
    "BEGIN PERFORM pg_catalog.nextval('marks.\"{mark}\"'); RETURN{value}; END $$;\n"
)
_OPERATOR: Final = (
    "CREATE OPERATOR {schema}.{name} (LEFTARG = {left}, RIGHTARG = {right}, "
    'FUNCTION = {schema}."{function}");\n'
)
_VIEW: Final = (
    "CREATE VIEW {schema}.{name} AS SELECT *, pg_catalog.nextval('marks.relation') FROM pg_catalog.{name};\n"
)
_STATEMENTS: Final = parse_statements(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


class Planted(NamedTuple):
    """A function as it is planted."""

    name: str
    arguments: tuple[str, ...]
    result: str
    mark: str

    def written(self, schema: str) -> str:
        has_value = not self.result.startswith("SETOF") and self.result != "void"
        return _FUNCTION.format(
            schema=schema,
            name=self.name,
            arguments=", ".join(self.arguments),
            result=self.result,
            mark=self.mark,
            value=" NULL" if has_value else "",
        )


def plant(connection: Connection, schema: str) -> int:
    """Plant all of it in a schema, and say how much."""
    functions = list(_functions(connection))
    signs = r"(?<= )[-+*/<>=~!@#%^&|?]+(?= )"
    operators = _ask(connection, "operators", signs)
    relations = [name for (name,) in _ask(connection, "relations", r"\bpg_[a-z_]+\b")]
    marks = {planted.mark for planted in functions} | {name for name, _ in operators} | {"relation"}
    script = [_BEGIN, *(_MARK.format(name=name) for name in sorted(marks))]
    script += [planted.written(schema) for planted in functions]
    script += [text for name, result in operators for text in _operator(schema, name, result)]
    script += [_VIEW.format(schema=schema, name=name) for name in relations]
    connection.execute("".join(script).encode())
    return len(functions)


def called(connection: Connection) -> list[str]:
    """Name what was called, whoever did."""
    rows = connection.execute(_STATEMENTS["called"].encode()).fetchall()
    return sorted(name for (name,) in rows)


def _functions(connection: Connection) -> Iterator[Planted]:
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for row in _ask(connection, "functions", r"\b[a-z][a-z0-9_]*(?=\()"):
        name, is_set, fewest, result, is_variadic, names, types = row
        for arguments in _near(fewest, types, names, is_variadic=is_variadic):
            kinds = tuple(argument.split()[-1] for argument in arguments)
            key = name, kinds
            if key not in seen:
                seen.add(key)
                returned = _result(result, kinds)
                yield Planted(name, arguments, f"SETOF {returned}" if is_set else returned, name)


def _near(fewest: int, types: list[str], names: list[str], *, is_variadic: bool) -> Iterator[tuple[str, ...]]:
    """PostgreSQL's own types, all combinations of up to two, and of more or by name one that differs."""
    if not any(_is_open(kind) for kind in types) and not is_variadic:
        yield tuple(types)
        if len(types) > 2:
            for place, kind in product(range(len(types)), KINDS):
                yield (*types[:place], kind, *types[place + 1 :])
    most = 2 if is_variadic else min(len(types), 2)
    for number in range(max(fewest, 1), most + 1):
        yield from product(KINDS, repeat=number)
    if fewest == 0:
        yield from ((f"{name} {kind}",) for name, kind in product(names, KINDS))


def _is_open(kind: str) -> bool:
    return kind.startswith(("any", "internal", "record", "cstring"))


def _result(result: str, kinds: tuple[str, ...]) -> str:
    """Find what a polymorphic function gives back for these arguments."""
    if not _is_open(result):
        return result
    first = kinds[0] if kinds else "text"
    return f"_{first.removeprefix('_')}" if "array" in result else first.removeprefix("_")


def _operator(schema: str, name: str, result: str) -> Iterator[str]:
    for left, right in product((*KINDS, '"char"'), repeat=2):  # the catalogue's own letters too
        function = Planted(f"operator {name}", (left, right), result if not _is_open(result) else left, name)
        yield function.written(schema)
        yield _OPERATOR.format(schema=schema, name=name, left=left, right=right, function=function.name)


@cache
def _package() -> str:
    """Everything that the package could send: its SQL files and its modules."""
    return "\n".join(_texts(files("gandy")))


def _texts(folder: Traversable) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _texts(entry)
        elif entry.name.endswith((".sql", ".py")):
            yield entry.read_text(encoding="utf-8")


def _ask(connection: Connection, statement: str, pattern: str) -> list[Any]:
    """Ask the catalogue for all names in the package that look like this."""
    names = sorted(set(re.findall(pattern, _package())))
    return connection.execute(_STATEMENTS[statement].encode(), [names]).fetchall()
