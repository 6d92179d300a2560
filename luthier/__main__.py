"""`python -m luthier` is the command `luthier`."""

from luthier.cli.main import main

if __name__ == "__main__":
    main()
