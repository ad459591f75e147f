# Three images: `runtime` for brokers and tools, `spark`, which adds Java and PySpark to it, and `all-in-one`, which adds
# Java and ZooKeeper, to try it out and for tests.
#
#   docker build --target runtime -t kafka2011:0.2.0 .            or: make images
#   docker build --target spark -t kafka2011-spark:0.2.0 .        or: make images EXTRA=spark
#   docker build --target all-in-one -t kafka2011-all-in-one:0.2.0 .      or: make images EXTRA=all-in-one
#
# Packages come from build/wheels (and build/wheels-spark) where `make wheels` filled them, else from PyPI. A builder
# without BuildKit goes through all stages before the one that is asked for, so Java stands behind `runtime`.

ARG PYTHON_IMAGE=python:3.11-slim-bookworm
ARG JAVA_IMAGE=eclipse-temurin:17-jre-jammy
ARG ZOOKEEPER_IMAGE=zookeeper:3.9.5

# ---- what is installed, in a virtual environment that has no pip of its own

FROM ${PYTHON_IMAGE} AS build
LABEL kafka2011.stage=build
# pyproject.toml stands here because COPY fails when it finds nothing at all.
COPY pyproject.toml build/wheel[s] /wheels/
RUN set -eu; \
    if ls /wheels/*.whl >/dev/null 2>&1; then \
        printf '[global]\nno-index = true\nfind-links = /wheels\n' >/etc/pip.conf; \
    else \
        apt-get update; \
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends gcc libc6-dev; \
    fi; \
    python3 -m venv /opt/pip; \
    python3 -m venv --without-pip /opt/kafka2011; \
    python3 -c 'import tomllib; found = tomllib.load(open("/wheels/pyproject.toml", "rb"))["project"]; \
print(*found["dependencies"], *(package for extra in ("gateway", "metrics", "ui") for package in found["optional-dependencies"][extra]), sep="\n")' \
        >/tmp/requirements.txt; \
    /opt/pip/bin/pip --python /opt/kafka2011/bin/python --disable-pip-version-check --no-cache-dir \
        install --quiet --requirement /tmp/requirements.txt; \
    /opt/kafka2011/bin/python -c 'import crc32c, crcmod._crcfunext, cramjam, prometheus_client, uvicorn'
COPY LICENSE README.md pyproject.toml setup.py build/projec[t] /source/
COPY scripts/sources.sh /source/scripts/
COPY zk /source/zk
COPY pyspark_kafka2011 /source/pyspark_kafka2011
COPY kafka2011 /source/kafka2011
# The C code is compiled here, or was by `make wheels`, if from these very sources.
RUN set -eu; \
    cd /source; \
    made=/source; \
    if [ -e sources.sha256 ] && bash scripts/sources.sh | cmp -s - sources.sha256; then made=$(ls /source/*.whl); fi; \
    echo "$made" >made; \
    /opt/pip/bin/pip --python /opt/kafka2011/bin/python --disable-pip-version-check --no-cache-dir \
        install --quiet --no-deps "$made"; \
    /opt/kafka2011/bin/kafka2011 --version

# ---- brokers and tools

FROM ${PYTHON_IMAGE} AS runtime
LABEL kafka2011.stage=runtime \
      org.opencontainers.image.title="kafka2011" \
      org.opencontainers.image.description="The messaging system of the 2011 Kafka paper" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --system --gid 2011 kafka2011 && \
    useradd --system --uid 2011 --gid kafka2011 --home-dir /var/lib/kafka2011 --shell /usr/sbin/nologin kafka2011 && \
    install --directory --owner=kafka2011 --group=kafka2011 /var/lib/kafka2011 && \
    install --directory --owner=kafka2011 --group=kafka2011 --mode=750 /etc/kafka2011
# A broker still needs KAFKA2011_BROKERID, KAFKA2011_HOSTNAME and KAFKA2011_ZK_CONNECT.
ENV PATH=/opt/kafka2011/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    KAFKA2011_BIND_ADDRESS=0.0.0.0 \
    KAFKA2011_LOG_DIR=/var/lib/kafka2011/logs
USER kafka2011
EXPOSE 6667
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=3 CMD ["kafka2011", "ping"]
ENTRYPOINT ["kafka2011"]
CMD ["broker"]
# The last step, since only this one is not the same for every version.
COPY --from=build /opt/kafka2011 /opt/kafka2011

# ---- and ZooKeeper, all in one container

FROM ${ZOOKEEPER_IMAGE} AS zookeeper
LABEL kafka2011.stage=zookeeper
USER root
# Where the official image has its jars, and where a stand-in of ours does.
RUN mkdir /jars && for jar in /apache-zookeeper-*/lib/*.jar /opt/zookeeper/jars/*.jar; do \
        [ ! -e "$jar" ] || cp "$jar" /jars; \
    done && ls /jars/zookeeper-*.jar

FROM runtime AS all-in-one
LABEL kafka2011.stage=all-in-one
COPY --from=zookeeper /opt/java/openjdk /opt/java/openjdk
COPY --from=zookeeper /jars /opt/zookeeper/jars
ENV JAVA_HOME=/opt/java/openjdk \
    ZOOKEEPER_JARS=/opt/zookeeper/jars
EXPOSE 2181 6667
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=3 CMD ["kafka2011", "ping", "--zookeeper", "localhost"]
CMD ["cluster", "--brokers=1", "--bind-address=0.0.0.0", "--override=hostname=localhost"]

# ---- and Spark

FROM ${JAVA_IMAGE} AS java

FROM build AS build-spark
LABEL kafka2011.stage=build-spark
COPY pyproject.toml build/wheels-spar[k] /wheels/
RUN /opt/pip/bin/pip --python /opt/kafka2011/bin/python --disable-pip-version-check --no-cache-dir \
    install --quiet "$(cat /source/made)[pipeline,spark,warehouse]"

FROM runtime AS spark
LABEL kafka2011.stage=spark
COPY --from=java /opt/java/openjdk /opt/java/openjdk
COPY --from=build-spark /opt/kafka2011 /opt/kafka2011
# Brokers that a job starts for itself are for nobody else.
ENV JAVA_HOME=/opt/java/openjdk \
    KAFKA2011_BIND_ADDRESS=127.0.0.1 \
    PATH=/opt/java/openjdk/bin:$PATH
HEALTHCHECK NONE
ENTRYPOINT []
CMD ["python3"]
