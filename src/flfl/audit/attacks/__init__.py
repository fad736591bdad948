"""One attack a file: its adversary, its assumptions, what is scored."""
