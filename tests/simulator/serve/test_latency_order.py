"""The latency chooser, the cost model and the client's clock."""

from __future__ import annotations

import pytest

from stalerow.simulator.errors import UsageError
from stalerow.simulator.schedule.choosers.latency import EarliestFirst
from stalerow.simulator.serve.client import Client
from stalerow.simulator.serve.costs import Costs, with_changes
from stalerow.simulator.serve.workload import RandomDataset


def test_earliest_start_acts_first_and_ties_go_to_the_canonical_order() -> None:
    starts = {"device0": 20, "host0": 10, "engine": 10}
    order = EarliestFirst(starts)
    assert order.next(["device0", "host0", "engine"]) == 1
    starts["device0"] = 5
    assert order.next(["device0", "host0", "engine"]) == 0


def test_costs_are_changed_by_name() -> None:
    costs = with_changes(["token=7", "link=0"])
    assert costs == Costs(token=7, link=0)
    for change in ("token=x", "nothing=1", "copy_kib=0"):
        with pytest.raises(UsageError, match=change.partition("=")[0]):
            with_changes([change])


def test_client_keeps_so_many_requests_open() -> None:
    requests = RandomDataset(num_prompts=4).requests()
    client = Client(requests, 2, 500)
    assert [r.index for r in client.arrivals(10_000)] == [0, 1]
    assert client.next_arrival is None
    client.deliver("q1", 3, None, 20_000)
    assert client.next_arrival is None
    client.deliver("q1", 1, "length", 30_000)
    assert client.next_arrival == 30_500
    assert (client.records["q1"].first, client.records["q1"].last, client.records["q1"].tokens) == (20_000, 30_000, 4)
