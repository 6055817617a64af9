"""The options of `gandy manifests set`, and what they say together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from gandy.cli.options import bounded, json_input
from gandy.desk.schedules import ManifestChanges, replaced_schedule
from gandy.model import exclusion as exclusion_json
from gandy.model.schedule import MisfirePolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Command = TypeVar("Command", bound="Callable[..., object]")

_OPTIONS = (
    click.option(
        "--cron",
        "expression",
        type=bounded("cron"),
        metavar="EXPRESSION",
        help="Five fields, six with seconds, or a word such as @daily.",
    ),
    click.option("--every", type=bounded("every"), metavar="D", help="A fixed rate instead of a cron."),
    click.option("--timezone", type=bounded("timezone"), help="The zone of --cron, UTC by default."),
    click.option("--input", "input_json", type=json_input, metavar="JSON", help="The train's input."),
    click.option("--group", type=bounded("group"), help="The group that it belongs to."),
    click.option("--priority", type=bounded("priority"), help="0 to 31, higher first."),
    click.option("--max-retries", type=bounded("max_retries"), help="Attempts before it is parked."),
    click.option("--retry/--no-retry", "is_retried", default=None, help="Whether a failure is tried again."),
    click.option(
        "--retry-delay", type=bounded("retry_delay"), metavar="D", help="The first pause before a retry."
    ),
    click.option("--timeout", type=bounded("timeout"), metavar="D", help="How long a run may take, or none."),
    click.option("--variance", type=bounded("variance"), metavar="D", help="The longest jitter."),
    click.option("--exclude", "exclusions", type=json_input, metavar="JSON", help="A list of exclusions."),
    click.option("--misfire", type=click.Choice(list(MisfirePolicy)), help="What becomes of missed ones."),
    click.option(
        "--misfire-threshold", type=bounded("misfire_threshold"), metavar="D", help="How late is missed."
    ),
    click.option("--keep-for", type=bounded("keep_for"), metavar="D", help="How long its runs are kept."),
    click.option(
        "--next", "next_at", type=bounded("next_at"), metavar="T", help="Its next instant, with a time zone."
    ),
    click.option("--keep-last", type=bounded("keep_last"), help="At most so many of its runs."),
)


def setting_options(command: Command) -> Command:
    """Give a command every option that overrides a declared value."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def changes_of(given: Mapping[str, Any]) -> ManifestChanges:
    """Read the options; what was not given stays as it is."""
    misfire, exclusions = given["misfire"], given["exclusions"]
    return ManifestChanges(
        schedule=replaced_schedule(given["expression"], given["every"], given["timezone"]),
        input_json=given["input_json"],
        group=given["group"],
        priority=given["priority"],
        max_retries=given["max_retries"],
        is_retried=given["is_retried"],
        retry_delay=given["retry_delay"],
        timeout=given["timeout"],
        variance=given["variance"],
        exclusions=None if exclusions is None else exclusion_json.from_json(exclusions),
        misfire_policy=None if misfire is None else MisfirePolicy(misfire),
        misfire_threshold=given["misfire_threshold"],
        keep_for=given["keep_for"],
        keep_last=given["keep_last"],
        next_at=given["next_at"],
    )
