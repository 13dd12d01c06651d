"""The call shapes of subset2evaluate 1.0.27 on top of aliquot, for people who switch.

`from aliquot.compat import select_subset` stands for `from subset2evaluate import select_subset`. Inputs are never
changed: what comes back are copies of the items, in order, with the field `subset2evaluate_utility`.
"""

from aliquot.compat import select_subset

__all__ = ["select_subset"]
