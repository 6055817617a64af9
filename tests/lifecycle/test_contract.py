"""Reading contracts: the file of the documentation, everything wrong said at once, Python and TOML alike."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gandy.errors import ContractInvalidError, ContractTargetError
from gandy.lifecycle import (
    Contract,
    Table,
    cap,
    drop_partition,
    expires,
    inline,
    keep,
    keep_last,
    load,
    loads,
    older_than,
    singleton,
    stale_cursor,
    terminal,
)
from gandy.lifecycle.advisor.survey import sweep_order
from gandy.lifecycle.contract.tables import Throttle
from gandy.sweep import Budget, Pace

if TYPE_CHECKING:
    from gandy.lifecycle.contract.rules import Rule

FULL = """
version = 1

[lifecycle.statestore]
every = "5m"
database = { env = "APP_DATABASE_URL" }
batch = { start = 500, max = 10000, target = "50ms" }
budget = { rows = 1000000, time = "2m" }

[[lifecycle.statestore.tables]]
name = "presence_entries"
rules = [
  { expires = "expires_at_ms", unit = "ms", grace = "30s", safety = "presence is derived inventory" },
  { cap = 500, per = ["tenant_id"], order_by = "last_seen_at_ms" },
  { keep_last = 10, per = ["tenant_id", "kind"], order_by = "at" },
]

[[lifecycle.statestore.tables]]
name = "channel_inbox"
schema = "public"
throttle = { replication_lag = "5s" }
children = { "notes.inbox_id" = "delete_first" }
rules = [
  { terminal = "status", states = ["failed"], at = "failed_at", keep_for = "7d", wait_for = ["note.ref"] },
  { keep = { column = "legal_hold", equals = true } },
]

[[lifecycle.statestore.tables]]
name = "channel_outbox"
rules = [
  { inline = "delivery path", column = "status", states = ["sent"], at = "sent_at", alarm_after = "1h" },
]

[[lifecycle.statestore.tables]]
name = "models_dev_cache"
rules = [{ singleton = "id" }]

