"""``python -m flfl``: the command line."""

from flfl.cli import main

if __name__ == "__main__":
    main(prog_name="flfl")
