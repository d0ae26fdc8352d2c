"""Generators against the statistics of their definition, files against published counts."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import parquet
from scipy.special import expit, logit
from scipy.stats import multivariate_normal
from sklearn.cluster import KMeans

from fairanchor import datasets
from fairanchor.datasets import _generators, _public, _sources, make_fair_blobs, make_zafar
from fairanchor.metrics import (
    balance_score,
    clustering_accuracy_score,
    contingency_table,
    dataset_balance,
    mnce_score,
    nmi_score,
    relative_balance_score,
)

# Zafar, 200 features


@pytest.fixture(scope="module")
def zafar():
    """100,000 rows, as in the literature."""
    return make_zafar(random_state=0)


def test_zafar_has_the_shape_and_classes_of_its_definition(zafar):
    assert zafar.data.shape == (100_000, 200)
    assert zafar.data.dtype == np.float64
    assert len(zafar.feature_names) == 200
    assert (zafar.target == 1).sum() == 50_000
    assert set(np.unique(zafar.target)) == {-1, 1}
    assert set(np.unique(zafar.sensitive_features)) == {0, 1}


def test_zafar_groups_have_the_published_sizes(zafar):
    # 40,954 in one published draw. A draw has a standard deviation of 155 rows, the
    # difference of two draws 220.
    assert abs((zafar.sensitive_features == 0).sum() - 40_954) < 4 * 220
    assert_allclose(dataset_balance(zafar.sensitive_features), 0.694, atol=0.02)


def test_zafar_classes_have_the_published_balances(zafar):
    for label, published in ((1, 0.729), (-1, 0.660)):
        groups = zafar.sensitive_features[zafar.target == label]
        assert_allclose(dataset_balance(groups), published, atol=0.03)
    groups = {"sensitive_features": zafar.sensitive_features}
    assert_allclose(mnce_score(zafar.target, **groups), 0.993, atol=0.004)
    assert_allclose(balance_score(zafar.target, **groups), 0.66, atol=0.02)


def test_zafar_classes_are_found_by_kmeans(zafar):
    sample = slice(0, 20_000)
    labels = KMeans(2, n_init=1, random_state=0).fit_predict(zafar.data[sample])
    assert clustering_accuracy_score(zafar.target[sample], labels) > 0.997


@pytest.mark.parametrize(
    ("label", "mean", "covariance"),
    [
        (1, [1.2, 0.2], [[4.7068, 1.9612], [1.9612, 5.4913]]),
        (-1, [-0.2, -0.2], [[5.0, 1.0], [1.0, 3.0]]),
    ],
)
def test_zafar_pairs_have_the_moments_of_an_svd_sampler(zafar, label, mean, covariance):
    pairs = zafar.data[zafar.target == label].reshape(-1, 2)
    # Five million pairs: a standard error of 0.001 for means, 0.0035 for covariances.
    assert_allclose(pairs.mean(axis=0), mean, atol=0.006)
    assert_allclose(np.cov(pairs.T), covariance, atol=0.02)


def test_zafar_pairs_of_a_row_are_independent(zafar):
    rows = zafar.data[zafar.target == 1]
    correlation = np.corrcoef(rows[:, :8].T)
    between_pairs = np.kron(np.eye(4), np.ones((2, 2))) == 0
    assert np.abs(correlation[between_pairs]).max() < 0.025  # 5 standard errors


def zafar_probability(data, phi):
    """Probability of group 0, written out from the definition with SciPy's densities."""
    pattern = np.tile([np.cos(phi), -np.sin(phi), np.sin(phi), np.cos(phi)], 50)
    cosine = data @ pattern / (np.linalg.norm(data, axis=1) * np.linalg.norm(pattern))
    points = np.column_stack([cosine, cosine])
    positive = multivariate_normal([1.2, 0.2], [[5, 1], [1, 5]]).pdf(points)
    negative = multivariate_normal([-0.2, -0.2], [[5, 1], [1, 3]]).pdf(points)
    return positive / (positive + negative)


