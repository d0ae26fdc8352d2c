"""Model files: what a fitted `AnchorFairClustering` needs to label new rows, in one small file.

The file is a NumPy ``.npz`` container: one ``.npy`` entry per array and one entry
``model.json`` with everything else (format version, parameters, group names, preprocessing).
Reading it runs no code. What grows with the training rows, ``labels_`` above all, is not kept.
"""

import json
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fairanchor import __version__
from fairanchor._anchor_clustering import AnchorFairClustering
from fairanchor._model import AnchorModel
from fairanchor.clusterers._registry import CLUSTERERS
from fairanchor.graph import AnchorGraphProblem
from fairanchor.graph._row_solvers import ActiveSetRows, PivotingRows, ResidualRows
from fairanchor.tables._files import replacing
from fairanchor.tables._plain import from_plain, to_plain

FORMAT = "fairanchor-model"
# Raised when an older program would misread the file.
FORMAT_VERSION = 1
MANIFEST = "model.json"
LARGEST_MANIFEST = 100_000_000
# What contents that make no sense can raise.
DAMAGE = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)

ROW_SOLVERS = {solver.__name__: solver for solver in (ActiveSetRows, PivotingRows, ResidualRows)}
MODEL_TABLES = ("multipliers", "allowed_cells", "prices", "centers", "shares")
PUBLIC_ARRAYS = (
    "counts_",
    "targets_",
    "anchor_indices_",
    "anchors_",
    "anchor_masses_",
    "anchor_labels_",
    "multipliers_",
    "assignment_prices_",
    "cluster_centers_",
)
PUBLIC_SCALARS = (
    "balance_",
    "worst_violation_",
    "inertia_",
    "mass_error_",
    "duality_gap_",
    "assignment_gap_",
    "converged_",
    "n_iter_",
    "n_clusters_found_",
    "n_features_in_",
    "history_",
)


class UnavailableClusterer(BaseEstimator):
    """Stands for a clusterer that a model file can name but not hold.

    Parameters
    ----------
    description : str
        What the clusterer looked like.
    """

    def __init__(self, description=""):
        self.description = description

    def fit(self, X, y=None):
        """Refuse, with what to do."""
        raise RuntimeError(
            f"The model was fitted with clusterer={self.description}, which a model file does not "
            "hold. To fit again, set it: set_params(clusterer=...)."
        )


