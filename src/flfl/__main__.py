"""``python -m flfl`` is ``flfl``."""

from flfl.cli import main

if __name__ == "__main__":
    main(prog_name="flfl")