@pytest.mark.parametrize("phi", [np.pi / 4, np.pi / 8, 1.0])
def test_zafar_log_odds_are_those_of_the_definition(phi):
    target = np.repeat([1, -1], 200)
    data = np.random.default_rng(0).standard_normal((400, 200))
    log_odds = _generators._color_and_log_odds(data, target, phi)
    assert_allclose(log_odds, logit(zafar_probability(data, phi)), atol=1e-12)


def test_zafar_groups_are_drawn_with_the_probability_of_the_definition(zafar):
    probability = zafar_probability(zafar.data, np.pi / 4)
    _assert_calibrated(probability, zafar.sensitive_features == 0)


# Zafar, original


def test_original_zafar_has_the_published_shares_and_difficulty():
    original = make_zafar(variant="original", random_state=0)
    assert original.data.shape == (100_000, 2)
    assert (original.target == 1).sum() == 50_000
    # 54.2 % and 45.8 % in one published draw; the difference of two draws has a
    # standard deviation of 0.22 percentage points.
    shares = np.bincount(original.sensitive_features) / 100_000
    assert_allclose(shares, [0.542, 0.458], atol=4 * 0.0022)
    labels = KMeans(2, n_init=1, random_state=0).fit_predict(original.data)
    assert_allclose(clustering_accuracy_score(original.target, labels), 0.853, atol=0.006)


def original_zafar_probability(data, phi):
    """Probability of group 1, written out from the definition with SciPy's densities."""
    rotated = data @ [[np.cos(phi), -np.sin(phi)], [np.sin(phi), np.cos(phi)]]
    positive = multivariate_normal([2, 2], [[5, 1], [1, 5]]).pdf(rotated)
    negative = multivariate_normal([-2, -2], [[10, 1], [1, 3]]).pdf(rotated)
    return positive / (positive + negative)


@pytest.mark.parametrize("phi", [np.pi / 4, np.pi / 8, 1.0])
def test_original_zafar_log_odds_are_those_of_the_definition(phi):
    target = np.repeat([1, -1], 200)
    data = np.random.default_rng(0).standard_normal((400, 2))
    log_odds = _generators._color_and_log_odds(data, target, phi)
    assert_allclose(expit(log_odds), original_zafar_probability(data, phi), atol=1e-12)


def test_original_zafar_groups_are_drawn_with_the_probability_of_the_definition():
    original = make_zafar(50_000, variant="original", random_state=1)
    probability = original_zafar_probability(original.data, np.pi / 4)
    _assert_calibrated(probability, original.sensitive_features == 1)


def test_original_zafar_classes_have_the_written_moments():
    original = make_zafar(200_000, variant="original", random_state=2)
    for label, mean, covariance in ((1, 2, [[5, 1], [1, 5]]), (-1, -2, [[10, 1], [1, 3]])):
        rows = original.data[original.target == label]
        assert_allclose(rows.mean(axis=0), [mean, mean], atol=0.05)
        assert_allclose(np.cov(rows.T), covariance, atol=0.25)


def test_smaller_phi_correlates_groups_and_classes_more():
    def correlation(phi):
        bunch = make_zafar(20_000, variant="original", phi=phi, random_state=0)
        return np.corrcoef(bunch.target, bunch.sensitive_features)[0, 1]

    assert correlation(np.pi / 8) > correlation(np.pi / 4) + 0.1


# Both variants


@pytest.mark.parametrize("variant", ["features200", "original"])
def test_zafar_is_a_function_of_the_seed(variant):
    first = make_zafar(500, variant=variant, random_state=7)
    again = make_zafar(500, variant=variant, random_state=np.random.RandomState(7))
    other = make_zafar(500, variant=variant, random_state=8)
    for name in ("data", "target", "sensitive_features"):
        assert_array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name])


@pytest.mark.parametrize("variant", ["features200", "original"])
def test_unshuffled_zafar_has_class_1_first(variant):
    bunch = make_zafar(7, variant=variant, shuffle=False, random_state=0)
    assert_array_equal(bunch.target, [1, 1, 1, -1, -1, -1, -1])


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"n_samples": 1}, ValueError, "n_samples == 1, must be >= 2"),
        ({"n_samples": 2.5}, TypeError, "n_samples must be an instance of int"),
        ({"variant": "3d"}, ValueError, "variant='3d' should be one of .'features200', 'orig"),
        ({"phi": np.inf}, ValueError, "phi == inf, must be <="),
    ],
)
def test_bad_arguments_of_zafar_raise_errors(arguments, error, match):
    with pytest.raises(error, match=match):
        make_zafar(**{"n_samples": 10, **arguments})


