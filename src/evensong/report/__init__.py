"""The report: verdicts, stories and measurements of traces, as one HTML file that stands alone.

Data comes in as plain values (`model`), a page goes out (`page.render`); equal values give equal
bytes. Nothing here knows Spark, and nothing in a page is loaded or run: no script, no network.
"""

from evensong.report.model import Report
from evensong.report.page import render

__all__ = ["Report", "render"]
