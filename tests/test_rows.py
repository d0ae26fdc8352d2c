"""Rows in memory: every row once, in blocks that no number of threads can change."""

import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from fairanchor.rows import BLOCK_ROWS, MemoryRows

SIZES = [1, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 3 * BLOCK_ROWS, 40 * BLOCK_ROWS + 17]


def make_rows(n_rows, *, n_features=3, weighted=False, n_jobs=None, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 2.0, size=n_rows) if weighted else None
    return MemoryRows(
        rng.normal(size=(n_rows, n_features)) * 10.0 ** rng.integers(-8, 8, size=(n_rows, 1)),
        rng.integers(3, size=n_rows),
        4,
        weights=weights,
        n_jobs=n_jobs,
    )


def moments(block):
    """Sums whose last bits depend on the order of the additions, and a matrix product."""
    return block.X.sum(axis=0), block.X.T @ block.X, np.bincount(block.group_codes, minlength=4)


@pytest.mark.parametrize("n_rows", SIZES)
def test_blocks_cover_every_row_once_and_in_order(n_rows):
    rows = make_rows(n_rows, weighted=True)
    seen = []
    lock = threading.Lock()

    def record(block):
        with lock:
            seen.append((block.start, block.stop))
        assert_array_equal(block.X, rows.X[block.start : block.stop])
        assert_array_equal(block.group_codes, rows.group_codes[block.start : block.stop])
        assert_array_equal(block.weights, rows.weights[block.start : block.stop])
        return (np.zeros(1),)

    rows.sum(record)
    starts = range(0, n_rows, BLOCK_ROWS)
    assert seen == [(start, min(start + BLOCK_ROWS, n_rows)) for start in starts]


@pytest.mark.parametrize("n_rows", SIZES)
def test_sums_have_the_same_bits_on_any_number_of_threads(n_rows):
    one, *others = (make_rows(n_rows, n_jobs=n_jobs).sum(moments) for n_jobs in (1, 2, 3, -1))
    for other in others:
        for expected, found in zip(one, other, strict=True):
            assert_array_equal(found, expected)


def test_sums_are_added_in_block_order_even_when_later_blocks_finish_first():
    n_blocks = 9
    rows = make_rows(n_blocks * BLOCK_ROWS, n_jobs=2)
    third_is_done = threading.Event()
    # Adding these in any other order gives another sum.
    terms = np.array([1.0, 1e-16, 1e-16, 1e16, -1e16, 3.0, 1e-16, 1.0, 1e-16])

    def late_second(block):
        number = block.start // BLOCK_ROWS
        if number == 0:
            time.sleep(0.01)  # long enough that the others are worth threads
        if number == 1:
            assert third_is_done.wait(timeout=30)
        if number == 2:
            third_is_done.set()
        return (terms[number],)

    expected = 0.0
    for term in terms:
        expected += term
    assert float(rows.sum(late_second)[0]) == expected


def test_sums_equal_those_over_all_rows_at_once():
    rows = make_rows(2 * BLOCK_ROWS + 5)
    total, gram, counts = rows.sum(moments)
    np.testing.assert_allclose(gram, rows.X.T @ rows.X, rtol=1e-10)
    np.testing.assert_allclose(total, rows.X.sum(axis=0), rtol=1e-8)
    assert_array_equal(counts, np.bincount(rows.group_codes, minlength=4))


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
@pytest.mark.parametrize("n_rows", SIZES)
def test_map_writes_every_row_of_every_output(n_rows, n_jobs):
    rows = make_rows(n_rows, n_jobs=n_jobs)
    doubled = np.full((n_rows, 3), np.nan)
    number = np.full(n_rows, -1)

    def kernel(block, doubled_rows, number_rows):
        doubled_rows[:] = 2 * block.X
        number_rows[:] = np.arange(block.start, block.stop)

    rows.map(kernel, [doubled, number])
    assert_array_equal(doubled, 2 * rows.X)
    assert_array_equal(number, np.arange(n_rows))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_a_kernel_reaches_the_caller(n_jobs):
    rows = make_rows(5 * BLOCK_ROWS, n_jobs=n_jobs)

    def fails_late(block):
        if block.start == 3 * BLOCK_ROWS:
            raise ZeroDivisionError("in block 3")
        return (np.zeros(1),)

    with pytest.raises(ZeroDivisionError, match="in block 3"):
        rows.sum(fails_late)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_blas_has_one_thread_during_a_sweep_and_its_own_number_after_it(n_jobs):
    def blas_threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    def spy(block):
        return (np.array(max(blas_threads())),)

    rows = make_rows(9 * BLOCK_ROWS, n_jobs=n_jobs)
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        assert rows.sum(spy)[0] == 9  # one thread in each of nine blocks
        assert blas_threads() == before


def test_groups_without_rows_and_weights_are_counted():
    rows = MemoryRows(np.zeros((3, 1)), np.array([0, 2, 2]), 4)
    assert_array_equal(rows.group_sizes, [1, 0, 2, 0])
    weighted = MemoryRows(np.zeros((3, 1)), np.array([0, 2, 2]), 4, weights=np.array([1, 0.5, 2]))
    assert_array_equal(weighted.group_sizes, [1, 0, 2.5, 0])


@pytest.mark.parametrize("weighted", [False, True])
def test_a_subset_has_the_chosen_rows_in_the_chosen_order(weighted):
    rows = make_rows(100, weighted=weighted, n_jobs=2)
    chosen = np.array([7, 3, 99, 3])
    part = rows.subset(chosen)
    assert (part.n_rows, part.n_features, part.n_groups, part.n_jobs) == (4, 3, 4, 2)
    assert_array_equal(part.X, rows.X[chosen])
    assert part.X.flags.c_contiguous
    assert_array_equal(part.group_codes, rows.group_codes[chosen])
    assert_array_equal(part.weights, rows.weights[chosen])
    assert part.is_weighted == weighted


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_subset_without_rows_can_be_swept(n_jobs):
    empty = make_rows(10, n_jobs=n_jobs).subset(np.array([], dtype=np.int64))
    written = np.empty((0, 3))
    empty.map(lambda block, out: out.fill(1.0), [written])
    assert_array_equal(empty.group_sizes, [0, 0, 0, 0])
