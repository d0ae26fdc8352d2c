"""A start that the public functions reach only by chance."""

import numpy as np
from numpy.testing import assert_allclose

from fairanchor._kernels._transport import send_excess


def test_a_row_that_moves_on_goes_there_at_once():
    """By rounding errors the way round a third cluster was shorter, with next to no weight."""
    costs = np.array([
        0.0, 1.0029732666965174, 1.5349024784537177, 0.6570728880307755, 0.6678317788904253,
        0.503315678042148, 0.4637630670624162, 1.6205802433974354, 1.6281849289614065, 0.0,
        1.9153695741224868, 2.2777663989549017, 1.0097035117215662, 2.0667305532845166,
        3.0218114965219347, 0.8012932088468689,
    ])  # fmt: skip
    prices = np.array([
        0.604584535208863, 0.859800459997115, 0.38851170720940326, -0.13502430621070138,
        0.7961480877135267, 0.5786181338923586, 0.7249555720764179, 0.6477441988855664,
    ])  # fmt: skip
    totals = np.array([
        3.1154586824841308e-02, 8.44952620869031, 3.1462224277141503e-03, 201.60926484620208,
        1.0180982658959381e-06, 1.6505174498727872e-02, 1.9916657755529524e-05,
        7.5695735678343548e-02,
    ])  # fmt: skip
    weights = np.array([10.77833298556172, 199.40698072351637])
    load = np.zeros(8)
    load[[3, 1]] = weights
    weight_at, state = send_excess(
        np.array([0, 8, 16]), np.tile(np.arange(8), 2), costs, weights, np.array([3, 9]), load,
        totals, prices, 2.1e-7, 64,
    )  # fmt: skip
    assert state == 1
    assert_allclose(weight_at.reshape(2, 8).sum(axis=0), totals, atol=1e-6)
