"""Errors of trains: definition, payloads, provided values, runs."""

from __future__ import annotations

from gandy.errors.base import GandyError, message


class RouteError(GandyError):
    """The base of errors in a train's definition."""


@message("junction {junction}: {problem}", kw_only=True)
class JunctionSignatureError(RouteError):
    """A junction with invalid annotations."""

    junction: str
    problem: str


@message("train {train}: {problem}", kw_only=True)
class TrainDefinitionError(RouteError):
    """An invalid definition of a train."""

    train: str
    problem: str


class MissingCargoError(RouteError):
    """A junction needs a type that no earlier junction of the route returns."""

    def __init__(
        self,
        *,
        train: str,
        junction: str,
        parameter: str,
        missing: str,
        available: tuple[str, ...],
        made_later_by: str | None = None,
    ) -> None:
        self.train = train
        self.junction = junction
        self.parameter = parameter
        self.missing = missing
        self.available = available
        self.made_later_by = made_later_by
        advice = (
            f"{made_later_by} makes it, but only later: move {made_later_by} before {junction}"
            if made_later_by
            else "return it from an earlier junction"
        )
        super().__init__(
            f"train {train}: junction {junction} needs {missing} (parameter {parameter!r}), "
            f"which is not available; available: {', '.join(available) or 'nothing'}; {advice}"
        )


class MissingOutputError(RouteError):
    """No junction of a route returns the declared output."""

    def __init__(self, *, train: str, missing: str, available: tuple[str, ...], junction: str) -> None:
        self.train = train
        self.missing = missing
        self.available = available
        self.junction = junction
        super().__init__(
            f"train {train}: its output {missing} is not available after the last junction, {junction}; "
            f"available: {', '.join(available) or 'nothing'}; "
            "return it from a junction or declare another output"
        )


@message("two trains are named {name!r}: {first} and {second}; rename one of them", kw_only=True)
class DuplicateTrainError(GandyError):
    """Two trains of one application have the same name."""

    name: str
    first: str
    second: str


class UnknownTrainError(GandyError):
    """A name or a callable that is not a train of this application."""

    def __init__(self, *, name: str, known: tuple[str, ...], similar: tuple[str, ...] = ()) -> None:
        self.name = name
        self.known = known
        self.similar = similar
        hint = f"; did you mean {' or '.join(similar)}?" if similar else ""
        super().__init__(
            f"no train is named {name!r}{hint} Known trains: {', '.join(known) or 'none'}."
            if hint
            else f"no train is named {name!r}; register it with @app.train or @app.register. "
            f"Known trains: {', '.join(known) or 'none'}."
        )


class PayloadError(GandyError):
    """An input or an output does not fit its declared type, or cannot be stored as JSON."""

    def __init__(self, *, train: str, part: str, problems: tuple[str, ...]) -> None:
        self.train = train
        self.part = part
        self.problems = problems
        super().__init__(f"the {part} of train {train} is not valid: {'; '.join(problems)}")

    def of_item(self, index: int) -> PayloadError:
        """Return this error with the index of the value, counted from 0."""
        return PayloadError(train=self.train, part=f"{self.part} at index {index}", problems=self.problems)


class PayloadTooLargeError(PayloadError):
    """An input or an output exceeds the size limit."""

    def __init__(self, *, train: str, part: str, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        problem = f"{size} bytes of JSON, at most {limit} are stored; keep it elsewhere and pass a reference"
        super().__init__(train=train, part=part, problems=(problem,))


class ActivationError(GandyError):
    """A run made an invalid activation."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class MissingProvidedError(GandyError):
    """Trains need values that are not provided."""

    def __init__(self, *, missing: tuple[str, ...], provided: tuple[str, ...]) -> None:
        self.missing = missing
        self.provided = provided
        super().__init__(
            f"{'; '.join(missing)}. Provided: {', '.join(provided) or 'nothing'}. "
            "Return the type from an earlier junction, or provide it with app.provide(Type, factory)."
        )


@message("cannot provide {provided}: {problem}", kw_only=True)
class ProvideError(GandyError):
    """A value cannot be provided."""

    provided: str
    problem: str


@message("no train is running here; call current_run() from inside a junction")
class NoCurrentRunError(GandyError):
    """`current_run()` was called outside of a run."""


class TrainProcessError(GandyError):
    """The process of a train could not be used, or ended (with an exit code) before the train."""

    def __init__(self, *, train: str, problem: str, exit_code: int | None = None) -> None:
        self.train = train
        self.problem = problem
        self.process_exit_code = exit_code
        super().__init__(f"train {train}: {problem}")


@message(
    "train {train}: code of a job cancelled the task that ran it (asyncio.Task.cancel); "
    "to end a run from inside, return End or raise an exception",
    kw_only=True,
)
class TaskCancelledError(GandyError):
    """The task that ran a train was cancelled by code of a job, not by its caller."""

    train: str


@message("{exception_type}: {reason}", kw_only=True)
class RemoteJunctionError(GandyError):
    """Replaces an exception of a child process that cannot be rebuilt here."""

    exception_type: str
    reason: str
