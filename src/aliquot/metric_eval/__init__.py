"""Is the metric good? Was the subset good?"""
