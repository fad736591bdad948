"""Logs end with a size, or go on in a new file when the old one was moved away."""

import json
import logging

from flfl.config import ReportSettings
from flfl.service.logs import start_logging


def test_a_log_is_cut_into_a_few_files(tmp_path, own_log):
    start_logging(ReportSettings(log=tmp_path / "a.log", log_size=2000, log_files=2), "a")
    for number in range(200):
        logging.getLogger("flfl.site").info("line %d", number)
    assert {path.name for path in tmp_path.iterdir()} == {"a.log", "a.log.1", "a.log.2"}
    assert all(path.stat().st_size <= 2000 for path in tmp_path.iterdir())
    last = json.loads((tmp_path / "a.log").read_text().splitlines()[-1])
    assert last["says"] == "line 199"


def test_another_program_may_move_it_away(tmp_path, own_log):
    start_logging(ReportSettings(log=tmp_path / "a.log", log_size=0), "a")
    log = logging.getLogger("flfl.site")
    log.info("first")
    (tmp_path / "a.log").rename(tmp_path / "old.log")
    log.info("second")
    assert "second" in (tmp_path / "a.log").read_text()
    assert "second" not in (tmp_path / "old.log").read_text()
