"""The version of the package, which `pyproject.toml` and `CITATION.cff` repeat."""

__version__ = "0.1.0"
