"""Equal rows, found by hashing and confirmed by comparison."""

import numpy as np
from numba import njit

from fairanchor._kernels import LEAN

# Odd constants with well-spread bits (from the golden ratio and the square root of three).
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_MIXER = np.uint64(0xBB67AE8584CAA73B)
_SHIFT = np.uint64(32)
_SIGN_ONLY = np.uint64(1 << 63)


@njit(**LEAN)
def hash_rows(bits, group_codes, hashes):
    """Write a hash of each row's group and features, given as the bits of the doubles.

    Zero and minus zero are equal numbers, hence have the same hash.
    """
    for i in range(bits.shape[0]):
        row = bits[i]
        state = (np.uint64(group_codes[i]) + _MIXER) * _MULTIPLIER
        for j in range(row.shape[0]):
            word = row[j]
            if word == _SIGN_ONLY:
                word = np.uint64(0)
            state = (state ^ word) * _MULTIPLIER
            state ^= state >> _SHIFT
        state *= _MIXER
        hashes[i] = state ^ (state >> _SHIFT)


@njit(**LEAN)
def first_equal_hashes(hashes, members, first):
    """Write, for the rows of ``members``, the first of them with the same hash."""
    capacity = 4
    while capacity < 2 * members.shape[0]:
        capacity *= 2
    mask = np.uint64(capacity - 1)
    slots = np.full(capacity, -1, dtype=np.int64)
    slot_hashes = np.empty(capacity, dtype=np.uint64)
    for position in range(members.shape[0]):
        i = members[position]
        slot = hashes[i] & mask
        while slots[slot] >= 0 and slot_hashes[slot] != hashes[i]:
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            slots[slot] = i
            slot_hashes[slot] = hashes[i]
        first[i] = slots[slot]


@njit(**LEAN)
def confirm(X, group_codes, start, stop, first):
    """Rows that only share the hash of their first row become first rows themselves."""
    for i in range(start, stop):
        k = first[i]
        if k == i:
            continue
        own, other = X[i], X[k]
        n_different = group_codes[i] != group_codes[k]
        for j in range(own.shape[0]):
            n_different += own[j] != other[j]
        if n_different > 0:
            first[i] = i
