"""Single facts of PostgreSQL: equality, marks of change, publications, types and search path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Boolean, ColumnElement, String, and_, bindparam, text, true, type_coerce
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import UserDefinedType

from gandy.lifecycle.contract.names import quoted
from gandy.lifecycle.database.facts import Comparison, Doubt, different_collations, different_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gandy.lifecycle.database.facts import ColumnType, TableName


_NUMBERS = frozenset({"smallint", "integer", "bigint", "real", "double precision", "numeric"})

# The base of each declared column type: domains resolved at every depth, and the type whose
# equality it uses (any enum is compared as anyenum, varchar as text). The third operator of a btree
# (method 403) and the first of a hash (405) are their equality.
TYPES = """
    derived (oid, base, modifier, is_filled) AS (
        SELECT oid, typbasetype, typtypmod, typnotnull FROM pg_catalog.pg_type WHERE typtype = 'd'
        UNION ALL
        SELECT derived.oid, typbasetype, typtypmod, is_filled OR typnotnull
        FROM derived JOIN pg_catalog.pg_type AS below ON below.oid = derived.base WHERE typtype = 'd'
    ), domain AS MATERIALIZED (
        SELECT derived.* FROM derived JOIN pg_catalog.pg_type AS below ON below.oid = base
        WHERE typtype <> 'd'
    ), declared AS MATERIALIZED (
        SELECT found.oid, below.oid AS base, modifier, coalesce(is_filled, false) AS is_filled,
            typtype = 'c' AS is_composite, CASE typtype WHEN 'e' THEN 'pg_catalog.anyenum'::regtype
            WHEN 'r' THEN 'pg_catalog.anyrange'::regtype WHEN 'm' THEN 'pg_catalog.anymultirange'::regtype
            WHEN 'c' THEN 'pg_catalog.record'::regtype ELSE CASE
                WHEN typcategory = 'A' AND typelem <> 0::oid THEN 'pg_catalog.anyarray'::regtype
                WHEN below.oid = 'pg_catalog.varchar'::regtype::oid THEN 'pg_catalog.text'::regtype
                ELSE below.oid END END::oid AS compared
        FROM (SELECT DISTINCT atttypid AS oid FROM pg_catalog.pg_attribute
            WHERE attrelid IN (SELECT oid FROM wanted) AND attnum > 0 AND NOT attisdropped) AS found
        LEFT JOIN domain ON domain.oid = found.oid
        JOIN pg_catalog.pg_type AS below ON below.oid = coalesce(domain.base, found.oid)
    ), equality AS MATERIALIZED (
        SELECT opcintype AS type, oprnamespace,
            oprname = '=' AND pg_catalog.pg_operator_is_visible(pg_operator.oid) AS is_found
        FROM pg_catalog.pg_opclass JOIN pg_catalog.pg_amop ON amopfamily = opcfamily
        AND amoplefttype = opcintype AND amoprighttype = opcintype
        JOIN pg_catalog.pg_operator ON pg_operator.oid = amopopr
        WHERE opcdefault AND opcintype IN (SELECT compared FROM declared UNION ALL SELECT casttarget
            FROM pg_catalog.pg_cast JOIN declared ON castsource = compared)
        AND (opcmethod = 403::oid AND amopstrategy = 3 OR opcmethod = 405::oid AND amopstrategy = 1)
    )"""
# pure: the base type of a domain, as a column of that type would be declared
DECLARED_TYPES = """
    SELECT declared.oid::bigint AS number, is_filled, is_composite,
        CASE WHEN base <> declared.oid THEN pg_catalog.format_type(base, modifier) END AS pure,
        pg_catalog.format_type(CASE base WHEN 'pg_catalog.varchar'::regtype::oid
            THEN 'pg_catalog.text'::regtype::oid ELSE base END, NULL) AS base,
        (SELECT nspname FROM pg_catalog.pg_namespace AS space WHERE space.oid = (
            SELECT oprnamespace FROM equality WHERE type = compared AND NOT is_found LIMIT 1)) AS elsewhere,
        coalesce((SELECT pg_catalog.bool_and(is_found) FROM equality WHERE type = compared),
            (SELECT pg_catalog.bool_or(is_found) FROM pg_catalog.pg_cast JOIN equality ON type = casttarget
            WHERE castsource = compared AND castmethod = 'b' AND castcontext = 'i'), false)
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_operator WHERE oprname = '='
            AND oprleft IN (declared.oid, base) AND oprright IN (declared.oid, base)
            AND oprleft <> compared AND pg_catalog.pg_operator_is_visible(pg_operator.oid)) AS is_found
    FROM declared
