r"""The commands: one file each, found by its name.

To add a command ``frobnicate``, add ``frobnicate.py`` (an underscore becomes a dash) with

* ``EXAMPLE``, a command line, which ``--help`` shows;
* a function of the name of the file, whose docstring is the help and whose parameters are typer's:

    EXAMPLE = "tflm-zo frobnicate model.tflite -o report.json"

    def frobnicate(
        model: ModelFile, output: OutputReport = None, force: Force = False, as_json: Json = False
    ) -> None:
        \"\"\"What it does, one line.\"\"\"
        check_output(output, force=force)                   # before the work
        result = {"model": str(model)}                      # what --json prints
        write_report(output, result, force=force)
        show(result, as_json=as_json, render=lambda console: console.print(...))

Bad input raises ValueError, OSError or an error of the package. ``failures`` prints one line and exits with
code 1. Warnings are ``warnings.warn(…)`` (a UserWarning) or ``failures.warn``. Models and other
files are written with ``output_file.write_output``. Import slow modules in the function. ``app`` has the
order of the commands in ``--help``; tests/cli/test_app.py tests their common behaviour.
"""
