"""A small application: two trains, one of them on a schedule. Make it yours."""

from __future__ import annotations

from dataclasses import dataclass

from gandy import Gandy, Run, Train, every

app = Gandy("starter")


@dataclass(frozen=True)
class Greeting:
    """Whom to greet."""

    name: str


@app.train
async def greet(greeting: Greeting, run: Run) -> str:
    """Greet somebody; asked for with `gandy queue enqueue`, or by `await app.enqueue(greet, ...)`."""
    run.progress(1, 1)
    return f"Hello, {greeting.name}!"


@dataclass(frozen=True)
class City:
    """Where to measure."""

    name: str


@dataclass(frozen=True)
class Measurement:
    """What the first junction hands to the second."""

    city: str
    degrees: int


def measure(city: City) -> Measurement:
    """Stand in for a call to a weather service."""
    return Measurement(city.name, degrees=len(city.name) * 5)


def describe(measurement: Measurement) -> str:
    """Put a measurement into words."""
    return f"{measurement.city}: {measurement.degrees} degrees"


@app.register
class ReportWeather(Train[City, str]):
    """Two junctions on one route; each receives what it needs by type."""

    route = (measure, describe)


app.schedule("weather-in-oslo", ReportWeather, City("Oslo"), every(seconds=30))
