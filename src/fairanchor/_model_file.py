"""Model files: what a fitted `AnchorFairClustering` needs to label new rows, in one small file.

The file is a NumPy ``.npz`` container: one ``.npy`` entry per array and one entry
``model.json`` with everything else (format version, parameters, group names, preprocessing, a
checksum). Reading it runs no code, and believes nothing: `fairanchor._model_archive` checks the
container, `fairanchor._model_checks` the contents. What grows with the training rows, ``labels_``
above all, is not kept.
"""

import errno
import struct
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fairanchor import __version__
from fairanchor._anchor_clustering import AnchorFairClustering
from fairanchor._files import replacing
from fairanchor._model import AnchorModel
from fairanchor._model_archive import ModelFileError, read_archive, write_archive
from fairanchor._model_checks import (
    ATTRIBUTES,
    SHAPES,
    NewerVersionError,
    check_arrays,
    check_attributes,
    check_group_names,
    check_preprocessing,
    check_sensitive_names,
    check_settings,
    check_supports,
    check_version,
    require,
    shapes_of,
)
from fairanchor._model_limits import (
    limits_from_plain,
    limits_to_plain,
    restore_separate,
    separate_arrays,
    separate_to_plain,
)
from fairanchor._sensitive_names import store_titles
from fairanchor._shared_state import one_blas_thread
from fairanchor.clusterers._registry import CLUSTERERS
from fairanchor.graph import AnchorGraphProblem
from fairanchor.graph._row_solvers import ActiveSetRows, PivotingRows, ResidualRows
from fairanchor.tables._plain import from_plain, to_plain

# What an archive that was damaged can raise, and contents that make no sense.
ARCHIVE_DAMAGE = (EOFError, OSError, struct.error, zipfile.BadZipFile, zlib.error)
DAMAGE = (
    *ARCHIVE_DAMAGE,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)

ROW_SOLVERS = {solver.__name__: solver for solver in (ActiveSetRows, PivotingRows, ResidualRows)}
MODEL_TABLES = ("multipliers", "allowed_cells", "prices", "centers", "shares")
PUBLIC_ARRAYS = tuple(name for name in SHAPES if not name.startswith("model."))


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
    # A file that could not be loaded must not be written.
    estimator._validate_params()
    arrays = _arrays_of(estimator)
    manifest = _manifest_of(estimator, preprocessing, arrays)
    shapes_of(manifest)
    with replacing(path, force=force) as file:
        write_archive(file, manifest, arrays)


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
    if not path.exists():
        raise FileNotFoundError(f"There is no model file {path}.")
    with path.open("rb") as file:
        try:
            return _restored(*read_archive(file, _declared_shapes))
        except NewerVersionError as error:
            raise ModelFileError(f"{path} {error}") from None
        except DAMAGE as error:
            # A place that does not exist in the file is damage, a disk that fails is not.
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise
            raise ModelFileError(_refusal(path, error)) from error


def _refusal(path, error):
    why = str(error) or type(error).__name__
    if isinstance(error, ARCHIVE_DAMAGE):
        why = f"the archive is cut off or altered ({why.rstrip('.')})"
    elif not isinstance(error, ModelFileError):
        why = f"{type(error).__name__}: {why}"
    return f"{path} is not a model file of fairanchor, or it is damaged: {why.rstrip('.')}."


def _manifest_of(estimator, preprocessing, arrays):
    names = getattr(estimator, "feature_names_in_", None)
    model = estimator._model
    return {
        "written_by": f"fairanchor {__version__}",
        "parameters": _plain_parameters(estimator),
        "groups": [to_plain(name) for name in estimator.groups_],
        "feature_names_in": None if names is None else [str(name) for name in names],
        "sensitive_names_in": _sensitive_names(estimator, preprocessing),
        "attributes": {name: to_plain(getattr(estimator, name)) for name in ATTRIBUTES},
        "scale": estimator._scale,
        "by_distance": bool(model.by_distance),
        "row_solver": _row_solver_name(model.row_solver),
        "alpha": float(model.row_solver.problem.alpha),
        "n_clusters": int(model.row_solver.problem.n_clusters),
        "n_anchors": len(arrays["model.anchors"]),
        "n_features": arrays["model.anchors"].shape[1],
        "n_supports": len(arrays.get("model.typical_supports", ())),
        "preprocessing": None if preprocessing is None else preprocessing.to_json(),
        "separate": separate_to_plain(estimator),
    }


