"""The report of a run: one HTML page that opens anywhere, from the typed record of the run.

`render` gives the page as text, `write_report` puts it into a file.
"""

from components.report.page import render, write_report

__all__ = ["render", "write_report"]
