"""Questions about a clustering that others will ask: who is selected, who pays, what changed."""

from fairanchor.audit._batch import BatchAudit, audit_batch
from fairanchor.audit._group_costs import GroupCosts, cost_by_group
from fairanchor.audit._profiles import ClusterProfiles, describe_clusters
from fairanchor.audit._selection import SelectionRates, SelectionTable, selection_rates

__all__ = [
    "BatchAudit",
    "ClusterProfiles",
    "GroupCosts",
    "SelectionRates",
    "SelectionTable",
    "audit_batch",
    "cost_by_group",
    "describe_clusters",
    "selection_rates",
]
