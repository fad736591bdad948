"""A site's process loads nothing that it does not need."""

import subprocess
import sys


def test_a_site_starts_without_table_readers_and_trees():
    code = (
        "import sys, flfl.service.site\n"
        "heavy = ('pandas', 'pyarrow', 'sklearn', 'scipy.optimize', 'scipy.stats', 'sqlalchemy')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
