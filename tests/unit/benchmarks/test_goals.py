from __future__ import annotations

import dataclasses

import pytest

from benchmarks.case import Case, NotTimedError
from benchmarks.cases import CASES
from benchmarks.cases.pruning import PEERS as PEERS_THAT_PRUNE
from benchmarks.cases.queue import PEERS, PEERS_OF_MANY
from benchmarks.cases.schedules import PEERS as PEERS_WITH_SCHEDULES
from benchmarks.contestants import CONTESTANTS
from benchmarks.goals import Floor, Goal, Lead
from benchmarks.rounds import Measured, Rounds

#: What issue after issue asked for: case, contestant, figure, bound, and what it is compared with.
ASKED = {
    ("throughput-1", "gandy", "per second", 0.85, None, "t3m"),
    ("throughput-1", "gandy", "per second", 2.2, None, "pgqueuer"),
    ("throughput-1", "gandy", "WAL bytes", None, 1_150, None),
    ("throughput-2", "gandy", "per second", 1.6, None, "pgqueuer"),
    ("enqueue", "gandy", "per second", 1.3, None, "pgqueuer"),
    ("idle-pickup", "gandy", "p50 ms", None, 1, "pgqueuer"),
    ("idle-pickup", "gandy", "p99 ms", None, 1, "pgqueuer"),
    ("tick-few-due", "gandy schedules", "tick ms", None, 1.3, "direct schedules"),
    ("tick-all-due", "gandy schedules", "per second", 0.8, None, "direct schedules"),
    ("seeding", "gandy schedules", "per second", 0.6, None, "direct schedules"),
    ("throughput-sqlite", "gandy on SQLite", "per second", 0.6, None, "direct SQLite"),
    ("cleanup-latency", "gandy removing them", "p99 ms", None, 1.5, "gandy beside expired runs"),
    ("held-snapshot", "gandy under a snapshot", "throughput, held / free", 0.98, None, None),
}


def rounds(**figures: list[float]) -> Rounds[str]:
    """Rounds of one metric: figures by contestant."""
    samples: dict[str, list[Measured]] = {
        name: [{"per second": figure, "p50 ms": figure} for figure in each] for name, each in figures.items()
    }
    return Rounds(samples)


def held() -> set[tuple[object, ...]]:
    return {
        (case.name, goal.contestant, goal.metric, goal.at_least, goal.at_most, goal.than)
        for case in CASES.values()
        if isinstance(case, Case)
        for goal in case.goals
        if isinstance(goal, Goal)
    }


def test_a_goal_is_met_or_missed_by_the_median_of_the_ratios() -> None:
    goal = Goal(contestant="ours", metric="per second", at_least=1.5, than="theirs")

    assert goal.verdict(rounds(ours=[20, 10, 16], theirs=[10, 10, 10])).endswith("1.60, met.")
    assert goal.verdict(rounds(ours=[14, 10, 16], theirs=[10, 10, 10])).endswith("1.40, **missed**.")


def test_a_goal_is_not_judged_by_a_contestant_that_failed() -> None:
    goal = Goal(contestant="ours", metric="per second", at_least=1.5, than="theirs")
    failed = rounds(ours=[20, 10])
    failed.samples["theirs"] = [{"per second": 1.0}, {}]

    assert "not judged, since theirs was not measured" in goal.verdict(failed)
    assert "not judged, since theirs was not measured" in goal.verdict(rounds(ours=[20, 10]))


def test_a_lead_is_over_the_best_of_the_others() -> None:
    lead = Lead(contestant="ours", metric="per second", others=("slow", "quick", "absent"))

    said = lead.verdict(rounds(ours=[12, 12], slow=[1, 1], quick=[10, 10]))
    missed = lead.verdict(rounds(ours=[9, 9], slow=[1, 1], quick=[10, 10]))

    assert said.endswith("1.20 times quick's, met.")
    assert missed.endswith("0.90 times quick's, **missed**.")


def test_of_milliseconds_less_is_better() -> None:
    lead = Lead(contestant="ours", metric="p50 ms", others=("slow", "quick"))

    assert lead.verdict(rounds(ours=[4], slow=[9], quick=[5])).endswith("0.80 times quick's, met.")
    assert lead.verdict(rounds(ours=[6], slow=[9], quick=[5])).endswith("1.20 times quick's, **missed**.")


def test_a_lead_over_nothing_measured_is_not_judged() -> None:
    lead = Lead(contestant="ours", metric="per second", others=("absent",))

    assert lead.verdict(rounds(ours=[1])).endswith("not judged, since none was measured.")


def test_the_cases_hold_what_was_asked_for() -> None:
    assert held() >= ASKED


@pytest.mark.parametrize(
    ("case", "peers"),
    [
        ("enqueue", PEERS),
        ("throughput-1", PEERS),
        ("throughput-2", PEERS_OF_MANY),
        ("idle-pickup", PEERS),
        ("tick-all-due", PEERS_WITH_SCHEDULES),
        ("pruning", PEERS_THAT_PRUNE),
    ],
)
def test_no_case_with_peers_is_without_the_goal_to_lead_them(case: str, peers: tuple[str, ...]) -> None:
    chosen = CASES[case]
    assert isinstance(chosen, Case)

    assert [goal.others for goal in chosen.goals if isinstance(goal, Lead)]
    assert all(goal.others == peers for goal in chosen.goals if isinstance(goal, Lead))
    assert set(peers) == {name for name in chosen.contestants if CONTESTANTS[name].environment}


def test_what_a_goal_names_takes_part_in_its_case() -> None:
    for case in CASES.values():
        if isinstance(case, Case):
            named = [
                name
                for goal in case.goals
                if isinstance(goal, Goal)
                for name in (goal.contestant, goal.than)
                if name is not None
            ]
            assert set(named) <= set(case.contestants), case.name


def test_a_floor_names_the_smallest_of_its_figures() -> None:
    floor = Floor(asked="all", held=(("ours", "per second"), ("theirs", "per second")), at_least=2)

    assert "**missed** in 1 of 2; the smallest is 1.00 (theirs" in floor.verdict(rounds(ours=[3], theirs=[1]))


@pytest.mark.parametrize("name", ["soak", "held-snapshot"])
def test_a_case_whose_size_is_a_time_lasts_as_long_as_asked(name: str) -> None:
    case = CASES[name]
    assert isinstance(case, Case)

    longer = case.lasting(3_600)

    assert (longer.full.size, longer.quick.size) == (3_600, 3_600)
    assert longer == dataclasses.replace(case, full=longer.full, quick=longer.quick)


def test_a_case_of_items_does_not_last_for_a_time() -> None:
    case = CASES["enqueue"]
    assert isinstance(case, Case)

    with pytest.raises(NotTimedError, match="enqueue"):
        case.lasting(3_600)
