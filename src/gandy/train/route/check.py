"""Checking a route when its train is defined, and compiling it into a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Never

from gandy.errors import JunctionSignatureError, MissingCargoError, MissingOutputError, TrainDefinitionError
from gandy.train.inside.run import Run
from gandy.train.route.cargo import (
    NOTHING,
    can_be_provided,
    key_of,
    members_of,
    parts_of,
    stands_for,
    type_name,
)
from gandy.train.route.plan import (
    INPUT_SLOT,
    NO_SLOT,
    RUN_SLOT,
    Arguments,
    Getter,
    Need,
    Plan,
    Slot,
    Source,
    Step,
    compiled_call,
    getter_of,
    step_of,
    unpacker,
)
from gandy.train.route.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.train.route.junction import Junction, Parameter


def plan_route(train: str, junctions: tuple[Junction, ...], *, takes: object, gives: object) -> Plan:
    """Check that every parameter has its source and the output is made; raise the first problem found."""
    if not junctions:
        raise TrainDefinitionError(train=train, problem="its route is empty; name at least one junction")
    return _Planner(train, junctions, takes, gives).plan()


def plan_function(junction: Junction) -> Plan:
    """Plan a train of one function: its input is bound by place, whatever its type; the rest is provided."""
    given = input_parameter(junction)
    if given is not None and given.by_keyword:
        problem = f"its input {given.name!r} is keyword-only; make it an ordinary parameter"
        raise JunctionSignatureError(junction=junction.name, problem=problem)
    takes = NOTHING if given is None else given.key
    return _Planner(junction.name, (junction,), takes, key_of(output_of(junction)), given).plan()


def input_parameter(junction: Junction) -> Parameter | None:
    """Return the parameter that takes the input of a function's train: the first that is not Run."""
    return next((each for each in junction.parameters if each.key is not Run), None)


def output_of(junction: Junction) -> object:
    """Return what a function's train gives, as annotated."""
    return junction.ends_with if junction.result is Never and junction.ends_with else junction.result


@dataclass(slots=True)
class _Planner:
    train: str
    junctions: tuple[Junction, ...]
    takes: object
    gives: object
    given: Parameter | None = None  # a function's input, which is bound by place and not by type
    scope: Scope = field(default_factory=Scope)
    needs: list[Need] = field(default_factory=list)

    def plan(self) -> Plan:
        layout = self.scope.add_input(self.takes) if self.given is None else None
        steps = [self._step(position, junction) for position, junction in enumerate(self.junctions)]
        return Plan(
            train=self.train,
            input_key=self.takes,
            output_key=self.gives,
            unpack_input=None if layout is None else unpacker("input", layout),
            steps=tuple(steps),
            blank=tuple(self.scope.blank),
            needs=tuple(self.needs),
            output=self._output(),
        )

    def _step(self, position: int, junction: Junction) -> Step:
        constructor = self._arguments(junction.constructor, lambda each: self._outside(junction, each))
        arguments = self._arguments(junction.parameters, lambda each: self._source(position, each))
        call = compiled_call(junction, arguments, constructor)
        self._check_end(junction)
        has_result = junction.returns not in (NOTHING, Never)
        return step_of(junction, call, self.scope.add(junction.returns) if has_result else NO_SLOT)

    def _arguments(
        self, parameters: tuple[Parameter, ...], source_of: Callable[[Parameter], Source]
    ) -> Arguments:
        sources = [(each, source_of(each)) for each in parameters]
        positional = tuple(source for each, source in sources if not each.by_keyword)
        return Arguments(
            positional, tuple((each.name, source) for each, source in sources if each.by_keyword)
        )

    def _source(self, position: int, parameter: Parameter) -> Source:
        if parameter is self.given:
            return INPUT_SLOT
        found = None if parameter.key is Run else self.scope.find(parameter.key)
        if found is not None:
            return found
        self._refuse_made_later(position, parameter)
        return self._outside(self.junctions[position], parameter)

    def _outside(self, junction: Junction, parameter: Parameter) -> Slot:
        """Find a source outside the route: the run, a provided value, a default."""
        if parameter.key is Run:
            return RUN_SLOT
        key = _without_none(parameter)
        if can_be_provided(key):
            return self._need(key, junction, parameter)
        if parameter.is_required:
            raise self._missing(junction, parameter)
        return self.scope.reserve(parameter.default)

    def _need(self, key: object, junction: Junction, parameter: Parameter) -> Slot:
        slot = self.scope.reserve(None if parameter.is_required else parameter.default)
        available = self.scope.available
        self.needs.append(Need(key, slot, junction.name, parameter.name, parameter.is_required, available))
        return slot

    def _refuse_made_later(self, position: int, parameter: Parameter) -> None:
        if not parameter.is_required:
            return
        for later in self.junctions[position + 1 :]:
            made = parts_of(later.returns) or (later.returns,)
            if any(stands_for(key, parameter.key) for key in made):
                raise self._missing(self.junctions[position], parameter, made_later_by=later.name)

    def _missing(
        self, junction: Junction, parameter: Parameter, made_later_by: str | None = None
    ) -> MissingCargoError:
        return MissingCargoError(
            train=self.train,
            junction=junction.name,
            parameter=parameter.name,
            missing=type_name(parameter.key),
            available=self.scope.available,
            made_later_by=made_later_by,
        )

    def _check_end(self, junction: Junction) -> None:
        if junction.ends_with is None:
            return
        ends_with = key_of(junction.ends_with)
        if not stands_for(ends_with, self.gives):
            problem = f"it ends {self.train} with {type_name(ends_with)}, which gives {type_name(self.gives)}"
            raise JunctionSignatureError(junction=junction.name, problem=problem)

    def _output(self) -> Getter:
        if self.gives is NOTHING or self.junctions[-1].returns is Never:
            return lambda _: None
        source = self.scope.find(self.gives)
        if source is None:
            raise MissingOutputError(
                train=self.train,
                missing=type_name(self.gives),
                available=self.scope.available,
                junction=self.junctions[-1].name,
            )
        return getter_of(source)


def _without_none(parameter: Parameter) -> object:
    """Read `Mailer | None = None` as an optional Mailer."""
    if parameter.is_required:
        return parameter.key
    members = tuple(member for member in members_of(parameter.key) if member is not NOTHING)
    return members[0] if len(members) == 1 else parameter.key
