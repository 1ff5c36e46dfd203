# SPDX-License-Identifier: Apache-2.0
"""The one exception of the converters."""


class ConversionError(ValueError):
    """A model or a setting cannot be used; the message is one line that says why and what to do.

    Nothing was written and no argument was changed where this is raised.
    """