def save_model(estimator, path, *, preprocessing=None, force=False):
    """Write a fitted estimator to a file, whole or not at all.

    Parameters
    ----------
    estimator : AnchorFairClustering
        Fitted.
    path : str or path-like
        The suffix ``.npz`` is usual, not required.
    preprocessing : fairanchor.tables.Preprocessing, default=None
        How a table's columns become the estimator's features and groups; by default what the
        estimator was loaded with, unless it was fitted again.
    force : bool, default=False
        Whether an existing file may be replaced.
    """
    if not isinstance(estimator, AnchorFairClustering):
        raise TypeError(
            f"estimator is a {type(estimator).__name__}, expected an AnchorFairClustering."
        )
    check_is_fitted(estimator)
    # A loaded model that was fitted again has labels, and features of its own.
    if preprocessing is None and not hasattr(estimator, "labels_"):
        preprocessing = getattr(estimator, "preprocessing_", None)
    manifest = _manifest_of(estimator, preprocessing)
    arrays = _arrays_of(estimator)
    with (
        replacing(path, force=force) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        text = json.dumps(manifest, allow_nan=False, ensure_ascii=False, indent=1)
        archive.writestr(_entry(MANIFEST), text.encode("utf-8"))
        for name, array in arrays.items():
            with archive.open(_entry(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def load_model(path):
    """Read a fitted estimator from a file that `save_model` wrote.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    estimator : AnchorFairClustering
        Its `predict`, `predict_proba`, `transform` and `score` give what those of the saved
        one gave. It has no ``labels_`` and no ``clusterer_``; ``preprocessing_`` is None unless
        the file holds one.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {path}.")
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _read_manifest(archive, path)
            try:
                return _restored(manifest, _read_arrays(archive, manifest["arrays"]))
            except DAMAGE as error:
                reason = f"{type(error).__name__}: {error}"
                raise ValueError(f"The model file {path} is damaged ({reason}).") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(_not_a_model(path, str(error))) from None


def _entry(name):
    # A fixed date: equal models are equal files.
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _not_a_model(path, why):
    return f"{path} is not a model file of fairanchor, or it is damaged: {why}."


def _manifest_of(estimator, preprocessing):
    names = getattr(estimator, "feature_names_in_", None)
    model = estimator._model
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "written_by": f"fairanchor {__version__}",
        "parameters": _plain_parameters(estimator),
        "groups": [to_plain(name) for name in estimator.groups_],
        "feature_names_in": None if names is None else [str(name) for name in names],
        "attributes": {name: to_plain(getattr(estimator, name)) for name in PUBLIC_SCALARS},
        "scale": estimator._scale,
        "by_distance": bool(model.by_distance),
        "row_solver": _row_solver_name(model.row_solver),
        "alpha": float(model.row_solver.problem.alpha),
        "n_clusters": int(model.row_solver.problem.n_clusters),
        "preprocessing": None if preprocessing is None else preprocessing.to_json(),
        "arrays": sorted(_arrays_of(estimator)),
    }


def _row_solver_name(solver):
    name = type(solver).__name__
    if name not in ROW_SOLVERS:
        raise TypeError(f"A model file cannot hold the row solver {name}.")
    return name


def _arrays_of(estimator):
    model = estimator._model
    arrays = {f"model.{name}": getattr(model, name) for name in MODEL_TABLES}
    problem = model.row_solver.problem
    arrays |= {"model.anchors": problem.anchors, "model.anchor_labels": problem.anchor_labels}
    # Where a row's solution starts decides its last bits.
    supports = getattr(model.row_solver, "typical_supports", None)
    if supports is not None:
        arrays["model.typical_supports"] = supports
    arrays |= {name: getattr(estimator, name) for name in PUBLIC_ARRAYS}
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _plain_parameters(estimator):
    parameters = estimator.get_params(deep=False)
    parameters["clusterer"] = _plain_clusterer(parameters["clusterer"])
    seed = parameters["random_state"]
    if not (seed is None or isinstance(seed, (int, np.integer))):
        warnings.warn(
            "random_state is a generator, which a model file does not hold: the loaded model "
            "has random_state=None. Predictions do not depend on it.",
            UserWarning,
            stacklevel=4,
        )
        parameters["random_state"] = None
    for name, value in parameters.items():
        if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
            parameters[name] = np.asarray(value).tolist()
    return {name: to_plain(value) for name, value in parameters.items()}


def _plain_clusterer(clusterer):
    """A name, or a pair (name of the class, its parameters), or a description."""
    if isinstance(clusterer, str):
        return clusterer
    for name, class_ in CLUSTERERS.items():
        if type(clusterer) is class_:
            parameters = clusterer.get_params(deep=False)
            try:
                to_plain(parameters)
            except TypeError:
                break
            return {"name": name, "parameters": parameters}
    if isinstance(clusterer, UnavailableClusterer):
        return {"description": clusterer.description}
    # An address in memory would make two saves of one model differ.
    described = repr(clusterer)
    return {"description": getattr(clusterer, "__name__", described.split(" at 0x")[0])}


def _clusterer_from(saved):
    if isinstance(saved, str):
        return saved
    if "name" in saved:
        return CLUSTERERS[saved["name"]](**saved["parameters"])
    return UnavailableClusterer(saved["description"])


def _read_manifest(archive, path):
    if MANIFEST not in archive.namelist():
        raise ValueError(_not_a_model(path, f"it has no entry {MANIFEST}"))
    size = archive.getinfo(MANIFEST).file_size
    if size > LARGEST_MANIFEST:
        raise ValueError(_not_a_model(path, f"its entry {MANIFEST} has {size:,} bytes"))
    try:
        manifest = json.loads(archive.read(MANIFEST))
    except ValueError as error:
        raise ValueError(_not_a_model(path, f"{MANIFEST} cannot be read, {error}")) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError(_not_a_model(path, f"{MANIFEST} does not say {FORMAT!r}"))
    if manifest.get("format_version") != FORMAT_VERSION:
        raise ValueError(
            f"{path} has version {manifest.get('format_version')} of the model format and was "
            f"written by {manifest.get('written_by')}; this is fairanchor {__version__}, which "
            f"reads version {FORMAT_VERSION}. Use the version that wrote it, or a newer one."
        )
    return manifest


def _read_arrays(archive, names):
    arrays = {}
    for name in names:
        with archive.open(f"{name}.npy") as member:
            arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
    return arrays


def _restored(manifest, arrays):
    _check_shapes(manifest, arrays)
    parameters = {name: from_plain(value) for name, value in manifest["parameters"].items()}
    parameters["clusterer"] = _clusterer_from(parameters["clusterer"])
    estimator = AnchorFairClustering(**parameters)
    for name in PUBLIC_ARRAYS:
        setattr(estimator, name, arrays[name])
    for name in PUBLIC_SCALARS:
        setattr(estimator, name, from_plain(manifest["attributes"][name]))
    estimator.groups_ = _object_array([from_plain(name) for name in manifest["groups"]])
    if manifest["feature_names_in"] is not None:
        estimator.feature_names_in_ = _object_array(manifest["feature_names_in"])
    estimator.preprocessing_ = _preprocessing_from(manifest["preprocessing"])
    estimator._n_features_out = len(arrays["model.anchors"])
    estimator._scale = float(manifest["scale"])
    estimator._model = _restored_model(manifest, arrays)
    return estimator


def _restored_model(manifest, arrays):
    with warnings.catch_warnings():
        # The ridge was checked, and announced, when the model was fitted.
        warnings.simplefilter("ignore", UserWarning)
        problem = AnchorGraphProblem(
            arrays["model.anchors"],
            arrays["model.anchor_labels"],
            manifest["n_clusters"],
            manifest["alpha"],
        )
    tables = {name: arrays[f"model.{name}"] for name in MODEL_TABLES}
    supports = arrays.get("model.typical_supports")
    arguments = () if supports is None else (supports,)
    solver = ROW_SOLVERS[manifest["row_solver"]](problem, *arguments)
    return AnchorModel(row_solver=solver, by_distance=manifest["by_distance"], **tables)


def _preprocessing_from(plain):
    if plain is None:
        return None
    from fairanchor.tables._preprocessing import Preprocessing

    return Preprocessing.from_json(plain)


def _check_shapes(manifest, arrays):
    """Arrays that do not fit together would be read out of bounds by the kernels."""
    n_clusters, n_groups = manifest["n_clusters"], len(manifest["groups"])
    n_anchors, n_features = arrays["model.anchors"].shape
    expected = {
        "model.anchor_labels": (n_anchors,),
        "model.centers": (n_clusters, n_features),
        "model.shares": (n_groups,),
        "model.multipliers": (n_clusters, n_groups),
        "model.allowed_cells": (n_clusters, n_groups),
        "model.prices": (n_clusters, n_groups),
    }
    if "model.typical_supports" in arrays:
        n_supports = len(arrays["model.typical_supports"])
        if n_supports not in (1, n_anchors):
            raise TypeError(f"{n_supports} typical supports, expected 1 or {n_anchors}")
        expected["model.typical_supports"] = (n_supports, n_anchors)
    for name, shape in expected.items():
        if arrays[name].shape != shape:
            raise TypeError(f"array {name!r} has shape {arrays[name].shape}, expected {shape}")
    labels = arrays["model.anchor_labels"]
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= n_clusters:
        raise TypeError(f"anchor labels should be 0..{n_clusters - 1}")
    for name in (*expected, "model.anchors"):
        kinds = {"model.anchor_labels": "iu", "model.allowed_cells": "b"}.get(name, "f")
        if arrays[name].dtype.kind not in kinds or not np.isfinite(arrays[name]).all():
            raise TypeError(f"array {name!r} holds something else than finite numbers")


def _object_array(values):
    array = np.empty(len(values), dtype=object)
    for position, value in enumerate(values):
        array[position] = value
    return array
