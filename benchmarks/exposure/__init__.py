"""Parts of ``benchmarks/exposure.py``: what was seen, and two families of read-outs."""
