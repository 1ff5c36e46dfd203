"""A second implementation of the arithmetic, to compare the C core with.

Written from what the headers in ops/core specify, never from the C files, in NumPy and plain Python, for
clarity and not for speed. Losses are float64: what the integers approximate. It ships with no package.
"""
