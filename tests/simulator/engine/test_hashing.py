"""Prefix identities: equal exactly where token prefixes are."""

from hypothesis import given
from hypothesis import strategies as st

from stalerow.simulator.engine.hashing import PrefixHasher
from stalerow.simulator.engine.request import Request

TOKENS = st.lists(st.integers(0, 2), max_size=14)


def identities(hasher: PrefixHasher, tokens: list[int]) -> list[int]:
    request = Request("r", list(tokens), len(tokens), 1)
    hasher.extend(request)
    return request.block_hashes


@given(TOKENS, TOKENS, st.integers(1, 4), st.integers(0, 2))
def test_two_prefixes_share_an_identity_exactly_if_their_tokens_are_the_same(one, other, size, lookahead):
    hasher = PrefixHasher(size, lookahead)
    pairs = zip(identities(hasher, one), identities(hasher, other))
    for index, (left, right) in enumerate(pairs):
        covered = (index + 1) * size + lookahead
        assert (left == right) == (one[:covered] == other[:covered])


@given(TOKENS, st.integers(1, 4), st.integers(0, 2), st.integers(0, 14))
def test_tokens_in_two_portions_give_the_same_identities(tokens, size, lookahead, cut):
    hasher = PrefixHasher(size, lookahead)
    request = Request("r", tokens[:cut], cut, 1)
    hasher.extend(request)
    request.token_ids.extend(tokens[cut:])
    hasher.extend(request)
    assert request.block_hashes == identities(hasher, tokens)


def test_a_block_is_identified_only_once_its_lookahead_exists():
    assert len(identities(PrefixHasher(4), [1] * 8)) == 2
    assert len(identities(PrefixHasher(4, lookahead=1), [1] * 8)) == 1
    assert len(identities(PrefixHasher(4, lookahead=1), [1] * 9)) == 2