"""
# Pairs of a key's columns that a bare `=` may compare differently from the key. A statement writes the
# child's column first, so if the types differ it uses the commutator.
DOUBTS = """
    SELECT pg_catalog.json_agg(pg_catalog.json_build_object(
        'columns', pg_catalog.json_build_array(mine.attname, theirs.attname),
        'types', pg_catalog.json_build_array(pg_catalog.format_type(mine.atttypid, NULL),
            pg_catalog.format_type(theirs.atttypid, NULL)),
        'collations', pg_catalog.json_build_array(mine.attcollation::regcollation,
            theirs.attcollation::regcollation),
        'operator', pair.operator::regoperator, 'schema', (SELECT nspname FROM pg_catalog.pg_namespace
            WHERE oid = used.oprnamespace), 'is_visible', is_visible))
    FROM ROWS FROM (pg_catalog.unnest(con.conkey), pg_catalog.unnest(con.confkey),
        pg_catalog.unnest(con.conpfeqop)) AS pair (child, parent, operator)
    JOIN pg_catalog.pg_attribute AS mine ON mine.attrelid = con.conrelid AND mine.attnum = pair.child
    JOIN pg_catalog.pg_attribute AS theirs ON theirs.attrelid = con.confrelid AND theirs.attnum = pair.parent
    LEFT JOIN pg_catalog.pg_operator AS used ON used.oid = pair.operator
    CROSS JOIN LATERAL (SELECT
        coalesce((SELECT base FROM domain WHERE domain.oid = mine.atttypid), mine.atttypid),
        coalesce((SELECT base FROM domain WHERE domain.oid = theirs.atttypid), theirs.atttypid)
    ) AS plain (mine, theirs)
    CROSS JOIN LATERAL (SELECT
        CASE plain.mine WHEN 'pg_catalog.varchar'::regtype::oid THEN 'pg_catalog.text'::regtype
            ELSE plain.mine END::oid,
        CASE plain.theirs WHEN 'pg_catalog.varchar'::regtype::oid THEN 'pg_catalog.text'::regtype
            ELSE plain.theirs END::oid,
        pg_catalog.pg_operator_is_visible(used.oid),
        used.oprnamespace = 'pg_catalog'::regnamespace::oid) AS base (mine, theirs, is_visible, is_built_in)
    WHERE (is_visible AND used.oprname = '=' AND mine.attcollation = theirs.attcollation AND (
        (base.mine = base.theirs AND (used.oprleft = base.mine OR is_built_in))
        OR (used.oprleft = base.theirs AND used.oprright = base.mine
            AND pg_catalog.pg_operator_is_visible(nullif(used.oprcom, 0::oid)))
        OR (is_built_in AND used.oprleft = base.theirs AND used.oprright = base.theirs
            AND 2 = (SELECT pg_catalog.count(*) FROM pg_catalog.unnest(ARRAY[base.mine, base.theirs]) AS kind
                WHERE kind = ANY (ARRAY['pg_catalog.int2', 'pg_catalog.int4', 'pg_catalog.int8',
                    'pg_catalog.float4', 'pg_catalog.float8', 'pg_catalog.numeric']::regtype[]::oid[]))))
    ) IS NOT TRUE
    OR EXISTS (SELECT FROM pg_catalog.pg_operator AS other WHERE other.oprname = '='
        AND other.oprleft IN (mine.atttypid, plain.mine) AND other.oprright IN (theirs.atttypid, plain.theirs)
        AND other.oid NOT IN (used.oid, used.oprcom) AND pg_catalog.pg_operator_is_visible(other.oid))
"""
_PERIOD = Doubt("it is a PERIOD key, which compares ranges by containment", "Leave this table out")


def doubt_of_key(found: dict[str, Any], path: Sequence[str]) -> tuple[tuple[str, str], Doubt] | None:
    """Return the first doubtful pair of the key's columns, and the doubt."""
    if found["is_period"]:
        return (found["columns"][-1], found["parent_columns"][-1]), _PERIOD
    for pair in found["doubts"] or ():
        mine, theirs = pair["columns"]
        return (mine, theirs), _doubt(pair, path)
    return None


