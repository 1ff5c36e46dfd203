"""A fuzzer for every file that the package reads: models, their metadata, both logs, data.

``python -m fuzz.files --count 2000`` (in ``tests``) damages small valid files, each in the terms of its own
format, and passes them to the package's public functions and commands, in processes of their own.
"""
