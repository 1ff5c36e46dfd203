"""Input and output: reading arrays, writing files atomically, printing tables.

It imports no other part of the package.
"""
