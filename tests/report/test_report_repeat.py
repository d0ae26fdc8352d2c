"""How to repeat a run: warnings, parameters and rows that were left out are in the report."""

import numpy as np

from fairanchor import FairKMeans
from fairanchor.report import render_report, summarise_labels, summarise_run


def test_warnings_rows_left_out_and_all_parameters_are_in_the_report():
    rows, groups = np.random.default_rng(0).normal(size=(80, 3)), np.arange(80) % 2
    model = FairKMeans(2, random_state=5).fit(rows, sensitive_features=groups)
    run = summarise_run(model, rows, sensitive_features=groups)
    run.warnings, run.n_rows_left_out = ["Beware."], 2
    html = render_report(run)
    assert "Left out: 2 of 82 rows, those with missing values" in html
    assert '<a href="#warnings">see below</a>' in html
    assert "<li>Beware.</li>" in html
    for name in FairKMeans().get_params():
        assert f'<th scope="row">{name}</th>' in html
    assert '<th scope="row">compared with</th>' in html


def test_a_run_without_warnings_says_so_and_one_that_knows_none_does_not():
    text = "The run raised no warning."
    run = summarise_labels([0, 0, 1], sensitive_features=["a", "b", "a"])
    assert text not in render_report(run)
    run.warnings = []
    assert text in render_report(run)
