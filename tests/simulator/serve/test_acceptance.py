"""Acceptance draws: the right shares, and nothing but request and position in them."""

from __future__ import annotations

import pytest

from stalerow.simulator.errors import UsageError
from stalerow.simulator.serve.acceptance import from_mean, from_rates

DRAWS = 4000


@pytest.mark.parametrize("length", [1.0, 1.73, 2.95, 4.45, 5.0])
def test_fitted_model_has_the_mean_length_that_was_asked_for(length: float) -> None:
    model = from_mean(length, 4)
    assert model.mean_length == pytest.approx(length, abs=1e-6)
    drawn = 1 + sum(model.draw(1, 0, i, 4) for i in range(DRAWS)) / DRAWS
    assert drawn == pytest.approx(length, abs=0.1)


def test_rates_are_shares_of_steps_that_accept_draft_i() -> None:
    model = from_rates([0.9, 0.5, 0.2], 3)
    draws = [model.draw(7, 3, i, 3) for i in range(DRAWS)]
    for i, rate in enumerate((0.9, 0.5, 0.2)):
        assert sum(d > i for d in draws) / DRAWS == pytest.approx(rate, abs=0.03)


def test_fewer_drafts_accept_no_more_than_there_are() -> None:
    assert from_mean(5, 4).draw(0, 0, 0, 2) == 2


def test_draws_are_stable() -> None:
    assert [from_mean(3, 4).draw(42, 5, i, 4) for i in range(8)] == [2, 4, 4, 0, 0, 3, 2, 2]


@pytest.mark.parametrize("rates", [[0.5], [0.5, 0.6], [1.2, 0.1]])
def test_rates_that_fit_no_model_are_refused(rates: list[float]) -> None:
    with pytest.raises(UsageError):
        from_rates(rates, 2)


def test_mean_outside_of_the_drafts_is_refused() -> None:
    with pytest.raises(UsageError, match="1 to 5"):
        from_mean(5.1, 4)
