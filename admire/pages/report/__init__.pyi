from .gallery import gallery
from .report import Plot, Report, Table
from .thumbnails import Shown, thumbnail
from .write import check_report, write_report

__all__ = [
    "Plot",
    "Report",
    "Shown",
    "Table",
    "check_report",
    "gallery",
    "thumbnail",
    "write_report",
]
