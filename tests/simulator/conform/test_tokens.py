"""Token streams: the values that the recorder used."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalerow.simulator.conform.tokens import next_token, stream_token


def test_known_values():
    assert [stream_token(1, index) for index in range(4)] == [753, 743, 110, 190]
    assert next_token([10, 20, 30]) == 425


def test_the_eight_last_tokens_and_the_length_decide():
    tokens = list(range(20, 40))
    assert next_token(tokens) == next_token([1] * 12 + tokens[12:])
    assert next_token(tokens) != next_token(tokens[1:])


@pytest.mark.skipif(
    sys.implementation.name != "cpython" or sys.maxsize < 2**63 - 1, reason="the recorder ran on 64-bit CPython"
)
@given(st.lists(st.integers(0, 5000), min_size=1, max_size=20))
def test_the_written_out_hash_is_that_of_cpython(tokens):
    assert next_token(tokens) == 10 + hash((tuple(tokens[-8:]), len(tokens))) % 980
