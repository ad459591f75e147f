#!/usr/bin/env bash
# Fills build/wheels with all that the image `runtime` installs, so that it is built without a network (and without
# pip's settings, which a build does not see):
#   scripts/wheels.sh          for brokers and tools
#   scripts/wheels.sh spark    and build/wheels-spark, for the image `spark`
# The project's own wheel, with the C code compiled, goes into build/project. Where there is no Python 3.11, which is the
# image's, all that is done in a container of the image's Python. What was made for the same pyproject.toml, or from the
# same sources, is used again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly DIRECTORY=build/wheels
readonly PROJECT=build/project

say() { printf '%s\n' "wheels: $*" >&2; }

fail() {
    say "$@"
    exit 1
}

# shellcheck source=apt.sh
. scripts/apt.sh

# crcmod is compiled here, for the Python of the image.
find_python() {
    local candidate
    for candidate in "${PYTHON:-.venv/bin/python}" .venv/bin/python python3.11 python3; do
        if "$candidate" -c 'import sys, pip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
}

# Runs this script again in a container, with this machine's network, settings of pip and certificates.
run_in_container() {
    local image certificates=${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt} options=() setting
    image=$(sed -n 's/^ARG PYTHON_IMAGE=//p' Dockerfile)
    [ ! -e "$certificates" ] || options+=(--volume "$certificates:/certificates.crt:ro" --env PIP_CERT=/certificates.crt)
    [ ! -e /etc/pip.conf ] || options+=(--volume /etc/pip.conf:/etc/pip.conf:ro)
    for setting in "${!PIP_@}"; do
        [ "$setting" = PIP_CERT ] || options+=(--env "$setting")
    done
    say "making wheels in a container of $image"
    # shellcheck disable=SC2016 # expanded in the container
    docker run --rm --network host --volume "$PWD:/source" --workdir /source --env "OWNER=$(id -u):$(id -g)" "${options[@]}" \
        "$image" bash -c 'python3 -m venv /tmp/python && mkdir -p build && PYTHON=/tmp/python/bin/python "$@"
            ended=$?; chown -R "$OWNER" build; exit $ended' bash scripts/wheels.sh "$@" ||
        fail "Python 3.11, the image's, is needed here or in a container of $image; PYTHON names one"
}

# Prints the requirements under a key of [project].
requirements() {
    "$python" -c '
import sys, tomllib
found = tomllib.load(open("pyproject.toml", "rb"))
for key in sys.argv[1:]:
    found = found[key]
print(*found, sep="\n")' "$@"
}

# Fills a directory anew, unless it was filled for the same requirements.
fill() {
    local directory=$1 wanted=$2
    shift 2
    [ "$(cat "$directory/requirements.txt" 2>/dev/null)" != "$wanted" ] || return 0
    say "filling $directory"
    rm -rf "$directory" "$directory.part"
    mkdir -p "$directory.part"
    printf '%s\n' "$wanted" >"$directory.part/requirements.txt"
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-input --use-pep517 --wheel-dir "$directory.part" "$@" \
        --requirement "$directory.part/requirements.txt" || fail "pip could not make the wheels"
    mv "$directory.part" "$directory"
}

# Makes the project's own wheel, in a copy of the sources; it needs no index.
compile() {
    local wanted
    wanted=$(scripts/sources.sh)
    [ "$(cat "$PROJECT/sources.sha256" 2>/dev/null)" != "$wanted" ] || return 0
    say "compiling kafka2011 into $PROJECT"
    ensure_compiler "$python"
    rm -rf "$PROJECT" "$PROJECT.part"
    mkdir -p "$PROJECT.part/source"
    cp -r LICENSE README.md pyproject.toml setup.py kafka2011 pyspark_kafka2011 zk "$PROJECT.part/source"
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-input --use-pep517 --no-deps \
        --no-index --find-links "$DIRECTORY" --wheel-dir "$PROJECT.part" "./$PROJECT.part/source" ||
        fail "pip could not make the wheel of kafka2011"
    compgen -G "$PROJECT.part/*-abi3-*.whl" >/dev/null || fail "kafka2011's C code was not compiled"
    rm -rf "$PROJECT.part/source"
    printf '%s\n' "$wanted" >"$PROJECT.part/sources.sha256"
    mv "$PROJECT.part" "$PROJECT"
}

python=$(find_python)
if [ -z "$python" ]; then
    run_in_container "$@"
    exit
fi
# Two that fill the same directories, as tests may at a time, would take them from under one another.
mkdir -p build
exec {lock}>build/wheels.lock
flock "$lock"
[ -d "$DIRECTORY" ] || ensure_compiler "$python"
# pip's cache may hold a crcmod that was made without a compiler.
wanted=$(requirements build-system requires && requirements project dependencies &&
    requirements project optional-dependencies gateway &&
        requirements project optional-dependencies metrics && requirements project optional-dependencies ui)
fill "$DIRECTORY" "$wanted" --no-cache-dir
if ! "$python" -m zipfile --list "$DIRECTORY"/crcmod-*.whl | grep '\.so ' >/dev/null; then
    rm -rf "$DIRECTORY"
    fail "crcmod was not compiled: a C compiler and Python's headers are needed (apt-get install gcc python3-dev)"
fi
compile
if [ "${1:-}" = spark ]; then
    wanted=$(for extra in pipeline spark warehouse; do requirements project optional-dependencies "$extra"; done)
    fill "$DIRECTORY-spark" "$wanted" --find-links "$DIRECTORY"
    # What both have is in the first one.
    for wheel in "$DIRECTORY"/*.whl; do rm -f "$DIRECTORY-spark/$(basename "$wheel")"; done
fi
