"""Reports: one HTML page about training runs, or about a model.

from pathlib import Path

run = read_run(Path("run.zolog"), [])
html = page(report_runs([run]))
"""

from .document import VERSION, ModelReport, RunsReport, as_data, as_json
from .model_explorer import node_data_of_model, node_data_of_run
from .model_report import report_model
from .page import page, write_report
from .plots import require_matplotlib
from .recorded_run import RecordedRun, ZoFile, read_run
from .run_report import MOST_RUNS, TestData, report_runs

__all__ = [
    "MOST_RUNS",
    "VERSION",
    "ModelReport",
    "RecordedRun",
    "RunsReport",
    "TestData",
    "ZoFile",
    "as_data",
    "as_json",
    "node_data_of_model",
    "node_data_of_run",
    "page",
    "read_run",
    "report_model",
    "report_runs",
    "require_matplotlib",
    "write_report",
]
