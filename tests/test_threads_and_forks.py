"""Fits in several threads and processes at once: the same labels, and nothing left changed."""

import multiprocessing
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from joblib import Parallel, delayed
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info, threadpool_limits

from every_clusterer import clusterers
from fairanchor import AnchorFairClustering, FairKMeans
from fairanchor._utils._shared_state import SharedContext, equal_centers_allowed
from fairanchor.datasets import make_fair_blobs
from tiers import first_is_fast

DATA = make_fair_blobs(9_000, n_features=6, centers=3, group_shares=(0.5, 0.3, 0.2), random_state=0)
X, GROUPS = DATA.data, DATA.sensitive_features
SMALL = slice(0, 150)
ESTIMATORS = {
    "framework": (AnchorFairClustering(3, random_state=0, n_jobs=2), slice(None)),
    "fair k-means": (FairKMeans(3, random_state=0, n_jobs=2), slice(None)),
    "spectral anchors": (AnchorFairClustering(3, clusterer="spfc", random_state=0), slice(None)),
    # PyTorch's own threads do not survive a fork.
    **{
        name: (estimator, SMALL)
        for name, estimator in clusterers(large_scale=False, n_clusters=3, random_state=0).items()
        if name != "DeepFairClustering"
    },
}


def labels_of(name):
    estimator, span = ESTIMATORS[name]
    return type(estimator)(**estimator.get_params()).fit_predict(
        X[span], sensitive_features=GROUPS[span]
    )


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def two_blas_threads():
    """More than one, whatever the environment says, so that a change can be seen."""
    with threadpool_limits(limits=2, user_api="blas"):
        yield


# The setting that all hold together


class Dial:
    """A setting of the process, with a context that saves it and puts it back."""

    def __init__(self):
        self.value = "as it was"
        self.held = SharedContext(self.turned)

    @contextmanager
    def turned(self):
        before, self.value = self.value, "turned"
        try:
            yield
        finally:
            self.value = before


def test_what_overlaps_in_any_order_is_put_back_by_the_last():
    rng = np.random.default_rng(0)
    for _ in range(50):
        dial, inside = Dial(), []
        for _ in range(30):
            if inside and rng.random() < 0.5:
                inside.pop(int(rng.integers(len(inside)))).__exit__(None, None, None)
            else:
                inside.append(dial.held())
                inside[-1].__enter__()
            assert dial.value == ("turned" if inside else "as it was")


def test_a_forked_child_forgets_what_other_threads_hold():
    dial, inside, done = Dial(), threading.Event(), threading.Event()

    def hold():
        with dial.held():
            inside.set()
            done.wait(30)

    def child(queue):
        before = dial.value
        with dial.held():
            pass
        queue.put((before, dial.value))

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(30)
    assert in_forked_child(child) == ("turned", "as it was")
    done.set()
    thread.join()
    assert dial.value == "as it was"


def in_forked_child(function, *arguments):
    """What ``function(queue, *arguments)`` puts, called in a fork of this process."""
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=function, args=(queue, *arguments))
    with warnings.catch_warnings():
        # Newer Pythons warn of forks in processes with threads, which are the point here.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    process.join(120)
    assert process.exitcode == 0
    return queue.get()


# Fits


@pytest.mark.slow
def test_eight_threads_at_once_get_the_labels_of_one(two_blas_threads):
    names = list(ESTIMATORS)
    expected = {name: labels_of(name) for name in names}
    before = blas_threads()
    tasks = [names[k % len(names)] for k in range(4 * len(names))]
    with ThreadPoolExecutor(8) as pool:
        for name, labels in zip(tasks, pool.map(labels_of, tasks), strict=True):
            assert_array_equal(labels, expected[name], err_msg=name)
    assert blas_threads() == before


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_fit_leaves_the_number_of_blas_threads(name, two_blas_threads):
    before = blas_threads()
    labels_of(name)
    assert blas_threads() == before


def test_only_the_warning_of_equal_centers_is_silent():
    def warn(message):
        with equal_centers_allowed():
            warnings.warn(message, ConvergenceWarning, stacklevel=2)

    warn("Number of distinct clusters (1) found smaller than n_clusters (2).")
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        warn("The anchor graph did not converge.")


def put_labels(queue, name):
    queue.put(labels_of(name))


@pytest.mark.parametrize("name", first_is_fast(["framework", "fair k-means", "spectral anchors"]))
def test_a_forked_child_fits_after_its_parent(name):
    expected = labels_of(name)
    assert_array_equal(in_forked_child(put_labels, name), expected)


@pytest.mark.slow
def test_a_child_that_is_forked_during_a_fit_fits_as_well():
    expected, going_on = labels_of("framework"), threading.Event()

    def keep_fitting():
        while not going_on.is_set():
            labels_of("framework")

    thread = threading.Thread(target=keep_fitting)
    thread.start()
    try:
        for _ in range(4):
            assert_array_equal(in_forked_child(put_labels, "framework"), expected)
    finally:
        going_on.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_joblib_gets_the_same_labels(backend):
    names = ["framework", "fair k-means", "FairSpectralClustering"]
    expected = [labels_of(name) for name in names]
    found = Parallel(n_jobs=2, backend=backend)(delayed(labels_of)(name) for name in names)
    for labels, other in zip(found, expected, strict=True):
        assert_array_equal(labels, other)
