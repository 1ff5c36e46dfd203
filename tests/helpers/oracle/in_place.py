"""The order in which steps of a backward program read errors and write others, position by position."""

from collections.abc import Iterator, Mapping


def order(sizes: Mapping[str, int]) -> Iterator[tuple[int, set[int]]]:
    """Yields each position of a layer's or a pooling's inputs in the order in which its errors are written, with the
    positions of the outputs whose errors are read for it. ``sizes`` are the fields of the C struct.
    """

    def windows(at, side, begin):
        for element in range(sizes[f"k_{side}"]):
            inside = at + sizes[f"pad_{begin}"] - element * sizes.get(f"dilation_{side}", 1)
            output, rest = divmod(inside, sizes[f"stride_{side}"])
            if rest == 0 and 0 <= output < sizes[f"out_{side}"]:
                yield output

    for row in range(sizes["in_h"]):
        for column in range(sizes["in_w"]):
            outputs = {h * sizes["out_w"] + w for h in windows(row, "h", "top") for w in windows(column, "w", "left")}
            yield row * sizes["in_w"] + column, outputs


def least_lead(sizes: Mapping[str, int], in_c: int, out_c: int) -> int | None:
    """Returns how far, in values, written errors begin before those that are read, at least: no position that is
    written, or was, reaches one that is still to be read. None: everything has been read before the first is written.
    """
    steps = list(order(sizes))
    leads = [
        (written + 1) * in_c - output * out_c
        for i, (written, _) in enumerate(steps)
        for _, outputs in steps[i + 1 :]
        for output in outputs
    ]
    return max(leads, default=None)