def _doubt(pair: dict[str, Any], path: Sequence[str]) -> Doubt:
    if pair["collations"][0] != pair["collations"][1]:
        return different_collations(*pair["collations"])
    if not pair["is_visible"]:
        return _not_on_path(f"the key uses {pair['operator']}", pair["schema"], path)
    if pair["types"][0] != pair["types"][1]:
        return different_types(*pair["types"])
    return Doubt(
        f"the key uses {pair['operator']}, and the search path leads to another operator",
        "Give the key's index the default operator class, or take the other operator off the search path",
    )


def comparison(declared: dict[str, Any], collation: str, path: Sequence[str]) -> Comparison:
    """How a bare `=` compares a column of this type."""
    base = str(declared["base"])
    hidden = None if declared["is_found"] else _hidden(base, declared["elsewhere"], path)
    return Comparison(
        kind=base,
        takes=_NUMBERS if base in _NUMBERS else frozenset(),
        collation="" if collation == "-" else collation,
        hidden=hidden,
        is_composite=declared["is_composite"],
    )


def _hidden(base: str, schema: str | None, path: Sequence[str]) -> Doubt:
    if schema is None:
        return Doubt(f"a statement cannot compare values of {base} as the type does", "Use another column")
    return _not_on_path(f"the operators of {base} are in the schema {schema}", schema, path)


def _not_on_path(reason: str, schema: str, path: Iterable[str]) -> Doubt:
    schemas = ", ".join(quoted(each) for each in dict.fromkeys([*path, schema]))
    return Doubt(
        f"{reason}, which is not on the search path",
        f"Run: ALTER ROLE <the role that sweeps> SET search_path = {schemas}",
    )


_TREE = "tree "  # prefix of the mark of a table that other tables inherit from
_VERSIONS = """pg_catalog.concat_ws(' ', relation.oid, relation.xmin,
    pg_catalog.row_security_active(relation.oid), 'columns',
    (SELECT pg_catalog.string_agg(pg_catalog.concat(number, ':', version), ' ') FROM (
        SELECT attnum AS number, xmin AS version FROM pg_catalog.pg_attribute
        WHERE attrelid = relation.oid AND attnum > 0 ORDER BY attnum
    ) AS kept_column), 'triggers',
    (SELECT pg_catalog.string_agg(pg_catalog.concat(number, ':', version), ' ') FROM (
        SELECT oid AS number, xmin AS version FROM pg_catalog.pg_trigger
        WHERE tgrelid = relation.oid ORDER BY tgname
    ) AS fired), 'rules',
    (SELECT pg_catalog.string_agg(pg_catalog.concat(number, ':', version), ' ') FROM (
        SELECT oid AS number, xmin AS version FROM pg_catalog.pg_rewrite
        WHERE ev_class = relation.oid ORDER BY rulename
    ) AS rewritten))"""
_OF_A_TREE = f"""(
    WITH RECURSIVE heir (oid) AS (
        SELECT topmost.oid
        UNION SELECT inhrelid FROM pg_catalog.pg_inherits JOIN heir ON inhparent = heir.oid
    ) SELECT '{_TREE}' || pg_catalog.md5(
        pg_catalog.string_agg({_VERSIONS}, E'\\n' ORDER BY relation.oid)
    ) FROM heir JOIN pg_catalog.pg_class AS relation ON relation.oid = heir.oid
)"""  # noqa: S608  # a constant
_MARK = f"""(
    SELECT CASE WHEN topmost.relhassubclass THEN {_OF_A_TREE}
        ELSE (SELECT {_VERSIONS} FROM pg_catalog.pg_class AS relation WHERE relation.oid = topmost.oid) END
    FROM pg_catalog.pg_class AS topmost WHERE topmost.oid = {{table}}
)"""  # noqa: S608  # a constant
_NAMED = """EXISTS (
    SELECT FROM pg_catalog.pg_namespace AS space
    JOIN pg_catalog.pg_class AS {relation} ON {relation}.relnamespace = space.oid
    WHERE space.nspname = :known_schema AND {relation}.relname = :known_name AND {mark} = :known_mark
)"""


