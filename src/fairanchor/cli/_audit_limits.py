"""The constraint of ``fairanchor audit``, and by how much labels miss it."""


def asked_of_labels(summary, columns, options):
    """The constraint of ``--tolerance``, ``--targets`` and ``--attributes``.

    Parameters
    ----------
    summary : dict
        With the ``clusters`` and ``groups`` and the ``counts`` of their cells.
    columns : list of str
        The sensitive columns.
    options : dict

    Returns
    -------
    asked : list of ConstraintCheck, or None
        One for each attribute; None if there is no constraint.
    request : str or None
        The same in a sentence.
    """
    separate = options["attributes"] == "separate"
    if options["tolerance"] is None and options["targets"] is None and not separate:
        return None, None
    from fairanchor.cli._targets import targets_of_file
    from fairanchor.report._constraints import checks_of_counts, describe_constraint

    counts, tolerance = summary["counts"], options["tolerance"] or 0.0
    targets, fairness = tolerance, "population"
    if options["targets"] is not None:
        shape = (len(counts), int(counts.sum()))
        targets = fairness = targets_of_file(options, columns, summary["groups"], *shape)
        _check_numbers(targets, summary["clusters"])
    titles = columns if separate else None
    asked = checks_of_counts(counts, summary["groups"], targets, titles)
    return asked, describe_constraint(fairness, tolerance, titles or ())


def _check_numbers(targets, clusters):
    """Raise an error for targets that differ by cluster where clusters have other names."""
    from fairanchor.metrics import n_clusters_of

    if all(n_clusters_of(own) is None for own in targets):
        return
    if list(clusters) != list(range(len(clusters))):
        raise ValueError(
            f"The targets number clusters 0..{len(clusters) - 1}, but the clusters of the labels "
            f"are {', '.join(map(str, clusters[:20]))}."
        )


def summary_of_asked(asked):
    """Entries of ``--json`` about it; none if there is no constraint."""
    if asked is None:
        return {}
    from fairanchor.cli._common import measures_of

    found = {"worst_violation": max(own.worst for own in asked)}
    if asked[0].attribute is not None:
        found["attributes"] = {
            str(own.attribute): {
                "groups": own.groups,
                "counts": own.counts,
                "worst_violation": own.worst,
                **measures_of(own.counts),
            }
            for own in asked
        }
    return found


def limit_lines(asked, request, cluster_names):
    """The same as lines of text."""
    if asked is None:
        return []
    from fairanchor.cli._common import measures_line, measures_of, show_name
    from fairanchor.report._constraints import describe_violation

    lines = ["", request]
    if asked[0].attribute is not None:
        lines += [f"{show_name(own.attribute)} by itself: {measures_line(measures_of(own.counts))}"
                  for own in asked]  # fmt: skip
    return [*lines, describe_violation(asked, cluster_names)]
