"""Sensitive columns of new rows are matched with those of the fit: by name, or by position."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from numpy.testing import assert_array_equal
from pyarrow import parquet
from sklearn.base import clone

from fairanchor import (
    AnchorFairClustering,
    FairKMeans,
    FairnessWarning,
    FairSpectralClustering,
    load_model,
)
from fairanchor.metrics import balance_score
from fairanchor.report import summarise_run

N = 900
RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame(
    {
        "smoker": RNG.choice(["yes", "no"], N, p=[0.2, 0.8]),
        "insured": RNG.choice(["yes", "no"], N, p=[0.7, 0.3]),
    }
)
# Groups are so far apart that their prices differ.
X = RNG.normal(size=(N, 2)) + 1.5 * (PEOPLE == "yes").to_numpy()
SWAPPED = PEOPLE[["insured", "smoker"]]
MODELS = [
    (estimator, attributes)
    for estimator in (AnchorFairClustering, FairKMeans)
    for attributes in ("intersection", "separate")
]


def fitted(estimator=AnchorFairClustering, groups=PEOPLE, **parameters):
    return estimator(3, random_state=0, **parameters).fit(X, sensitive_features=groups)


@pytest.fixture(scope="module", params=MODELS, ids=lambda pair: f"{pair[0].__name__}-{pair[1]}")
def model(request):
    estimator, attributes = request.param
    return fitted(estimator, attributes=attributes)


@pytest.fixture(scope="module")
def blind():
    return fitted(unknown_groups="blind")


KINDS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": pa.Table.from_pandas,
    "pyarrow batch": pa.RecordBatch.from_pandas,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_columns_with_titles_does_not_matter(model, kind):
    expected = model.predict(X, sensitive_features=PEOPLE)
    # Without titles the order does matter, so that this test can fail.
    assert (model.predict(X, sensitive_features=SWAPPED.to_numpy()) != expected).mean() > 0.02
    assert_array_equal(model.predict(X, sensitive_features=KINDS[kind](SWAPPED)), expected)
    assert model.score(X, sensitive_features=KINDS[kind](SWAPPED)) == model.score(
        X, sensitive_features=PEOPLE
    )


def test_a_fit_by_any_library_keeps_the_titles():
    for convert in KINDS.values():
        model = fitted(FairKMeans, convert(PEOPLE))
        assert model.sensitive_names_in_.tolist() == ["smoker", "insured"]
        expected = model.predict(X, sensitive_features=PEOPLE)
        assert_array_equal(model.predict(X, sensitive_features=SWAPPED), expected)


def test_memberships_and_anchor_weights_go_by_title():
    model = fitted()
    for method in (model.predict_proba, model.transform):
        expected, found = (method(X[:50], sensitive_features=g[:50]) for g in (PEOPLE, SWAPPED))
        difference = found - expected
        assert abs(difference).max() == 0


def test_columns_without_titles_go_by_position(model):
    expected = model.predict(X, sensitive_features=PEOPLE)
    for plain in (PEOPLE.to_numpy(), PEOPLE.to_numpy().tolist(), pd.DataFrame(PEOPLE.to_numpy())):
        assert_array_equal(model.predict(X, sensitive_features=plain), expected)


@pytest.mark.parametrize(
    "groups",
    [
        PEOPLE.to_numpy(),
        pd.DataFrame(PEOPLE.to_numpy()),
        PEOPLE.set_axis(["same", "same"], axis=1),
        PEOPLE["smoker"],
        None,
    ],
    ids=["array", "numbered", "equal titles", "series", "none"],
)
@pytest.mark.filterwarnings("ignore::fairanchor.exceptions.FairnessWarning")
def test_titles_that_tell_nothing_are_not_kept(groups):
    model = fitted(FairKMeans)
    assert hasattr(model, "sensitive_names_in_")
    model.fit(X, sensitive_features=groups)
    assert not hasattr(model, "sensitive_names_in_")


WRONG_TITLES = {
    "renamed": (PEOPLE.rename(columns={"smoker": "smokes"}), r"missing \['smoker'\], not seen"),
    "fewer": (PEOPLE[["insured"]], r"\['insured'\], expected .*'smoker', 'insured'.*missing"),
    "more": (PEOPLE.assign(age=1), r"not seen in fit \['age'\]"),
    "twice": (
        pd.concat([PEOPLE, PEOPLE["smoker"]], axis=1),
        r"given more than once \['smoker'\]",
    ),
}


@pytest.mark.parametrize("case", WRONG_TITLES)
def test_other_titles_raise_with_both_lists(model, blind, case):
    groups, message = WRONG_TITLES[case]
    for estimator in (model, blind):
        with pytest.raises(ValueError, match=message):
            estimator.predict(X, sensitive_features=groups)


def test_the_name_of_a_series_is_an_accident():
    model = fitted(FairKMeans, PEOPLE[["smoker"]])
    expected = model.predict(X, sensitive_features=PEOPLE[["smoker"]])
    renamed = PEOPLE["smoker"].rename("other")
    for series in (renamed, pl.Series("x", renamed.tolist())):
        assert_array_equal(model.predict(X, sensitive_features=series), expected)
    with pytest.raises(ValueError, match=r"expected those of fit, \['smoker'\]"):
        model.predict(X, sensitive_features=renamed.to_frame())


def test_a_model_file_keeps_the_titles(tmp_path):
    model = fitted(attributes="separate")
    model.save(tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    assert_array_equal(loaded.sensitive_names_in_, model.sensitive_names_in_)
    expected = model.predict(X, sensitive_features=PEOPLE)
    assert_array_equal(loaded.predict(X, sensitive_features=SWAPPED), expected)
    with pytest.raises(ValueError, match="not seen in fit"):
        loaded.predict(X, sensitive_features=WRONG_TITLES["renamed"][0])


@pytest.mark.parametrize("attributes", ["intersection", "separate"])
def test_columns_of_a_dataset_are_known_by_their_names(tmp_path, attributes):
    table = pa.Table.from_pandas(pd.DataFrame(X, columns=["x", "y"]).join(PEOPLE))
    parquet.write_table(table, tmp_path / "people.parquet")
    model = AnchorFairClustering(3, attributes=attributes, random_state=0)
    names = ["insured", "smoker"]
    model.fit(ds.dataset(tmp_path / "people.parquet"), sensitive_features=names)
    assert model.sensitive_names_in_.tolist() == names
    in_memory = fitted(groups=SWAPPED, attributes=attributes)
    assert_array_equal(model.labels_, in_memory.labels_)
    if attributes == "separate":
        assert list(model.attribute_counts_) == names
    rows = pd.DataFrame(X, columns=["x", "y"])
    expected = in_memory.predict(X, sensitive_features=SWAPPED)
    assert_array_equal(model.predict(rows, sensitive_features=PEOPLE), expected)


def test_a_report_pairs_columns_by_title():
    model = fitted(FairKMeans)
    runs = [
        summarise_run(model, X, sensitive_features=groups, plain_labels=None)
        for groups in (PEOPLE, SWAPPED)
    ]
    assert_array_equal(runs[1].group_codes, runs[0].group_codes)


# The number of columns, which blind prediction must not hide


@pytest.mark.parametrize("n_columns", [1, 3])
def test_another_number_of_columns_raises_also_for_blind_prediction(model, blind, n_columns):
    groups = np.repeat(PEOPLE.to_numpy()[:, :1], n_columns, axis=1)
    for estimator in (model, blind):
        with pytest.raises(ValueError, match=rf"has {n_columns} column\(s\), expected the 2 of"):
            estimator.predict(X, sensitive_features=groups)


def test_a_column_of_combinations_stands_for_the_columns(blind):
    combinations = np.empty(N, dtype=object)
    combinations[:] = list(map(tuple, PEOPLE.to_numpy()))
    expected = blind.predict(X, sensitive_features=PEOPLE)
    assert_array_equal(blind.predict(X, sensitive_features=combinations), expected)


def test_blind_prediction_is_for_unknown_values_and_for_none(blind):
    unknown = np.full((N, 2), "?")
    missing = np.full((N, 2), None)
    expected = blind.predict(X)
    for groups in (unknown, missing, [None] * N):
        assert_array_equal(blind.predict(X, sensitive_features=groups), expected)
    with pytest.raises(ValueError, match="has 1 column"):
        blind.predict(X, sensitive_features=[None] + ["yes"] * (N - 1))


# What is said about groups that are not known


@pytest.mark.parametrize("estimator", [AnchorFairClustering, FairKMeans])
def test_rows_without_groups_raise_with_the_parameter_that_allows_them(estimator):
    model = fitted(estimator)
    with pytest.raises(ValueError, match="sensitive_features.*unknown_groups='blind'"):
        model.predict(X)
    assert len(model.set_params(unknown_groups="blind").predict(X)) == N


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [AnchorFairClustering, FairKMeans])
def test_an_unknown_value_of_a_separate_attribute_is_named_beside_the_known_ones(estimator):
    model = fitted(estimator, attributes="separate")
    new = PEOPLE.copy()
    new.loc[:6, "insured"] = "maybe"
    with pytest.raises(ValueError, match=r"has not seen: .*'maybe'.* \(\d rows\).*"
                       r"Known groups: .*insured \['no', 'yes'\]\."):  # fmt: skip
        model.predict(X, sensitive_features=new)


# Names and orders that would be mistaken

ALL_ESTIMATORS = [FairKMeans(2, random_state=0), FairSpectralClustering(2, random_state=0)]


@pytest.mark.parametrize("estimator", ALL_ESTIMATORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_names_of_columns_raise_with_what_to_pass(estimator, make):
    people = make({"sex": ["f", "m"] * 20, "race": ["a", "a", "b", "b"] * 10, "x": list(range(40))})
    for names in ("sex", ["sex", "race"]):
        with pytest.raises(ValueError, match="names columns, expected the group of each"):
            clone(estimator).fit(people, sensitive_features=names)
    with pytest.raises(ValueError, match="X has text in column 'sex': could not convert string"):
        clone(estimator).fit(people, sensitive_features=people["sex"])


@pytest.mark.parametrize("estimator", ALL_ESTIMATORS, ids=lambda e: type(e).__name__)
def test_rows_in_another_order_raise(estimator):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40, 2)), columns=["x", "y"])
    sex = pd.Series(["f", "m"] * 20)
    shuffled = sex.sample(frac=1, random_state=0)
    with pytest.raises(ValueError, match=r"in another order .*sensitive_features.loc\[X.index\]"):
        clone(estimator).fit(X, sensitive_features=shuffled)
    fitted = clone(estimator).fit(X, sensitive_features=shuffled.loc[X.index])
    assert_array_equal(fitted.labels_, clone(estimator).fit(X, sensitive_features=sex).labels_)
    clone(estimator).fit(X.iloc[::2], sensitive_features=sex[:20])  # no order of the same rows
    if hasattr(fitted, "predict"):
        with pytest.raises(ValueError, match="in another order"):
            fitted.predict(X, sensitive_features=shuffled.to_frame())
    with pytest.raises(ValueError, match="labels and sensitive_features have the same index"):
        balance_score(pd.Series(fitted.labels_), sensitive_features=shuffled)


def test_warnings_point_to_the_line_of_the_user():
    X = np.random.default_rng(0).normal(size=(40, 2))
    for estimator in (*ALL_ESTIMATORS, AnchorFairClustering(2, random_state=0)):
        with pytest.warns(FairnessWarning, match="sensitive_features is None") as caught:
            clone(estimator).fit(X)
        assert {warning.filename for warning in caught} == {__file__}