def mark_of(table: str) -> str:
    """Return the SQL expression for the mark of a table, given an expression for its oid."""
    return _MARK.format(table=table)


def unchanged(marks: Mapping[TableName, str]) -> ColumnElement[bool]:
    """Return a condition: every table still has its mark."""
    return and_(true(), *(_is_as_marked(table, mark) for table, mark in marks.items()))


def _is_as_marked(table: TableName, mark: str) -> ColumnElement[bool]:
    """Compare one mark; the first inheriting table of a table changes the xmin of the table's own row."""
    is_tree = mark.startswith(_TREE)
    relation, said = ("topmost", _OF_A_TREE) if is_tree else ("relation", _VERSIONS)
    known = {"known_schema": table.schema, "known_name": table.name, "known_mark": mark}
    asked = text(_NAMED.format(relation=relation, mark=said)).bindparams(
        *(bindparam(name, value, String, unique=True) for name, value in known.items())
    )
    return type_coerce(asked, Boolean)


PUBLISHED = """
    published (oid, verb) AS MATERIALIZED (
        SELECT relation.oid, sent.verb FROM pg_catalog.pg_publication_tables AS told
        JOIN pg_catalog.pg_publication AS publication ON publication.pubname = told.pubname
        JOIN pg_catalog.pg_namespace AS space ON space.nspname = told.schemaname
        JOIN pg_catalog.pg_class AS relation
        ON relation.relnamespace = space.oid AND relation.relname = told.tablename
        CROSS JOIN LATERAL (
            VALUES ('DELETE', publication.pubdelete), ('UPDATE', publication.pubupdate)
        ) AS sent (verb, is_sent) WHERE sent.is_sent
    )"""
# The replica identity: by default the primary key; n is none, f the full row, i a unique index.
UNTOLD = """(
    SELECT pg_catalog.json_agg(DISTINCT published.verb) FROM member
    JOIN pg_catalog.pg_class AS leaf ON leaf.oid = member.oid
    JOIN published ON published.oid = leaf.oid
    OR published.oid IN (SELECT relid::oid FROM pg_catalog.pg_partition_ancestors(leaf.oid))
    WHERE member.root = wanted.oid AND leaf.relkind = 'r' AND CASE leaf.relreplident
        WHEN 'f' THEN false WHEN 'n' THEN true ELSE NOT EXISTS (
            SELECT FROM pg_catalog.pg_index WHERE indrelid = leaf.oid
            AND CASE leaf.relreplident WHEN 'd' THEN indisprimary ELSE indisreplident END
        ) END
)"""


_PRECISION = re.compile(r"\(\d+(?:,-?\d+)?\)")
_TOLD_APART: Final[dict[str, ColumnType]] = {
    "smallint": postgresql.SMALLINT(),
    "integer": postgresql.INTEGER(),
    "bigint": postgresql.BIGINT(),
    "real": postgresql.REAL(),
    "double precision": postgresql.DOUBLE_PRECISION(),
    "numeric": postgresql.NUMERIC(),
    "boolean": postgresql.BOOLEAN(),
    "text": postgresql.TEXT(),
    "character varying": postgresql.VARCHAR(),
    "date": postgresql.DATE(),
    "timestamp with time zone": postgresql.TIMESTAMP(timezone=True),
    "timestamp without time zone": postgresql.TIMESTAMP(),
}


class Other(UserDefinedType[str]):
    """A type that only the database interprets, by the database's name for it."""

    cache_ok = True

    def __init__(self, spelled: str) -> None:
        self.spelled = spelled

    def get_col_spec(self, **_: object) -> str:
        """Return the name that the database uses."""
        return self.spelled


def column_type(spelled: str) -> ColumnType:
    """Return the type for an output of format_type."""
    known = _TOLD_APART.get(_PRECISION.sub("", spelled))
    return Other(spelled) if known is None else known


_CATALOGUE = "pg_catalog"
# A quoted name, in which a doubled quote is one quote, or a plain name.
_NAME = re.compile(r'"((?:[^"]|"")*)"|([^\s,"]+)')


def hides_catalogue(path: str) -> bool:
    """Whether another schema is searched before pg_catalog, which comes first if it is not listed."""
    names = [bare.lower() if bare else quoted for quoted, bare in _NAME.findall(path)]
    return _CATALOGUE in names[1:]
