"""A second implementation of the arithmetic, from the specifications in ops/core's headers, never from the C files."""
