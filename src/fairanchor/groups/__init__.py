"""From ``sensitive_features`` to group codes: `_columns` reads tables of any library, `_groups`
encodes one column or the combinations of several, `_attributes` several columns side by side.
"""

from fairanchor.groups._attributes import Attributes
from fairanchor.groups._columns import SeparateColumns, columns_of
from fairanchor.groups._groups import Groups, check_groups

__all__ = ["Attributes", "Groups", "SeparateColumns", "check_groups", "columns_of"]
