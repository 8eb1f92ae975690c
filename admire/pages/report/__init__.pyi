from .gallery import card, gallery, parts, result
from .plots import ranking_plots, retrieval_plots, senses_plots
from .report import Kind, Plot, Report, Table
from .texts import retrieval_report, senses_report
from .thumbnails import Shown, thumbnail
from .write import check_report, write_report

__all__ = [
    "Kind",
    "Plot",
    "Report",
    "Shown",
    "Table",
    "card",
    "check_report",
    "gallery",
    "parts",
    "ranking_plots",
    "result",
    "retrieval_plots",
    "retrieval_report",
    "senses_plots",
    "senses_report",
    "thumbnail",
    "write_report",
]