# Blobs


@pytest.mark.parametrize("skew", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("shares", [(0.7, 0.3), (5, 3, 1, 1), (1,)])
def test_blobs_have_exact_group_sizes_and_equal_clusters(shares, skew):
    blobs = make_fair_blobs(1000, centers=4, group_shares=shares, skew=skew, random_state=0)
    table = contingency_table(blobs.target, sensitive_features=blobs.sensitive_features)
    assert_array_equal(table.sum(axis=0), 1000 * np.array(shares) / sum(shares))
    assert np.abs(table.sum(axis=1) - 250).max() <= len(shares)


def test_blobs_without_skew_are_proportional_and_with_it_less_and_less():
    relative = []
    for skew in (0.0, 0.25, 0.5, 0.75, 1.0):
        blobs = make_fair_blobs(1200, group_shares=(3, 1), skew=skew, random_state=0)
        groups = {"sensitive_features": blobs.sensitive_features}
        relative.append(relative_balance_score(blobs.target, **groups))
    assert relative[0] == 1.0
    assert (np.diff(relative) < -0.1).all()
    assert relative[-1] == 0.0


def test_fully_skewed_blobs_with_as_many_equal_groups_as_clusters_are_pure():
    blobs = make_fair_blobs(90, centers=3, group_shares=(1, 1, 1), skew=1, random_state=0)
    assert_array_equal(blobs.target, blobs.sensitive_features)


def test_blobs_lie_around_their_centers():
    centers = [[0.0, 0.0, 50.0], [50.0, 0.0, 0.0]]
    blobs = make_fair_blobs(5000, centers=centers, cluster_std=2.0, random_state=0)
    assert blobs.data.shape == (5000, 3)
    assert_array_equal(blobs.centers, centers)
    assert blobs.n_clusters == 2
    residual = blobs.data - blobs.centers[blobs.target]
    assert_allclose(residual.mean(axis=0), 0, atol=5 * 2 / np.sqrt(5000))
    assert_allclose(residual.std(axis=0), 2, rtol=0.05)


def test_blobs_take_the_names_of_a_mapping():
    shares = {"north": 2, ("south", 1): 1, None: 1}
    blobs = make_fair_blobs(8, group_shares=shares, random_state=0)
    found = blobs.sensitive_features.tolist()
    assert [found.count(name) for name in shares] == [4, 2, 2]


def test_blobs_are_a_function_of_the_seed():
    first, again, other = (make_fair_blobs(50, random_state=seed) for seed in (3, 3, 4))
    for name in ("data", "target", "sensitive_features"):
        assert_array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name])


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"n_samples": 0}, ValueError, "n_samples == 0, must be >= 1"),
        ({"n_features": 0}, ValueError, "n_features == 0, must be >= 1"),
        ({"centers": 0}, ValueError, "centers == 0, must be >= 1"),
        ({"centers": [[np.nan]]}, ValueError, "centers contains NaN"),
        ({"skew": 1.5}, ValueError, "skew == 1.5, must be <= 1"),
        ({"cluster_std": -1}, ValueError, "cluster_std == -1, must be >= 0"),
        ({"cluster_std": np.inf}, ValueError, "cluster_std == inf, must be <="),
        ({"group_shares": ()}, ValueError, "one positive number per group"),
        ({"group_shares": {"a": 1, "b": 0}}, ValueError, "share of zero has no rows"),
        ({"center_box": (1, 0)}, ValueError, "low <= high"),
    ],
)
def test_bad_arguments_of_blobs_raise_errors(arguments, error, match):
    with pytest.raises(error, match=match):
        make_fair_blobs(**arguments)


# Public tables on disk


