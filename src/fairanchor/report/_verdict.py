"""Whether the clusters meet the constraint: one answer, and the sentences that support it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairanchor.plotting._composition import count_text, share_text
from fairanchor.plotting._names import display_name, quoted_name
from fairanchor.report._constraints import describe_violation
from fairanchor.tables._wording import counted

if TYPE_CHECKING:
    from fairanchor.report._collect import RunSummary

# The report's own thresholds, which it states; neither is a legal one.
NEARLY = 0.95
PARTLY = 0.80
# Shares that differ by less are shown as one number.
SAME_SHARE = 0.0005
MOST_GROUPS_IN_A_SENTENCE = 4


@dataclass(frozen=True)
class Verdict:
    """A question, the answer in a word, its level (a colour) and the sentences that support it."""

    answer: str
    level: str
    sentence: str
    details: list[str]
    question: str = "Does every cluster mirror all rows?"
    legend: str = (
        "“Yes” means that no count is a whole row away from exact proportion. “Nearly”: each "
        f"group's share of each cluster is at least {NEARLY:.0%} of its share of all rows, and "
        f"vice versa. “Only partly”: at least {PARTLY:.0%}. These thresholds are a choice of this "
        "report, not legal ones."
    )


def judge(run: RunSummary) -> Verdict:
    """The verdict on a run, from its numbers."""
    sentence, sizes = "", run.counts.sum(axis=1)
    if np.count_nonzero(run.counts.sum(axis=0)) < 2:
        if not any(check.size_text(l) for check in run.checks or () for l in range(len(sizes))):
            sentence = "All rows are of one group, so there is no share that clusters could mirror."
            return Verdict("Nothing to compare", "neutral", sentence, [])
        sentence = f"Clusters have {count_text(sizes.min())} to {count_text(sizes.max())} rows."
    details, answer, level = _left_out(run), "Not converged", "poor"
    if run.converged:
        answer, level = _answer(run) if run.checks is None else _answer_to_constraint(run)
    if run.n_rows_left_out and level in ("good", "fair"):
        left_out = counted(run.n_rows_left_out, "row")
        answer, level = f"Not for all rows: {left_out} left out. For the others: {answer}", "fair"
    sentence = sentence or shares_sentence(run)
    if run.checks is None:
        return Verdict(answer, level, sentence, details + _details(run))
    return Verdict(
        answer,
        level,
        sentence,
        [*details, describe_violation(run.checks, run.cluster_names)],
        "Are the clusters within the required bounds?",
        "“Yes” means that no bound is violated, or, where stated, by less than one row: whole rows "
        "do not always allow more. No measure shows whether the bounds themselves are fair.",
    )


def _answer(run: RunSummary) -> tuple[str, str]:
    balance, whole_rows = run.relative_balance, _is_exact(run)
    if balance >= NEARLY:
        return ("Yes", "good") if whole_rows else ("Nearly", "good")
    if whole_rows:
        return "Yes, as nearly as whole rows allow", "fair"
    if balance >= PARTLY:
        return "Only partly", "fair"
    return "No", "poor"


def _is_exact(run: RunSummary) -> bool:
    """Whether no count is a whole row away from exact proportion, and every row has a cluster."""
    is_counted = run.unassigned is None and run.sample_weight is None
    return is_counted and run.composition.deviation < 1


def _answer_to_constraint(run: RunSummary) -> tuple[str, str]:
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


def shares_sentence(run: RunSummary) -> str:
    """Shares of people: "every cluster is 33.1 % women, as all rows are"."""
    composition = run.composition
    present = np.flatnonzero(composition.table.sum(axis=0) > 0)
    shares = composition.shares[composition.table.sum(axis=1) > 0]
    population = run.everyone.population
    # Exact counts, or shares that would be printed alike.
    is_same = np.abs(shares - population)[:, present].max() < SAME_SHARE
    if is_same or (_is_exact(run) and composition.relative_balance >= NEARLY):
        order = present[np.argsort(-population[present], kind="stable")]
        few = sorted(order[:MOST_GROUPS_IN_A_SENTENCE].tolist())
        named = _listed([f"{share_text(population[r])} {_group(run, r)}" for r in few])
        rest = len(present) - len(few)
        more = f"; the same holds for {counted(rest, 'other group')}" if rest else ""
        return f"Every cluster is {named}, as all rows are{more}."
    closeness = composition.closeness.min(axis=0)
    shown = present[np.argsort(closeness[present], kind="stable")].tolist()
    if len(present) == 2:  # the larger group is the rest
        shown = sorted(shown, key=lambda r: population[r])[:1]
    texts = []
    for r in shown[:3]:
        low, high = share_text(shares[:, r].min()), share_text(shares[:, r].max())
        span = low if low == high else f"{low} to {high}"
        texts.append(
            f"the share of {_group(run, r)} is {span} in the clusters and "
            f"{share_text(population[r])} in all rows"
        )
    text = "; ".join(texts) + "."
    return text[0].upper() + text[1:]


def _group(run: RunSummary, r: int) -> str:
    """A group's name in a sentence; one that is a number or a flag needs its column."""
    name, text = run.group_names[r], display_name(run.group_names[r], 60)
    if isinstance(name, str) and name.replace(" ", "").isalpha() and len(name) > 1:
        return text
    parts = name if isinstance(name, tuple) else (name,)
    if len(run.columns) == len(parts) and not all(str(part).isalpha() for part in parts):
        pairs = zip(run.columns, parts, strict=True)
        return f"“{', '.join(f'{display_name(c, 40)} = {display_name(p, 40)}' for c, p in pairs)}”"
    return f"“{text}”"


def _listed(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _left_out(run: RunSummary) -> list[str]:
    if not run.n_rows_left_out:
        return []
    total = counted(run.n_rows_total + run.n_rows_left_out, "row")
    text = f"Left out: {run.n_rows_left_out:,} of {total}, those "
    if run.unassigned is None:
        return [f"{text}with missing values."]
    sizes = run.unassigned + run.counts.sum(axis=0)
    worst = int(np.argmax(run.unassigned / np.maximum(sizes, np.finfo(float).tiny)))
    return [
        f"{text}without a cluster. {count_text(run.unassigned[worst])} of the "
        f"{count_text(sizes[worst])} rows of {quoted_name('group', run.group_names[worst])} have "
        "no cluster.",
        f"Counted against the answer, they leave a relative balance of "
        f"{score_text(run.relative_balance)}, where 1 is proportional.",
    ]


def _details(run: RunSummary) -> list[str]:
    if run.unassigned is not None:
        return []  # what is left out is part of what the sentence compares with
    composition = run.composition
    l, r = composition.worst_cell
    group, population = quoted_name("group", run.group_names[r]), composition.population[r]
    if run.sample_weight is not None or composition.deviation >= 1:
        return [
            f"Largest deviation: {group} is {share_text(composition.shares[l, r])} of "
            f"{quoted_name('cluster', run.cluster_names[l])}, but {share_text(population)} of all "
            "rows."
        ]
    details = ["Every count is less than one row away from exact proportion."]
    if composition.relative_balance < NEARLY:
        size = counted(int(run.counts[l].sum()), "row")
        details.append(
            f"{quoted_name('Cluster', run.cluster_names[l])} has {size}, too few for the share of "
            f"{group} ({share_text(population)} of all rows) to be met more closely."
        )
    return details


def score_text(value: float) -> str:
    """A measure with four decimals; 1.0000 means reached, not nearly so."""
    return f"{value if value >= 1.0 else min(value, 0.9999):.4f}"