def _sensitive_names(estimator, preprocessing):
    """Titles of the sensitive columns; groups that were read off a table have those of its."""
    names = getattr(estimator, "sensitive_names_in_", None)
    if names is None and preprocessing is not None:
        names = preprocessing.groups.columns
    return None if names is None else list(names)


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
        arrays["model.typical_supports"] = supports > 0
    arrays |= {name: getattr(estimator, name) for name in PUBLIC_ARRAYS}
    return arrays | separate_arrays(estimator)


def _plain_parameters(estimator):
    parameters = estimator.get_params(deep=False)
    parameters["clusterer"] = _plain_clusterer(parameters["clusterer"])
    parameters["fairness"] = limits_to_plain(parameters["fairness"])
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
        clusterer = CLUSTERERS[saved["name"]](**saved["parameters"])
        clusterer._validate_params()
        return clusterer
    return UnavailableClusterer(saved["description"])


def _declared_shapes(manifest):
    check_version(manifest, __version__)
    return shapes_of(manifest)


def _restored(manifest, arrays):
    check_settings(manifest)
    check_arrays(arrays, manifest["n_clusters"])
    attributes = {name: from_plain(value) for name, value in manifest["attributes"].items()}
    check_attributes(attributes, manifest["n_features"])
    groups = [from_plain(name) for name in manifest["groups"]]
    check_group_names(groups)
    check_sensitive_names(manifest.get("sensitive_names_in"), groups)

    estimator = _estimator_from(manifest["parameters"])
    for name in PUBLIC_ARRAYS:
        setattr(estimator, name, arrays[name])
    for name, value in attributes.items():
        setattr(estimator, name, value)
    estimator.groups_ = _object_array(groups)
    restore_separate(estimator, manifest.get("separate"), arrays)
    if manifest["feature_names_in"] is not None:
        estimator.feature_names_in_ = _object_array(manifest["feature_names_in"])
    store_titles(estimator, manifest.get("sensitive_names_in"))  # absent in older files
    estimator.preprocessing_ = _preprocessing_from(
        manifest["preprocessing"], manifest["n_features"]
    )
    estimator._n_features_out = manifest["n_anchors"]
    estimator._scale = float(manifest["scale"])
    estimator._model = _restored_model(manifest, arrays)
    return estimator


def _estimator_from(saved):
    parameters = {name: from_plain(value) for name, value in saved.items()}
    parameters["clusterer"] = _clusterer_from(parameters["clusterer"])
    parameters["fairness"] = limits_from_plain(parameters["fairness"])
    estimator = AnchorFairClustering(**parameters)
    estimator._validate_params()
    return estimator


def _restored_model(manifest, arrays):
    # One thread as in fit: the bits of a product may depend on their number.
    with one_blas_thread(), np.errstate(all="ignore"):
        problem = AnchorGraphProblem(
            arrays["model.anchors"],
            arrays["model.anchor_labels"],
            manifest["n_clusters"],
            float(manifest["alpha"]),
            announce=False,  # it was, when the model was fitted
        )
        require(np.isfinite(problem.Q).all(), "its anchors are too large to be multiplied")
        arguments = ()
        if "model.typical_supports" in arrays:
            check_supports(manifest)
            arguments = (arrays["model.typical_supports"].astype(np.float64),)
        solver = ROW_SOLVERS[manifest["row_solver"]](problem, *arguments)
    tables = {name: arrays[f"model.{name}"] for name in MODEL_TABLES}
    return AnchorModel(row_solver=solver, by_distance=manifest["by_distance"], **tables)


def _preprocessing_from(plain, n_features):
    if plain is None:
        return None
    from fairanchor.tables._preprocessing import Preprocessing

    require(isinstance(plain["scaled"], bool), "its preprocessing is scaled neither way")
    preprocessing = Preprocessing.from_json(plain)
    check_preprocessing(preprocessing, n_features)
    return preprocessing


def _object_array(values):
    array = np.empty(len(values), dtype=object)
    for position, value in enumerate(values):
        array[position] = value
    return array
