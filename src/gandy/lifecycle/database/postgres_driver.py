"""SQLAlchemy's dialect of PostgreSQL, told by the driver what it would ask the server for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import psycopg
from sqlalchemy import Enum, String
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGCompiler_psycopg, PGDialect_psycopg
from typing_extensions import override

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.sql.functions import Function
    from sqlalchemy.types import TypeEngine

# What looks like a function and is a part of the language.
_SYNTAX = frozenset({"all", "any", "coalesce", "greatest", "least", "nullif", "some"})
DRIVER_NAME = "postgresql+gandy_psycopg"
_MAJOR = 10_000


class OwnNamesCompiler(PGCompiler_psycopg):
    """Calls PostgreSQL's own functions: the search path is the application's, and others may write there."""

    @override
    def visit_function(self, func: Function[Any], *given: Any, **how: Any) -> str:
        text = super().visit_function(func, *given, **how)
        has_schema = bool(getattr(func, "packagenames", ()))
        return text if has_schema or func.name.lower() in _SYNTAX else f"pg_catalog.{text}"

    @override
    def render_bind_cast(self, type_: TypeEngine[Any], dbapi_type: TypeEngine[Any], sqltext: str) -> str:
        """A string is text: beside a column of text PostgreSQL's own operator then fits without any cast."""
        if isinstance(dbapi_type, String) and not isinstance(dbapi_type, Enum):
            return f"{sqltext}::TEXT"
        kind = self.dialect.type_compiler_instance.process(dbapi_type, identifier_preparer=self.preparer)
        return f"{sqltext}::{kind}"


class InformedDialect(PGDialect_psycopg):
    """Asks nothing on the first connection: the server says as much when it accepts one."""

    supports_statement_cache = True
    statement_compiler = OwnNamesCompiler

    @override
    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...]:
        return divmod(_driver(connection).info.server_version, _MAJOR)

    @override
    def _get_default_schema_name(self, connection: Connection) -> str:
        """Each reading of the catalogue says which it is: it may change from connection to connection."""
        raise NotImplementedError

    @override
    def get_default_isolation_level(self, dbapi_conn: object) -> Literal["READ COMMITTED"]:
        return "READ COMMITTED"

    @override
    def _set_backslash_escapes(self, connection: Connection) -> None:
        strings = _driver(connection).info.parameter_status("standard_conforming_strings")
        self._backslash_escapes = strings == "off"


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)  # noqa: S101  # the only driver
    return driver


registry.register("postgresql.gandy_psycopg", __name__, InformedDialect.__name__)
