"""`kafka2011 report`: its options are its own, and those that reports say of themselves."""

from __future__ import annotations

import subprocess
import sys

import click

from kafka2011.cli.report import command
from kafka2011.reports.catalog import REPORTS
from kafka2011.reports.settings import SETTINGS


def test_settings_of_reports_are_options() -> None:
    """Each by the option that its report names, with its default, and no other."""
    found = {each.name: each for each in command.params if isinstance(each, click.Option)}
    for setting in (setting for report in REPORTS for setting in report.settings):
        if setting.option:
            assert found[setting.name].opts == [setting.option]
            assert found[setting.name].default == setting.default
        else:
            assert setting.name not in found
    assert [found["own_sites"].multiple, found["scraper_views_per_minute"].multiple] == [True, False]


def test_all_settings_of_reports_are_known_without_reports() -> None:
    """The command shows them where PySpark is not installed, and reports cannot be imported."""
    assert set(SETTINGS) == {setting for report in REPORTS for setting in report.settings}


def test_without_pyspark_it_says_so() -> None:
    """In one line; the module itself can be imported, as the shell's completion does."""
    script = (
        "import sys\nsys.modules['pyspark'] = None\n"
        "from kafka2011.cli.app import main\nimport kafka2011.cli.report\n"
        "sys.exit(main(['report', '--into', 'x', '--from-brokers']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "error: pyspark is not installed: pip install 'kafka2011[pipeline,spark,warehouse]'" in done.stderr
    assert done.stderr.count("\n") == 1