[lifecycle.outbox]
[[lifecycle.outbox.tables]]
name = "outbox"
rules = [{ older_than = "created_at", keep_for = "24h", lost_by_design = "replay history" }]
[[lifecycle.outbox.tables]]
name = "outbox_consumers"
rules = [{ stale_cursor = "updated_at", keep_for = "24h", log = "outbox", log_at = "created_at" }]
[[lifecycle.outbox.tables]]
name = "events"
rules = [{ drop_partition = "created_at", keep_for = "90d" }]
"""


def problems(text: str) -> list[str]:
    with pytest.raises(ContractInvalidError) as refused:
        loads(text, source="lifecycle.toml")
    return [str(problem) for problem in refused.value.problems]


def rules_of(*rules: str) -> str:
    listed = ",\n".join(rules)
    return f'version = 1\n[lifecycle.app]\n[[lifecycle.app.tables]]\nname = "t"\nrules = [\n{listed}\n]'


def test_a_file_says_what_python_says() -> None:
    statestore, outbox = loads(FULL, source="x.toml")

    assert statestore == Contract(
        "statestore",
        [
            Table(
                "presence_entries",
                [
                    expires("expires_at_ms", unit="ms", grace="30s", safety="presence is derived inventory"),
                    cap(500, per=["tenant_id"], order_by="last_seen_at_ms"),
                    keep_last(10, per=["tenant_id", "kind"], order_by="at"),
                ],
            ),
            Table(
                "channel_inbox",
                [
                    terminal(
                        "status",
                        states=["failed"],
                        at="failed_at",
                        keep_for=timedelta(days=7),
                        wait_for=["note.ref"],
                    ),
                    keep("legal_hold", equals=True),
                ],
                schema="public",
                children={"notes.inbox_id": "delete_first"},
                throttle=Throttle(replication_lag=timedelta(seconds=5)),
            ),
            Table(
                "channel_outbox",
                [inline("delivery path", column="status", states=["sent"], at="sent_at", alarm_after="1h")],
            ),
            Table("models_dev_cache", [singleton("id")]),
        ],
        every="5m",
        database_env="APP_DATABASE_URL",
        batch=Pace(start=500, largest=10_000, target=timedelta(milliseconds=50)),
        budget=Budget(rows=1_000_000, time=timedelta(minutes=2)),
        source="x.toml",
    )
    assert outbox.tables == (
        Table("outbox", [older_than("created_at", keep_for="24h", lost_by_design="replay history")]),
        Table(
            "outbox_consumers",
            [stale_cursor("updated_at", keep_for="24h", log="outbox", log_at="created_at")],
        ),
        Table("events", [drop_partition("created_at", keep_for="90d")]),
    )


def test_everything_that_is_wrong_is_said_at_once_with_file_table_and_field() -> None:
    text = """
    version = 1
    [lifecycle.app]
    every = "soon"
    batch = { start = 9, max = 3 }
    [[lifecycle.app.tables]]
    name = "one"
    rules = [
      { expires = "at", unit = "minutes", gracee = "1s" },
      { older_than = "at" },
      { cap = 0, order_by = "at" },
    ]
    [[lifecycle.app.tables]]
    name = "two"
    children = { "notes" = "delete_first" }
    rules = [{ terminal = "status", states = [], at = "at", keep_for = "7 parsecs" }]
    [[lifecycle.app.tables]]
    rules = []
    """

    found = problems(text)

    assert all(problem.startswith("lifecycle.toml: lifecycle.app: ") for problem in found)
    for words in (
        "every: 'soon'",
        "batch: start = 9",
        "table one: expires: unit",
        "table one: expires: gracee: is unknown",
        "table one: older_than: keep_for: is missing",
        "table one: cap: cap: needs a whole number",
        "table two: children: needs table.column",
        "table two: terminal: states",
        "table two: terminal: keep_for",
        "name: needs a name",
    ):
        assert [problem for problem in found if words in problem], words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version = 2\n[lifecycle.app]", "write version = 1"),
        ("version = 1", "at least one [lifecycle.<name>]"),
        ("version = ", "Invalid value"),
        ("version = 1\n[lifecyle.app]", "lifecyle: is unknown"),
        (rules_of('{ expires = "a", older_than = "b" }'), "exactly one of"),
        (rules_of('{ singleton = "id" }', '{ expires = "a" }'), "remove the rules that delete"),
        (rules_of('{ expires = "a" }', '{ expires = "a" }'), "two rules"),
        (rules_of('{ inline = "path", states = ["sent"] }'), "belong together"),
        (rules_of('{ inline = "path", at = "a" }'), "belong together"),
        (rules_of('{ older_than = "a", keep_for = "0s" }'), "more than zero"),
        (rules_of('{ expires = "a", wait_for = ["child"] }'), "needs table.column"),
        (
            rules_of('{ terminal = "s", states = ["a", "b"], at = "t", keep_for = { a = "1d" } }'),
            "must name the same states",
        ),
    ],
)
def test_a_wrong_contract_is_refused_in_words(text: str, words: str) -> None:
    assert [problem for problem in problems(text) if words in problem]


@pytest.mark.parametrize(
    "rule",
    [
        '{ terminal = "status", states = ["failed", "sent"], at = "t", keep_for = "7d" }',
        '{ older_than = "created_at", keep_for = "7d" }',
        '{ expires = "expires_at" }',
        '{ keep_last = 5, order_by = "created_at" }',
    ],
)
def test_a_second_prune_of_what_is_deleted_inline_is_refused(rule: str) -> None:
    path = '{ inline = "delivery path", column = "status", states = ["sent"] }'

    assert any("already" in problem for problem in problems(rules_of(path, rule)))


def test_a_terminal_rule_on_other_states_stands_beside_an_inline_path() -> None:
    path = '{ inline = "delivery path", column = "status", states = ["sent"] }'
    rule = '{ terminal = "status", states = ["failed"], at = "t", keep_for = "7d" }'

    [contract] = loads(rules_of(path, rule))

    assert len(contract.tables[0].rules) == 2


def test_python_is_held_to_the_same_rules() -> None:
    with pytest.raises(ContractInvalidError, match="keep_for"):
        older_than("at", keep_for="soon")
    with pytest.raises(ContractInvalidError, match="at least one rule"):
        Table("t", [])
    with pytest.raises(ContractInvalidError, match="delete_first, cascade, set_null"):
        Table("t", [expires("at")], children={"c.t_id": "remove"})
    with pytest.raises(ContractInvalidError, match="declared twice"):
        Contract("app", [Table("t", [expires("at")]), Table("t", [expires("b")])])


def test_a_file_that_cannot_be_read_is_an_error_of_the_call(tmp_path: Path) -> None:
    with pytest.raises(ContractInvalidError, match="No such file") as refused:
        load(tmp_path / "none.toml")

    assert refused.value.exit_code == 2


def test_the_database_is_the_one_given_or_the_one_the_variable_names(monkeypatch: pytest.MonkeyPatch) -> None:
    contract = Contract("app", [Table("t", [expires("at")])], database_env="APP_URL")
    with pytest.raises(ContractTargetError, match="APP_URL is not set"):
        contract.target()

    monkeypatch.setenv("APP_URL", "sqlite:///a.db")

    assert contract.target() == "sqlite:///a.db"
    assert contract.target("sqlite:///b.db") == "sqlite:///b.db"


def test_a_password_in_a_url_is_not_shown() -> None:
    contract = Contract("app", [Table("t", [expires("at")])], database="postgresql://u:secret@h/d")

    assert "secret" not in repr(contract)


def test_children_come_before_what_waits_for_them_and_a_log_before_its_cursors() -> None:
    parent = Table("parent", [expires("at", wait_for=["child.parent_id"])])
    child = Table("child", [expires("at", wait_for=["grandchild.child_id"])])
    grandchild = Table("grandchild", [expires("at")])
    cursors = Table("cursors", [stale_cursor("at", keep_for="1d", log="log", log_at="at")])
    log = Table("log", [older_than("at", keep_for="1d")])

    ordered = [table.name for table in sweep_order([parent, cursors, child, log, grandchild], "public")]

    assert ordered == ["grandchild", "child", "parent", "log", "cursors"]


def test_declaring_a_contract_does_not_import_sqlalchemy() -> None:
    import subprocess  # noqa: PLC0415
    import sys  # noqa: PLC0415

    code = "import sys, gandy.lifecycle as l; l.expires('at'); print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.strip() == "False"


def test_the_contract_in_the_how_to_is_a_contract() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "lifecycle.md").read_text(encoding="utf-8")

    [contract] = loads(page.split("```toml")[1].split("```")[0])

    assert [table.name for table in contract.tables] == ["sessions", "imports"]


@pytest.mark.parametrize(
    ("rule", "keys", "label"),
    [
        (expires("until", grace="1h"), ["expires:until"], "expires until"),
        (older_than("at", keep_for="1d", wait_for=["note.ref"]), ["older_than:at"], "older_than at"),
        (
            terminal("status", states=["sent", 2], at="ended", keep_for="1d"),
            ["terminal:status=sent:ended", "terminal:status=2:ended"],
            "terminal status sent, 2",
        ),
        (cap(5, order_by="at"), ["cap::at"], "cap 5"),
        (keep_last(5, order_by="at", per=["a", "b"]), ["keep_last:a,b:at"], "keep_last 5"),
        (stale_cursor("at", keep_for="1d", log="l", log_at="x"), ["stale_cursor:at"], "stale_cursor at"),
        (drop_partition("at", keep_for="1d"), ["drop_partition:at"], "drop_partition at"),
        (singleton("id"), ["singleton:id"], "singleton id"),
        (inline("app.prune"), ["inline:app.prune"], "inline app.prune"),
        (keep("held", equals=True), ["keep:held=True"], "keep held"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_state_of_a_rule_is_found_under_the_same_keys_by_every_version(
    rule: Rule, keys: list[str], label: str
) -> None:
    assert list(rule.keys) == keys
    assert rule.label == label
