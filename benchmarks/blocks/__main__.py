"""Write blocks of networks that the repository does not have whole, to find what is slow in models of others.

    python -m benchmarks.blocks FOLDER [PATTERN ...]
    python -m benchmarks.models [PATTERN ...] --models FOLDER --threads 1

A block is small, so that what one operator loses is seen; the extents are those of networks that people use.
"""

from __future__ import annotations

import argparse
import re
from fnmatch import fnmatch
from pathlib import Path

import onnx

from benchmarks.blocks import graphs, others, vision


def main() -> None:
    """An ONNX file each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("patterns", nargs="*", default=["*"], help="names, with * and ?")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for make, chosen in (*vision.BLOCKS.items(), *others.BLOCKS.items(), *graphs.BLOCKS.items()):
        for given in chosen:
            name = "_".join([make.__name__, *re.findall(r"\w+", str(given).replace("'", ""))])
            if any(fnmatch(name, pattern) for pattern in options.patterns):
                onnx.save(make(*given), options.folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
