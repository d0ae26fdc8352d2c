"""From ``sensitive_features`` to group codes: `_groups` encodes one column or the combinations of
several, `_attributes` several attributes side by side.
"""

from fairanchor.groups._attributes import Attributes
from fairanchor.groups._groups import (
    Groups,
    SeparateColumns,
    check_groups,
    columns_of,
)

__all__ = ["Attributes", "Groups", "SeparateColumns", "check_groups", "columns_of"]
