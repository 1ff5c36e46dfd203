"""A second implementation of the arithmetic, to compare the C core with.

Written from the specifications in ops/core's headers, never from the C files, in NumPy and plain Python, for
clarity and not for speed. Losses are float64, which the integers approximate. It ships with no package.
"""
