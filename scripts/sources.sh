#!/usr/bin/env bash
# Prints the sums of all that a wheel of this project is made from, which tell whether one is of the sources beside it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
find LICENSE README.md pyproject.toml setup.py kafka2011 pyspark_kafka2011 zk -type f ! -name '*.pyc' ! -name '*.so' -print0 |
    LC_ALL=C sort --zero-terminated | xargs --null sha256sum
