#!/usr/bin/env bash
# Installs what the benchmarks measure beside this project: RabbitMQ, ActiveMQ, Redis and NATS as Debian packages, whose
# services are not started; a Kafka of today, from Maven Central, and the Python clients into .venv; and into an
# environment of its own, .venv/spark-delta, a Spark that Delta's jars are made for. What cannot be had is left out, and
# named.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly PACKAGES=(rabbitmq-server activemq redis-server nats-server)
readonly KAFKA_VERSION=4.3.1
readonly KAFKA_JARS=.venv/kafka
readonly SPARK_VERSION=4.1.1 # the newest one of which Maven has all jars, and which Delta's are for
readonly DELTA=delta-spark_4.1_2.13
readonly DELTA_VERSION=4.4.0
readonly SPARK_DELTA=.venv/spark-delta
readonly POLICY=/usr/sbin/policy-rc.d

say() { printf '%s\n' "rivals: $*" >&2; }

fail() {
    say "$@"
    exit 1
}

# shellcheck source=apt.sh
. scripts/apt.sh

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

is_known() { apt-cache show "$1" >/dev/null 2>&1; }

# Benchmarks start servers of their own. A package asks this program whether it may start its service: 101 is no.
forbid_services() {
    if [ ! -e "$POLICY" ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$POLICY" >/dev/null
        as_root chmod 755 "$POLICY"
        trap 'as_root rm -f "$POLICY"' EXIT
    fi
}

missing=()
for package in "${PACKAGES[@]}"; do
    is_installed "$package" || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
    wanted="RabbitMQ, ActiveMQ, Redis and NATS are measured where they are installed: apt-get install ${missing[*]}"
    if command -v apt-get >/dev/null && as_root true 2>/dev/null; then
        _apt_get update || say "apt-get update failed"
        forbid_services
        for package in "${missing[@]}"; do
            if is_known "$package"; then
                (apt_install "$package" "$package could not be installed") || say "going on without $package"
            else
                say "going on without $package: this Debian does not have it"
            fi
        done
    else
        say "going on without ${missing[*]}. $wanted"
    fi
fi
scripts/setup.sh rivals

# Ivy, which comes with PySpark, reads Maven's repositories; IVY_OPTIONS may name settings, for a mirror. Fetches jars
# (ORGANISATION NAME VERSION, of as many as there are) with what they need into a directory, all or none.
fetch_jars() {
    local directory=$1 unfinished=$1.part ivy
    shift
    ivy=$(find .venv/lib -name 'ivy-*.jar' | head -n 1)
    rm -rf "$unfinished" "$directory"
    mkdir -p "$unfinished"
    {
        echo '<ivy-module version="2.0"><info organisation="kafka2011" module="rivals"/><dependencies>'
        while [ "$#" -gt 0 ]; do
            echo "<dependency org=\"$1\" name=\"$2\" rev=\"$3\" conf=\"default\"/>"
            shift 3
        done
        echo '</dependencies></ivy-module>'
    } >"$unfinished/ivy.xml"
    # shellcheck disable=SC2086  # options are several words
    java -jar "$ivy" ${IVY_OPTIONS:-} -ivy "$unfinished/ivy.xml" -cache "$unfinished/cache" -types jar bundle -warn \
        -retrieve "$unfinished/[artifact]-[revision].[ext]" >"$unfinished/ivy.log" 2>&1 || return 1
    rm -rf "$unfinished/cache"
    mv "$unfinished" "$directory"
}

fetch_kafka() {
    [ ! -e "$KAFKA_JARS/connect-file-$KAFKA_VERSION.jar" ] || return 0
    say "fetching Kafka $KAFKA_VERSION (54 MB)"
    fetch_jars "$KAFKA_JARS" org.apache.kafka kafka_2.13 "$KAFKA_VERSION" org.apache.kafka kafka-tools "$KAFKA_VERSION" \
        org.apache.kafka connect-file "$KAFKA_VERSION" org.slf4j slf4j-simple 1.7.36
}
fetch_kafka || say "going on without Kafka: Maven Central cannot be reached, see $KAFKA_JARS.part/ivy.log"

# crcmod and cramjam are what our own modules need there.
make_spark_delta() {
    [ ! -e "$SPARK_DELTA/jars/$DELTA-$DELTA_VERSION.jar" ] || return 0
    say "making $SPARK_DELTA: PySpark $SPARK_VERSION and Delta $DELTA_VERSION (650 MB)"
    .venv/bin/python -m venv "$SPARK_DELTA" || return 1
    "$SPARK_DELTA/bin/pip" install --quiet --disable-pip-version-check --no-input \
        "pyspark==$SPARK_VERSION" psutil crcmod cramjam || return 1
    fetch_jars "$SPARK_DELTA/jars" io.delta "$DELTA" "$DELTA_VERSION" \
        org.apache.spark spark-sql-kafka-0-10_2.13 "$SPARK_VERSION" org.apache.spark spark-avro_2.13 "$SPARK_VERSION"
}
make_spark_delta || say "going on without Spark beside Delta, see $SPARK_DELTA/jars.part/ivy.log"
.venv/bin/python - <<'PYTHON'
from paper_benchmarks.systems.kinds import KINDS

for kind in KINDS.values():
    print(f"{kind.title}: {kind.missing() or 'can be measured'}")
PYTHON