@pytest.mark.parametrize(
    ("name", "shape", "n_clusters", "groups", "classes"),
    [
        (
            "law_school",
            (18_692, 10),
            2,
            {1: 10_550, 0: 8_142},
            {1: 16_856, 0: 1_836},
        ),
        (
            "credit_card",
            (29_537, 22),
            5,
            {2: 17_891, 1: 11_646},
            {-2: 2_759, -1: 5_686, 0: 14_737, 1: 3_688, 2: 2_667},
        ),
        (
            "bank_marketing",
            (41_108, 10),
            2,
            {"married": 24_928, "single": 11_568, "divorced": 4_612},
            {"no": 36_480, "yes": 4_628},
        ),
        (
            "kdd_census_income",
            (299_285, 7),
            2,
            {"Female": 155_775, "Male": 143_510},
            {"-50000": 280_717, "50000+": 18_568},
        ),
    ],
)
def test_public_tables_have_the_published_counts(
    data_dir, name, shape, n_clusters, groups, classes
):
    bunch = getattr(datasets, f"load_{name}")(data_dir)
    assert bunch.data.shape == shape
    assert bunch.data.dtype == np.float64
    assert len(bunch.feature_names) == shape[1]
    assert bunch.n_clusters == n_clusters == len(classes)
    assert _counts(bunch.sensitive_features) == groups
    assert _counts(bunch.target) == classes
    assert bunch.DESCR


def test_features_are_neither_sensitive_nor_target_nor_an_identifier(data_dir):
    bunch = datasets.load_credit_card(data_dir)
    assert not {"ID", "SEX", "PAY_0"} & set(bunch.feature_names)
    assert "default payment next month" in bunch.feature_names
    by_race = datasets.load_law_school(data_dir, sensitive="racetxt")
    assert "racetxt" not in by_race.feature_names
    assert _counts(by_race.sensitive_features) == {1: 17_491, 0: 1_201}


def test_several_sensitive_columns_are_kept_side_by_side(data_dir):
    both = datasets.load_kdd_census_income(data_dir, sensitive=["sex", "race"])
    assert both.sensitive_features.shape == (299_285, 2)
    assert _counts(both.sensitive_features[:, 1]) == {
        "White": 250_978,
        "Black": 30_539,
        "Asian or Pacific Islander": 8_748,
        "Other": 5_560,
        "Amer Indian Aleut or Eskimo": 3_460,
    }


def test_file_and_directory_give_the_same_table(data_dir):
    from_folder = datasets.load_law_school(data_dir)
    from_file = datasets.load_law_school(str(data_dir / "law_school.parquet"))
    assert_array_equal(from_folder.data, from_file.data)


@pytest.mark.parametrize(
    ("name", "column", "dropped"),
    [
        ("credit_card", "PAY_0", [3, 4, 5, 6, 7, 8]),
        ("bank_marketing", "marital", ["unknown"]),
    ],
)
def test_rows_that_the_publication_drops_are_dropped(data_dir, tmp_path, name, column, dropped):
    kept = parquet.read_table(data_dir / f"{name}.parquet")
    values = pa.array(dropped, type=kept.schema.field(column).type)
    extra = kept.slice(0, len(dropped))
    extra = extra.set_column(extra.schema.get_field_index(column), column, values)
    parquet.write_table(pa.concat_tables([extra, kept]), tmp_path / f"{name}.parquet")

    load = getattr(datasets, f"load_{name}")
    assert_array_equal(load(tmp_path).data, load(data_dir).data)


def test_fixtures_are_standardised_with_the_largest_group_first(law_school, bank_marketing):
    for table in (law_school, bank_marketing):
        assert_allclose(table.X.mean(axis=0), 0, atol=1e-9)
        assert_allclose(table.X.std(axis=0), 1, atol=1e-9)
        assert_array_equal(np.bincount(table.codes), table.group_sizes)
        assert (np.diff(table.group_sizes) <= 0).all()
    assert_array_equal(bank_marketing.group_sizes, [24_928, 11_568, 4_612])


def test_kmeans_on_bank_marketing_reaches_the_reference_values(bank_marketing):
    labels = KMeans(2, n_init=5, random_state=0).fit_predict(bank_marketing.X)
    groups = {"sensitive_features": bank_marketing.sensitive_features}
    assert_allclose(
        [
            clustering_accuracy_score(bank_marketing.target, labels),
            nmi_score(bank_marketing.target, labels),
            balance_score(labels, **groups),
            mnce_score(labels, **groups),
        ],
        [0.719, 0.063, 0.184, 0.976],
        atol=0.0015,
    )


