"""Two roles of one PostgreSQL database whose search paths have nothing in common."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from tests.lifecycle.ground import Ground, ago

if TYPE_CHECKING:
    from collections.abc import Iterator

STATE_TABLES = ("audit", "hold", "lease", "quarantine", "rule")
SETS = "SELECT DISTINCT schemaname FROM pg_tables WHERE tablename LIKE 'gandy\\_lifecycle\\_%' ORDER BY 1"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def execute(ground: Ground, *statements: str) -> None:
    """Run statements as they are: a name may hold a brace or a percent sign."""
    with closing(ground.connect()) as connection:
        for statement in statements:
            connection.execute(statement)


@dataclass(frozen=True)
class Paths:
    """The database as its owner and as each of the roles reaches it."""

    owner: Ground
    left: Ground
    right: Ground
    left_role: str
    right_role: str
    left_schema: str = "left_side"
    right_schema: str = "right_side"

    def sets(self) -> list[str]:
        return [schema for [schema] in self.owner.rows(SETS)]

    def naming(self, schema: str) -> str:
        """What says where the state is, so that a role uses tables there that another one made."""
        name, value = urlsplit(self.owner.url).path[1:], schema.replace("'", "''")
        return f"ALTER DATABASE {name} SET gandy.lifecycle_state = '{value}'"

    def share(self) -> None:
        """Let each role use what the other one makes, and both make the state on the left."""
        execute(
            self.owner,
            self.naming(self.left_schema),
            f"GRANT CREATE, USAGE ON SCHEMA {quoted(self.left_schema)} TO {self.right_role}",
        )
        for maker, schema, user in (
            (self.left_role, self.left_schema, self.right_role),
            (self.right_role, self.right_schema, self.left_role),
        ):
            execute(
                self.owner,
                f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {user}",
                f"ALTER DEFAULT PRIVILEGES FOR ROLE {maker} GRANT ALL ON TABLES TO {user}",
            )


def on_path(ground: Ground, *schemas: str, role: str = "") -> Ground:
    """The same database with another search path, and as another role."""
    parts = urlsplit(ground.url)
    path = ",".join(map(quoted, schemas)).replace("\\", "\\\\").replace(" ", "\\ ")
    options = quote(f"-csearch_path={path}")
    netloc = f"{role}@{parts.netloc.rpartition('@')[2]}" if role else parts.netloc
    return Ground(parts._replace(netloc=netloc, query=f"{parts.query}&options={options}").geturl())


@contextmanager
def two_paths(postgres: Ground, left_schema: str = "left_side") -> Iterator[Paths]:
    """Each role makes its own tables in a schema of its own; the application's are in `app`."""
    name = urlsplit(postgres.url).path[1:]
    left, right = f"left_{name}", f"right_{name}"
    execute(
        postgres,
        "CREATE SCHEMA app",
        "CREATE TABLE app.note (id bigint PRIMARY KEY, at timestamptz, held boolean)",
        "CREATE INDEX by_age ON app.note (at)",
    )
    for role, schema in ((left, left_schema), (right, "right_side")):
        execute(
            postgres,
            f"CREATE ROLE {role} LOGIN",
            f"CREATE SCHEMA {quoted(schema)}",
            f"GRANT CREATE, USAGE ON SCHEMA {quoted(schema)} TO {role}",
            f"GRANT USAGE ON SCHEMA app TO {role}",
            f"GRANT SELECT, UPDATE, DELETE ON app.note TO {role}",
        )
    postgres.fill("app.note", [(number, ago(days=9), number == 2) for number in (1, 2, 3)])
    yield Paths(
        postgres,
        on_path(postgres, left_schema, role=left),
        on_path(postgres, "right_side", role=right),
        left,
        right,
        left_schema,
    )
    for role in (left, right):
        postgres.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")
