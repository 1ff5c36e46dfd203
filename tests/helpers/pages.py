"""The Markdown pages of this repository, and the examples in them."""

import atexit
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from helpers.commands import invoke

REPOSITORY = Path(__file__).parents[2]
README = REPOSITORY / "README.md"
DOCS = REPOSITORY / "docs"
GUIDE = DOCS / "from-keras-to-a-training-cortex-m.md"
TUTORIAL = DOCS / "tutorial.md"
HOW_TO = DOCS / "how-to"


def pages() -> list[Path]:
    """Lists every page that git knows or would add, so that no new one is forgotten."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    found = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    return [REPOSITORY / name for name in sorted(found.splitlines()) if (REPOSITORY / name).exists()]


@dataclass(frozen=True)
class Block:
    """Fenced text, the language it is marked with, and the file that the sentence before names, if any."""

    language: str
    text: str
    file: str | None = None

    @property
    def commands(self) -> list[str]:
        """Of a shell block: its command lines, without comments, each on one line."""
        lines = re.sub(r"\\\n\s*", "", self.text).splitlines()
        stripped = [re.sub(r"(^|\s)#\s.*$", "", line).strip() for line in lines]
        return [line for line in stripped if line]


def blocks(page: Path, *languages: str) -> list[Block]:
    """Returns the fenced blocks of a page, in order; those of some languages alone, if any are named."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"(?:`([\w.-]+)`:\n\n)?^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    every = [Block(language, text, file) for file, language, text in (m.groups() for m in found)]
    return [block for block in every if not languages or block.language in languages]


_clusters: list[subprocess.Popen[bytes]] = []


def start_or_stop_ray(command: str, *arguments: str) -> None:
    """Runs ``ray start``, and ends the clusters that were started here; ``ray stop`` would stop others, too."""
    if command == "stop":
        while _clusters:
            cluster = _clusters.pop()
            cluster.terminate()
            cluster.wait(60)
        shutil.rmtree(os.environ.pop("RAY_TMPDIR", ""), ignore_errors=True)
        return
    # Where Ray notes which cluster is the machine's.
    os.environ["RAY_TMPDIR"] = tempfile.mkdtemp(prefix="ray")
    atexit.register(start_or_stop_ray, "stop")
    ray = Path(sys.executable).with_name("ray")
    _clusters.append(subprocess.Popen([ray, command, *arguments, "--block"], stdout=subprocess.DEVNULL))
    # `ray status` of Ray 2.60 does not find the token of its own cluster.
    connect = [sys.executable, "-c", "import ray; ray.init('auto')"]
    for _ in range(60):
        if not subprocess.run(connect, capture_output=True, timeout=60).returncode:
            return
        time.sleep(1)
    raise AssertionError("Ray does not begin")


def run_command(line: str) -> str:
    """Runs a line ``tflm-zo …``, with variables of the environment before it, or one of Ray's command, in the working
    directory. Returns its output.
    """
    words = shlex.split(line)
    variables = list(itertools.takewhile(lambda word: re.fullmatch(r"[A-Z_]+=.*", word), words))
    program, *arguments = words[len(variables) :]
    if program == "ray":
        start_or_stop_ray(*arguments)
        return ""
    assert program == "tflm-zo", line
    with mock.patch.dict(os.environ, dict(word.split("=", 1) for word in variables)):
        done = invoke(*arguments)
    assert done.exit_code == 0, f"{line}\n{done.output}"
    return done.output
