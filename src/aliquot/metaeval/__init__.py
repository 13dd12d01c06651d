"""Was the subset good? Is the metric good?"""
