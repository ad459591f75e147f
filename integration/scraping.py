"""Reads metrics as Prometheus does, from where a process says that it shows them."""

from __future__ import annotations

import re
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

_SHOWN = re.compile(r"http://127\.0\.0\.1:(\d+)/metrics")


def shown_port(output: str) -> int:
    """Return the port that a process has printed or logged last."""
    return int(_SHOWN.findall(output)[-1])


def numbers(port: int) -> dict[tuple[str, ...], float]:
    """Return numbers by name and values of labels, in the order of the labels' names."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def metrics_of(output: str) -> dict[tuple[str, ...], float]:
    """Return the numbers of a process by what it has printed."""
    return numbers(shown_port(output))
