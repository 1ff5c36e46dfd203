"""The command line ``tflm-zo``.

``app``                the application: finds the commands and runs them.
``commands``           one file per command; see there how to add one.
``options``            options that several commands have, spelled and described alike.
``algorithm_options``  settings of an algorithm, whose defaults are the algorithm's own.
``injection``          plain models where a ZO model is needed.
``node_table``         the layers of a ZO model that carry nodes.
``failures``           exceptions become one line on stderr and an exit code.
``results``            a command's result, for people or as JSON.
``output_file``        files that appear whole or not at all and replace nothing unasked.
``progress``           a progress bar for work of more than two seconds.
"""

from .app import app, main

__all__ = ["app", "main"]
