"""Prefix identities: equal exactly where token prefixes are."""

from hypothesis import given
from hypothesis import strategies as st

from stalerow.simulator.engine.hashing import PrefixHasher
from stalerow.simulator.engine.request import Request, RequestOptions

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


def test_the_salt_tells_prefixes_of_equal_tokens_apart_from_the_first_block_on():
    hasher = PrefixHasher(4)
    requests = [
        Request(name, list(range(12)), 12, 1, options=RequestOptions(cache_salt=salt))
        for name, salt in (("a", ""), ("b", "x"), ("c", "x"))
    ]
    for request in requests:
        hasher.extend(request)
    plain, salted, same = (request.block_hashes for request in requests)
    assert salted == same
    assert not set(plain) & set(salted)
