from .gallery import card, gallery, parts, result
from .report import Kind, Plot, Report, Table
from .thumbnails import Shown, thumbnail
from .write import Images, check_report, ranking_report, write_page, write_report

__all__ = [
    "Images",
    "Kind",
    "Plot",
    "Report",
    "Shown",
    "Table",
    "card",
    "check_report",
    "gallery",
    "parts",
    "ranking_report",
    "result",
    "thumbnail",
    "write_page",
    "write_report",
]
