"""Write a network with its weights: python -m examples.networks NAME OUT."""

from __future__ import annotations

import argparse
from pathlib import Path

from examples.networks import NAMES, filled


def main() -> None:
    """Parse the arguments, write the file, print its path."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.networks", description="Fill a network with weights."
    )
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("out", type=Path, help="folder, made if it is missing")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(filled(arguments.name, arguments.out, arguments.seed))


if __name__ == "__main__":
    main()
