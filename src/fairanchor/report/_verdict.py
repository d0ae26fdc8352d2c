"""Whether the clusters mirror the population: the numbers, and one sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairanchor.plotting._names import quoted_name
from fairanchor.report._collect import RunSummary
from fairanchor.report._constraints import describe_violation
from fairanchor.tables._wording import counted

# The report's own thresholds, which it states; neither is a legal one.
NEARLY = 0.95
PARTLY = 0.80


@dataclass(frozen=True)
class Verdict:
    """A question, the answer in a word, its level (a colour) and the sentences that support it."""

    answer: str
    level: str
    sentence: str
    details: list[str]
    question: str = "Do the clusters mirror the population?"
    legend: str = (
        "“Yes” and “Nearly” mean that every group's share in every cluster is at least "
        f"{NEARLY:.0%} of its share in the population, and the other way round; “Only partly”, at "
        f"least {PARTLY:.0%}. These thresholds are this report's own, not legal ones."
    )


def judge(run: RunSummary) -> Verdict:
    """The verdict on a run, from its numbers."""
    composition = run.composition
    if np.count_nonzero(run.counts.sum(axis=0)) < 2:
        return Verdict(
            "No comparison",
            "neutral",
            "All rows belong to one group, so there is nothing that clusters could mirror.",
            [],
        )
    balance = (
        f"a balance of {score_text(composition.balance)}, "
        f"{share_of_best(composition.balance, composition.bound)} of the best possible: no "
        f"clustering of these rows can exceed {score_text(composition.bound)}."
    )
    if run.checks is None:
        sentence = f"The least balanced cluster has {balance}"
        return Verdict(*_answer(run), sentence, _details(run))
    combinations = " of all combinations" if len(run.checks) > 1 else ""
    return Verdict(
        *_answer_to_constraint(run),
        run.constraint or "",
        [
            describe_violation(run.checks, run.cluster_names),
            f"Against exact proportions{combinations}, for information: the least balanced cluster "
            f"has {balance}",
            *_details(run),
        ],
        "Do the clusters satisfy the constraint?",
        "“Yes” means that no bound is violated, or, where stated, by less than one row: whole rows "
        "do not always allow more. No measure can tell whether the bounds themselves are fair.",
    )


def _answer(run: RunSummary) -> tuple[str, str]:
    if not run.converged:
        return "Not converged", "poor"
    whole_rows = run.sample_weight is None and run.composition.deviation < 1
    if run.composition.relative_balance >= NEARLY:
        return ("Yes", "good") if whole_rows else ("Nearly", "good")
    if whole_rows:
        return "As nearly as whole rows allow", "fair"
    if run.composition.relative_balance >= PARTLY:
        return "Only partly", "fair"
    return "No", "poor"


def _answer_to_constraint(run: RunSummary) -> tuple[str, str]:
    if not run.converged:
        return "Not converged", "poor"
    worst = max(check.worst for check in run.checks or ())
    if worst == 0.0:
        return "Yes", "good"
    weights = np.ones(1) if run.sample_weight is None else run.sample_weight
    heaviest = float(weights.max())
    if heaviest == weights.min():
        return ("Yes, to less than one row", "good") if worst < heaviest else ("No", "poor")
    if worst <= heaviest:
        return "Missed by no more than the heaviest row", "fair"
    return "No", "poor"


def _details(run: RunSummary) -> list[str]:
    composition = run.composition
    l, r = composition.worst_cell
    group, population = quoted_name("group", run.group_names[r]), composition.population[r]
    if run.sample_weight is not None or composition.deviation >= 1:
        return [
            f"Farthest from the population: {group} is {composition.shares[l, r]:.1%} of "
            f"{quoted_name('cluster', run.cluster_names[l])}, but {population:.1%} of all rows."
        ]
    details = ["Every cluster has each group's share of the population, to less than one row."]
    if composition.relative_balance < NEARLY:
        size = counted(int(run.counts[l].sum()), "row")
        details.append(
            f"{quoted_name('Cluster', run.cluster_names[l])} has {size}, too few for the share of "
            f"{group} ({population:.1%} of all rows) to be met more closely."
        )
    return details


def price_sentence(run: RunSummary) -> str | None:
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


def score_text(value: float) -> str:
    """A measure with four decimals; 1.0000 means reached, not nearly so."""
    return f"{value if value >= 1.0 else min(value, 0.9999):.4f}"


def share_of_best(part: float, whole: float) -> str:
    """Percentage of the best possible; 100.0% means reached, not nearly so."""
    return f"{1.0 if part >= whole else min(part / whole, 0.999):.1%}"
