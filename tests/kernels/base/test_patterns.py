"""Patterns: bytes say whose they are, and any other byte shows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stalerow.kernels.base.patterns import decode, mix64, mix64_int, pattern, salt, signed, torn

keys = st.integers(-(1 << 63), (1 << 63) - 1)


@given(x=keys)
def test_both_mixers_agree(x):
    mixed = mix64(np.array([x], dtype=np.int64).view(np.uint64))
    assert mixed.view(np.int64)[0] == mix64_int(x)


def test_the_mixer_is_splitmix64():
    """First output of splitmix64 for seed 0, as published with the generator."""
    assert mix64_int(0x9E3779B97F4A7C15) & (1 << 64) - 1 == 0xE220A8397B1DCDAF


@given(hash_=keys, num_bytes=st.integers(8, 40), damage=st.integers(0, 1 << 64))
def test_a_row_decodes_to_its_hash_and_damage(hash_, num_bytes, damage):
    key = salt(2, 1, 0)
    row = pattern(np.array(signed(hash_ + damage) ^ key), num_bytes)
    assert decode(row, key) == (signed(hash_ + damage), 0)


@given(key=keys, num_bytes=st.integers(9, 40), data=st.data())
def test_a_flipped_byte_past_the_key_tears_the_row(key, num_bytes, data):
    row = pattern(np.array(key), num_bytes)
    assert torn(row, np.array(key)) == 0
    row[data.draw(st.integers(8, num_bytes - 1))] ^= data.draw(st.integers(1, 255))
    assert torn(row, np.array(key)) != 0
    assert decode(row, 0) == (key, 1)


def test_salts_tell_states_apart():
    found = {salt(g, layer, s) for g in range(4) for layer in range(4) for s in range(4)}
    assert len(found) == 64
