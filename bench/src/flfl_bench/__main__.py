"""``python -m flfl_bench`` is ``flfl-bench``."""

from flfl_bench.cli import main

if __name__ == "__main__":
    main(prog_name="flfl-bench")
