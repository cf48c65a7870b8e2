"""Universe operators: Triton equal to the reference, each apart from the others, fingerprints that miss nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_layouts import layouts
from kernel_machine import Machine, triton_set

from stalerow.kernels.base.fingerprint import pages_fingerprint, values_fingerprint
from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.kernels.own.chosen import universe_operators
from stalerow.kernels.own.universes import NEVER, UNCHECKED, Moves, Universes
from stalerow.kernels.sets import kernel_set
from stalerow.simulator.truth.streams import extend, junk_hash

REFERENCE = kernel_set("reference:req-idx")
SIZE, UNIVERSES = 5, 3


@pytest.fixture(params=["reference", "triton"])
def kernels(request, device):
    return REFERENCE if request.param == "reference" else triton_set("req-idx", device)


def layout_of(conv_layout="SD") -> Layout:
    group = GroupSpec("recurrent", 4, (StateSpec("conv", 9), StateSpec("temporal", 11, 1)))
    return Layout(
        (group, GroupSpec("attention", 4)),
        2,
        SIZE * UNIVERSES,
        2,
        conv_layout=conv_layout,
        page_padding=3,
        base_offset=1,
    )


def test_prefix_hashes_end_in_the_junk_of_rejected_drafts(kernels):
    m = Machine(layout_of(), kernels)
    hashes = [7]
    for token in range(9):
        hashes.append(extend(hashes[-1], token))
    streams = np.zeros((2, 12), dtype=np.uint64)
    streams[1, :10] = hashes
    out = m.up(np.full((3, 12), 5), "int64")
    rows = (m.up(values, "int64") for values in ([1, -1, 1], [4, 0, 9], [3, 1, 2]))
    universe_operators(m.backend).prefix_hashes(m.up(streams.view(np.int64), "int64"), *rows, out)
    found = m.host(out).view(np.uint64)
    assert found[0].tolist()[:8] == hashes[:5] + [junk_hash(hashes[4], 3, j) for j in range(3)]
    assert (found[1] == 5).all()
    assert found[2].tolist()[:11] == [*hashes, junk_hash(hashes[9], 2, 0)]


@pytest.mark.parametrize("wrong", [None, (0, 6, 2), (1, 14, 0)])
def test_only_the_universe_that_differs_is_told(kernels, wrong):
    m = Machine(layout_of(), kernels)
    shadow = Machine(layout_of(), kernels)
    meant = np.random.default_rng(1).integers(0, 256, m.layout.pool_bytes, dtype=np.uint8)
    actual = meant.copy()
    if wrong is not None:
        m.pool.pages(actual)[wrong] ^= 1
    m.load({"pool": actual})
    # Block 14 is the last of a universe that uses four blocks: nothing may write there.
    told = None if wrong is None else wrong[1] // SIZE
    for already in (NEVER, 4):
        shadow.load({"pool": meant})
        verdicts, prints = m.up([NEVER, already, NEVER], "int32"), m.backend.alloc(UNIVERSES, "int64")
        universes = Universes(SIZE, m.up([SIZE, SIZE, SIZE - 1], "int32"), m.up([9, 9, 9], "int32"))
        universe_operators(m.backend).check_pages(universes, m.pool, shadow.pool, 8, 70, verdicts, prints)
        expected = [NEVER, already, NEVER]
        if told is not None:
            expected[told] = min(expected[told], 70)
        assert m.host(verdicts).tolist() == expected
    pages = m.pool.pages(m.pool_bytes())
    for universe, own in enumerate((SIZE, SIZE, SIZE - 1)):
        alone = pages[:, universe * SIZE : universe * SIZE + own]
        assert int(m.host(prints)[universe]) == pages_fingerprint(alone)


def test_a_universe_that_has_ended_is_left_alone(kernels):
    m, shadow = Machine(layout_of(), kernels), Machine(layout_of(), kernels)
    m.load({"pool": np.zeros(m.layout.pool_bytes, dtype=np.uint8)})
    shadow.load({"pool": np.ones(m.layout.pool_bytes, dtype=np.uint8)})
    verdicts = m.up([NEVER] * UNIVERSES, "int32")
    universes = Universes(SIZE, m.up([SIZE] * UNIVERSES, "int32"), m.up([8, 9, 8], "int32"))
    universe_operators(m.backend).check_pages(universes, m.pool, shadow.pool, 8, 70, verdicts, None)
    assert m.host(verdicts).tolist() == [NEVER, 70, NEVER]


@settings(max_examples=15)
@given(layouts(num_blocks=10), st.integers(0, 1 << 30))
def test_moves_equal_the_reference_byte_for_byte(device, layout, seed):
    rng = np.random.default_rng(seed)
    ours, spec = Machine(layout, triton_set("req-idx", device)), Machine(layout, REFERENCE)
    count = len(layout.recurrent_groups)
    # Every move has a source and a target of its own, now and then the same block.
    blocks = rng.permutation(9)[: 3 * min(count, 3)].reshape(-1, 3) + 1
    groups = np.arange(len(blocks)) % count
    bias = rng.integers(0, layout.num_drafts + 1, len(blocks))
    target = np.where(rng.random(len(blocks)) < 0.4, blocks[:, 0], blocks[:, 2])
    before = rng.integers(0, 256, layout.pool_bytes, dtype=np.uint8)
    for m in (ours, spec):
        m.load({"pool": before})
        moves = Moves(*(m.up(v, "int64") for v in (groups, blocks[:, 0], blocks[:, 1], target, bias)))
        universe_operators(m.backend).move_states(m.pool, moves)
    np.testing.assert_array_equal(ours.pool_bytes(), spec.pool_bytes())


@given(st.integers(0, 1), st.integers(0, 4), st.integers(0, 20), st.integers(1, 255))
def test_any_byte_but_the_null_blocks_changes_the_fingerprint(layer, block, byte, change):
    pages = np.random.default_rng(3).integers(0, 256, (2, 5, 21), dtype=np.uint8)
    before = pages_fingerprint(pages)
    pages[layer, block, byte] ^= np.uint8(change)
    assert (pages_fingerprint(pages) == before) == (block == 0)


def test_fingerprints_tell_places_apart():
    values = np.zeros((3, 4), dtype=np.int32)
    found = set()
    for slot in range(3):
        for position in range(4):
            values[...] = 0
            values[slot, position] = 1
            found |= {values_fingerprint(values, array) for array in range(5)}
    assert len(found) == 60


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_wrong_count_lowers_its_universes_verdict(kernels, count):
    m = Machine(layout_of(), kernels)
    rng = np.random.default_rng(count)
    held = rng.integers(0, 50, (count, 300))
    slot, universe = rng.permutation(300)[:200], np.sort(rng.integers(0, UNIVERSES, 200))
    expected = held[:, slot].copy()
    arrays = [m.up(array, "int32") for array in held]
    for wrong in range(-1, count):
        meant = expected.copy()
        meant[0, 3] = UNCHECKED
        if wrong >= 0:
            meant[wrong, 190] += 1
        verdicts = m.up([NEVER] * UNIVERSES, "int32")
        wanted = [NEVER] * UNIVERSES
        if wrong >= 0:
            wanted[universe[190]] = 41
        indices = m.up(slot, "int64"), m.up(meant, "int64"), m.up(universe, "int64")
        universe_operators(m.backend).check_counts(arrays, *indices, verdicts, 41)
        assert m.host(verdicts).tolist() == wanted


def test_damage_is_told_and_fingerprinted_universe_by_universe(kernels):
    m = Machine(layout_of(), kernels)
    damage = np.zeros((6, 700), dtype=np.int64)
    damage[3, 699] = 5
    weights = np.random.default_rng(0).integers(-(1 << 62), 1 << 62, (2, 700))
    verdicts, prints = m.up([NEVER, NEVER, 6], "int32"), m.backend.alloc(UNIVERSES, "int64", 9)
    universe_operators(m.backend).check_damage(m.up(damage, "int64"), m.up(weights, "int64"), verdicts, 15, prints)
    assert m.host(verdicts).tolist() == [NEVER, 15, 6]
    with np.errstate(over="ignore"):
        assert m.host(prints).tolist() == [0, int(weights[1, 699] * np.int64(5)), 0]
