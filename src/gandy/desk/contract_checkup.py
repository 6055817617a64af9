"""The check-up of an application's lifecycle contracts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.desk.findings import Finding
from gandy.errors import GandyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gandy.lifecycle import Contract

CHECK: Final = "lifecycle"


def of_contracts(contracts: Iterable[Contract]) -> Iterator[Finding]:
    """Judge whether each contract fits its database, and name the rules that wait for a person."""
    known = list(contracts)
    for contract in known:
        try:
            yield from _of_contract(contract, known)
        except GandyError as error:
            yield Finding(
                level="problem",
                check=CHECK,
                what=f"{contract.name}: nothing of it can be kept: {error}",
                to_do="set its database right, where the service lifecycle runs",
            )


def _of_contract(contract: Contract, known: Sequence[Contract]) -> Iterator[Finding]:
    from gandy.lifecycle import check  # noqa: PLC0415 an extra, and it says so where it is missing
    from gandy.lifecycle.reports.held import held_rules  # noqa: PLC0415 the same

    for found in check([contract], beside=known):
        if found.severity == "information":
            continue
        yield Finding(
            level="warning" if found.severity == "warning" else "problem",
            check=CHECK,
            what=f"{found.scheduler}: table {found.table}: {found.rule}: {found.message}",
            to_do=found.remedy or "correct the contract: gandy lifecycle check",
        )
    for held in held_rules(contract):
        yield Finding(
            level="problem",
            check=CHECK,
            what=f"{contract.name}: table {held.table}: {held.rule} waits for your word to remove "
            f"{held.rows:,} rows, more than half of the table",
            to_do=f"look: gandy lifecycle plan; agree: gandy lifecycle sweep --table {held.table} --yes",
        )
