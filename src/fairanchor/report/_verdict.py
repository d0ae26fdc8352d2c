"""Whether the clusters mirror the population: the numbers, and one sentence."""

from dataclasses import dataclass

import numpy as np

from fairanchor.metrics import balance_of_table, mnce_of_table, relative_balance_of_table
from fairanchor.report._asked import worst_sentence
from fairanchor.report._parts import named, score_text, share_of_best
from fairanchor.tables._wording import counted

# The report's own thresholds, which it states; neither is a legal one.
NEARLY = 0.95
PARTLY = 0.80


@dataclass(frozen=True)
class Fairness:
    """Fairness of a table clusters × groups.

    Attributes
    ----------
    balance, relative_balance, mnce : float
        As in `fairanchor.metrics`.
    bound : float
        Balance of all rows: the largest that any clustering of them can have.
    deviation : float
        Largest distance of a cell from exact proportion, in rows.
    worst_cluster, worst_group : int
        Cell whose share is farthest from the population's, as a ratio.
    share, population_share : float
        The group's share in that cluster, and in all rows.
    """

    balance: float
    bound: float
    relative_balance: float
    mnce: float
    deviation: float
    worst_cluster: int
    worst_group: int
    share: float
    population_share: float


@dataclass(frozen=True)
class Verdict:
    """Answer in a word, its level for the page's colour, and the sentences that support it.

    ``question`` is what it answers, ``legend`` what the words mean.
    """

    answer: str
    level: str
    sentence: str
    details: list
    question: str = "Do the clusters mirror the population?"
    legend: str = (
        "“Yes” and “Nearly” mean that every group's share in every cluster is at least "
        f"{NEARLY:.0%} of its share in the population, and the other way round; “Only partly”, at "
        f"least {PARTLY:.0%}. These thresholds are this report's own, not legal ones."
    )


def measure(table):
    """Fairness of a table clusters × groups."""
    sizes, groups = table.sum(axis=1), table.sum(axis=0)
    expected = np.outer(sizes, groups) / table.sum()
    closeness = cell_closeness(table)
    cluster, group = np.unravel_index(closeness.argmin(), table.shape)
    return Fairness(
        balance=balance_of_table(table),
        bound=balance_of_table(groups[None, :]),
        relative_balance=relative_balance_of_table(table),
        mnce=mnce_of_table(table),
        deviation=float(np.abs(table - expected).max()),
        worst_cluster=int(cluster),
        worst_group=int(group),
        share=float(table[cluster, group] / sizes[cluster]),
        population_share=float(groups[group] / table.sum()),
    )


def cell_closeness(table):
    """Share over the population's share, or its inverse, whichever is below 1."""
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    smaller, larger = np.minimum(table, expected), np.maximum(table, expected)
    # Cells of empty clusters and groups are never the farthest.
    return np.divide(smaller, larger, out=np.full(table.shape, np.inf), where=larger > 0)


def judge(run, fairness):
    """The verdict on a run, from its numbers."""
    if np.count_nonzero(run.counts.sum(axis=0)) < 2:
        return Verdict(
            "No comparison",
            "neutral",
            "All rows belong to one group, so there is nothing that clusters could mirror.",
            [],
        )
    if run.asked is not None:
        return _judge_request(run, fairness)
    return Verdict(*_answer(run, fairness), _sentence(fairness), _details(run, fairness))


def _judge_request(run, fairness):
    """The verdict on the constraint, with the population's shares beside it."""
    whose = " of all combinations" if len(run.asked) > 1 else ""
    return Verdict(
        *_answer_to_request(run),
        run.request or "",
        [
            worst_sentence(run.asked, run.cluster_names),
            f"Against exact proportions{whose}, for information: {_lowered(_sentence(fairness))}",
            *_details(run, fairness),
        ],
        "Do the clusters satisfy the constraint?",
        "“Yes” means that no bound is violated, or, where stated, by less than one row: whole rows "
        "do not always allow more. Whether the bounds themselves are fair, no measure can tell.",
    )


def _answer_to_request(run):
    if not run.converged:
        return "Not converged", "poor"
    missed = max(own.worst for own in run.asked)
    if missed == 0.0:
        return "Yes", "good"
    weights = np.ones(1) if run.sample_weight is None else run.sample_weight
    heaviest = float(weights.max())
    if heaviest == weights.min():
        is_near = missed < heaviest
        return ("Yes, to less than one row", "good") if is_near else ("No", "poor")
    if missed <= heaviest:
        return "Missed by no more than the heaviest row", "fair"
    return "No", "poor"


def _lowered(sentence):
    return sentence[0].lower() + sentence[1:]


def _answer(run, fairness):
    if not run.converged:
        # The labels are not those that the method asks for, whatever their counts.
        return "Not converged", "poor"
    whole_rows = run.sample_weight is None and fairness.deviation < 1
    if fairness.relative_balance >= NEARLY:
        return ("Yes", "good") if whole_rows else ("Nearly", "good")
    if whole_rows:
        return "As nearly as whole rows allow", "fair"
    if fairness.relative_balance >= PARTLY:
        return "Only partly", "fair"
    return "No", "poor"


def _sentence(fairness):
    return (
        f"The least balanced cluster has a balance of {score_text(fairness.balance)}, "
        f"{share_of_best(fairness.balance, fairness.bound)} of the best possible: no clustering "
        f"of these rows can exceed {score_text(fairness.bound)}."
    )


def _details(run, fairness):
    group = named("group", run.group_names[fairness.worst_group])
    cluster = named("cluster", run.cluster_names[fairness.worst_cluster])
    if run.sample_weight is None and fairness.deviation < 1:
        details = ["Every cluster has each group's share of the population, to less than one row."]
        if fairness.relative_balance < NEARLY:
            size = run.counts[fairness.worst_cluster].sum()
            details.append(
                f"C{cluster[1:]} has {counted(int(size), 'row')}, too few for the share of {group} "
                f"({fairness.population_share:.1%} of all rows) to be met more closely."
            )
        return details
    return [
        f"Farthest from the population: {group} is {fairness.share:.1%} of {cluster}, "
        f"but {fairness.population_share:.1%} of all rows."
    ]


def price_sentence(run):
    """What fairness costs, or None if it is not known."""
    if run.cost is None or not run.plain_cost:
        return None
    extra = run.cost / run.plain_cost - 1
    if abs(extra) < 0.0005:
        return "Its cost equals that of plain k-means, to within 0.05%."
    if extra < 0:
        return (
            f"Its cost is {-extra:.1%} lower than that of the plain k-means it is compared with: "
            "both are local searches."
        )
    return f"Its cost is {extra:.1%} higher than that of plain k-means: the price of fairness here."
