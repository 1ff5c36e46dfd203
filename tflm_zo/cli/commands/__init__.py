r"""The commands: one file each, found by its name (an underscore becomes a dash).

A file has ``EXAMPLE``, a command line that ``--help`` shows, and a function of its name, whose docstring is the help
and whose parameters are typer's; ``export.py`` is a short one. It checks its outputs with
``output_file.check_output`` before the work, and writes models and other files with ``output_file.write_output``.
``results.write_report`` writes a result as JSON, and ``results.show`` prints it. Slow modules are imported in the
function.

Bad input raises ValueError, OSError or an error of the package. ``failures`` prints one line and exits with code 1.
Warnings are ``warnings.warn(…)`` (a UserWarning) or ``failures.warn``. ``app`` has the order of the commands in
``--help``; tests/cli/test_app.py tests their common behaviour.
"""
