"""A plain model in the bare runtime: ``python -m fuzz.files.bare_runtime FILE RUNTIME``, without the package.

If this process dies as well, the runtime cannot run the model, independent of the package.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np


def values(rng: np.random.Generator, details: dict[str, Any]) -> Any:
    shape, dtype = tuple(details["shape"]), np.dtype(details["dtype"])
    if dtype.kind == "f":
        return rng.uniform(-1.5, 1.5, shape).astype(dtype)
    return rng.integers(0, 100, shape).astype(dtype)


def run(path: str, name: str) -> None:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kinds = {"builtin": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, "reference": OpResolverType.BUILTIN_REF}
    interpreter = Interpreter(
        model_content=Path(path).read_bytes(), num_threads=1, experimental_op_resolver_type=kinds[name]
    )
    interpreter.allocate_tensors()
    rng = np.random.default_rng(0)
    for _ in range(3):
        for details in interpreter.get_input_details():
            interpreter.set_tensor(details["index"], values(rng, details))
        interpreter.invoke()
        for details in interpreter.get_output_details():
            interpreter.get_tensor(details["index"])


if __name__ == "__main__":
    run(*sys.argv[1:])
