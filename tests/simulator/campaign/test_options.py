"""Which draws a campaign is asked for."""

import pytest

from stalerow.simulator.campaign.options import Options
from stalerow.simulator.schedule.draw import SEEDS, Draw
from stalerow.simulator.subject.subject import Subject


def seeds(**options) -> list[int]:
    return [draw.seed for draw in Options(Subject(), **options).draws()]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"draw": Draw(5), "runs": 3}, [5, 6, 7]),
        ({"draw": Draw(5), "runs": 7, "shard": (2, 3)}, [6, 9]),
        ({"draw": Draw(5), "runs": 2, "seeds": (9, 1)}, [9, 1]),
        ({"seeds": (9, 1, 4), "shard": (1, 2)}, [9, 4]),
        ({"draw": Draw(SEEDS - 2), "runs": 10}, [SEEDS - 2, SEEDS - 1]),
    ],
    ids=["a range", "a shard of it", "a list", "a shard of a list", "the last seeds"],
)
def test_seeds_in_the_order_asked_for(options, expected):
    assert seeds(**options) == expected


def test_all_else_of_the_first_draw_is_kept():
    draw = Draw(3, pp=2, runner="v1", faithful=True)
    made = [*Options(Subject(), draw, runs=2).draws()]
    assert made == [draw, Draw(4, pp=2, runner="v1", faithful=True)]


def test_without_a_number_of_runs_it_goes_on():
    draws = Options(Subject()).draws()
    assert [next(draws).seed for _ in range(4)] == [0, 1, 2, 3]
