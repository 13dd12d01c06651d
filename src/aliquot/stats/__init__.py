"""Statistics: arrays in, arrays out. Nothing here knows a file, a column name or an EvalSet.

Conventions that the docstrings do not repeat:

- Tables of scores (`scores`, `human`, `metric`) are items x systems, higher is better, NaN = missing. `metrics` is
  metrics x items x systems. Tables that are given together have the same shape.
- Pairs of systems are ordered as `np.triu_indices(M, 1)`. P-values p[a, b] are one-sided, small where a is
  better, unless a function says two-sided.
- `seed` is an int or a numpy Generator; `level` is the coverage of an interval; `draws`, `replicates` and `trials` are
  numbers of resamples. Codes (of items, clusters, annotators, ...) are integers from 0.
- What is undefined is NaN, never 0.
- Arguments that cannot be used raise OptionError, unknown names NameUnknownError, data without an answer DataError.
"""