# Without the files: small tables written on the spot


@pytest.fixture
def small_source():
    return _sources.Source(
        name="small",
        features=("a", "b"),
        target="y",
        sensitive="s",
        n_clusters=2,
        group_sizes={"m": 2, "f": 1},
        n_rows=3,
        keep=lambda table: pc.less_equal(table["a"], 2),
        description="small",
    )


@pytest.fixture
def small_table():
    return pa.table(
        {
            "a": pa.array([1, 2, 3, 0], pa.int8()),
            "b": pa.array([0.5, 1.5, 2.5, 3.5], pa.float32()),
            "text": ["p", "q", "r", "s"],
            "incomplete": [0.5, None, 2.5, 3.5],
            "y": pa.array([0, 1, 0, 1], pa.int8()),
            "s": ["m", "m", "m", "f"],
        }
    )


def test_row_filter_is_applied_and_may_have_been_applied_before(small_source, small_table):
    expected = [[1, 0.5], [2, 1.5], [0, 3.5]]
    bunch = _public.make_bunch(small_source, small_table, "here")
    assert_array_equal(bunch.data, expected)
    assert bunch.target.tolist() == [0, 1, 1]
    assert bunch.target.dtype == np.int64
    assert bunch.sensitive_features.tolist() == ["m", "m", "f"]
    filtered = small_table.take([0, 1, 3])
    assert_array_equal(_public.make_bunch(small_source, filtered, "here").data, expected)


def test_another_table_raises_an_error_with_both_counts(small_source, small_table):
    with pytest.raises(ValueError, match="should have 3 rows after the row filter.*has 2 rows"):
        _public.make_bunch(small_source, small_table.slice(0, 2), "here")


@pytest.mark.parametrize(
    ("features", "sensitive", "match"),
    [
        (["text"], None, "column 'text' of small has text"),
        (["incomplete"], None, "column 'incomplete' of small has text or missing"),
        (["c"], None, r"here has no column \['c'\]"),
        (["a"], "d", r"here has no column \['d'\]"),
        (["a"], [], "sensitive is empty"),
    ],
)
def test_columns_that_cannot_be_used_raise_errors(
    small_source, small_table, features, sensitive, match
):
    source = replace(small_source, features=features)
    with pytest.raises(ValueError, match=match):
        _public.make_bunch(source, small_table, "here", sensitive)


def test_absent_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"law_school\.parquet: path should be"):
        datasets.load_law_school(tmp_path)


@pytest.mark.slow
def test_the_census_like_table_is_full_of_equal_rows():
    """As the real one: of 199 people 10 to 34 equal an earlier one in 25 columns."""
    for seed in range(4):
        data = datasets.make_census(20_000, random_state=seed).data
        assert data.shape == (20_000, 25)
        assert_array_equal(data, np.rint(data))
        assert 0 <= data.min() <= data.max() <= 12
        n_equal = [
            199 - len(np.unique(part, axis=0)) for part in data[: 199 * 20].reshape(20, 199, -1)
        ]
        assert 10 <= np.mean(n_equal) <= 45
        assert 0.3 <= len(np.unique(data, axis=0)) / len(data) <= 0.8


def test_the_census_like_table_is_reproducible_and_has_two_groups_and_five_classes():
    one, two = (datasets.make_census(500, n_features=4, random_state=3) for _ in range(2))
    assert_array_equal(one.data, two.data)
    assert_array_equal(one.target, two.target)
    assert set(one.sensitive_features) == {0, 1}
    assert set(datasets.make_census(5000, random_state=0).target) == set(range(5))
    longer = datasets.make_census(900, n_features=4, random_state=3)
    assert_array_equal(longer.data[:500], one.data)


def _counts(values):
    found, counts = np.unique(values, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def _assert_calibrated(probability, happened):
    """Rows of similar probability must have drawn the event about that often."""
    for rows in np.array_split(np.argsort(probability), 20):
        variance = (probability[rows] * (1 - probability[rows])).sum()
        excess = happened[rows].sum() - probability[rows].sum()
        assert abs(excess) < 5 * np.sqrt(variance)
