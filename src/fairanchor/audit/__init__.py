"""Questions about a clustering that others will ask: who is selected, who pays, what changed."""

from fairanchor.audit._batch import BatchAudit, audit_batch
from fairanchor.audit._group_costs import GroupCosts
from fairanchor.audit._group_costs import cost_by_group as cost_by_group  # also in fairanchor
from fairanchor.audit._profiles import ClusterProfiles
from fairanchor.audit._profiles import describe_clusters as describe_clusters
from fairanchor.audit._selection import SelectionRates, SelectionTable, selection_rates

__all__ = [
    "BatchAudit",
    "ClusterProfiles",
    "GroupCosts",
    "SelectionRates",
    "SelectionTable",
    "audit_batch",
    "selection_rates",
]
