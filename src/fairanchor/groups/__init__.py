"""From ``sensitive_features`` to group codes.

`_columns` reads tables of any library; `_groups` encodes one column, the combinations of several,
or several side by side.
"""

from fairanchor.groups._columns import SeparateColumns, columns_of
from fairanchor.groups._groups import Attributes, Groups, check_groups

__all__ = ["Attributes", "Groups", "SeparateColumns", "check_groups", "columns_of"]
