"""The call shapes of subset2evaluate 1.0.27 on top of aliquot, for people who switch.

`from aliquot.compat import evaluate, select_subset` stands for the same import from `subset2evaluate`. Inputs are never
changed: `select_subset` gives back copies of the items, in order, with the field `subset2evaluate_utility`; `evaluate`
gives the numbers of subset2evaluate's measures, permutation tests with their fixed seed included.
"""

from aliquot.compat import evaluate, select_subset

__all__ = ["evaluate", "select_subset"]
