"""``python -m flfl_bench`` is ``flfl-bench``."""

from flfl_bench.cli import main

main()
