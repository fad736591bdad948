"""One self-contained HTML page of a run: map, series, heat map, scores, traffic.

Bokeh and Jinja come with the extra ``report`` and are imported only when a page is written.
"""

from flfl.report.page import SUFFIXES, check_report_extra, missing_libraries, write_page

__all__ = ["SUFFIXES", "check_report_extra", "missing_libraries", "write_page"]
