#!/usr/bin/env bash
# Makes .venv with this project and one of its extras in it, on a Debian machine that may have nothing yet:
#   scripts/setup.sh local    a cluster on this machine
#   scripts/setup.sh quick    a cluster on this machine by Debian's ZooKeeper, and the tiers of the demo that need no Spark
#   scripts/setup.sh demo     a cluster on this machine, and all tiers of the demo
#   scripts/setup.sh test     that, and everything the tests need
#   scripts/setup.sh bench    a cluster on this machine, and what the benchmarks need
#   scripts/setup.sh rivals   that, and the clients of the systems that are measured beside this one
#   scripts/setup.sh packages print which Debian packages it may install
# What is there is reused; a second run takes a few milliseconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=.venv
readonly EXTRA=${1:?which extra: local, quick, demo, test, bench or rivals}
readonly LEAST_JAVA=17
# Names that every Debian has: its Java is 17 in Debian 12 and 21 in Debian 13, its Python 3.11 and 3.13.
readonly JAVA_PACKAGES=(default-jre-headless)
readonly PYTHON_PACKAGES=(python3 python3-venv)
readonly ZOOKEEPER_PACKAGES=(libzookeeper-java) # a small way to a ZooKeeper; tests try it beside PySpark's

say() { printf '%s\n' "setup: $*" >&2; }

fail() {
    say "$@"
    exit 1
}

# shellcheck source=apt.sh
. scripts/apt.sh

java_version() {
    local java=java
    if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then
        java=$JAVA_HOME/bin/java
    fi
    "$java" -version 2>&1 | sed -n 's/.* version "\([0-9][0-9]*\).*/\1/p' || true
}

ensure_java() {
    local found
    found=$(java_version)
    [ "${found:-0}" -lt "$LEAST_JAVA" ] || return 0
    local wanted="Java $LEAST_JAVA or later is needed: apt-get install ${JAVA_PACKAGES[*]}, or set JAVA_HOME"
    apt_install "${JAVA_PACKAGES[@]}" "$wanted"
    found=$(java_version)
    [ "${found:-0}" -ge "$LEAST_JAVA" ] || fail "$wanted (the java that is found first has version ${found:-none})"
}

# A python3 may be too old, may be a shim that leads nowhere, and on Debian may lack the modules that `venv` needs.
find_python() {
    local candidate
    for candidate in "${PYTHON:-python3}" python3 /usr/bin/python3 python3.11 python3.12 python3.13 python3.14; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            [ "$1" = any ] || "$candidate" -c 'import ensurepip, venv' 2>/dev/null || continue
            printf '%s\n' "$candidate"
            return
        fi
    done
}

ensure_python() {
    python=$(find_python with-venv)
    [ -z "$python" ] || return 0
    apt_install "${PYTHON_PACKAGES[@]}" \
        "Python 3.11 or later with its venv module is needed: apt-get install python3-venv, or set PYTHON"
    python=$(find_python with-venv)
    [ -n "$python" ] || fail "no Python 3.11 or later with a venv module was found: install one, or set PYTHON"
}

# A virtual environment does not work where it was not made: its scripts begin with its path.
venv_works() {
    "$VENV/bin/python" -m pip --version >/dev/null 2>&1 || return 1
    [ ! -e "$VENV/made-in" ] || [ "$(cat "$VENV/made-in")" = "$PWD" ]
}

# Prints what an installation depends on: the C code too, and whether there was a compiler for it.
state() {
    cat pyproject.toml setup.py kafka2011/*/*.[ch] kafka2011/*/*/*.[ch]
    command -v gcc || true
}

installed() {
    ! cmp -s <(state) "$VENV/installed-$EXTRA" || return 0
    # Which have all that these have.
    [[ $EXTRA = @(local|quick|demo) ]] && cmp -s <(state) "$VENV/installed-test" && return 0
    [[ $EXTRA = @(local|quick) ]] && cmp -s <(state) "$VENV/installed-demo"
}

# What an installation takes: on disk, and at 50 Mbit/s.
cost() {
    case $EXTRA in
        quick) echo "300 MB on disk, about a minute" ;;
        local) echo "600 MB on disk, about two minutes" ;;
        demo) echo "1.2 GB on disk, about four minutes" ;;
        test) echo "1.6 GB on disk, about five minutes" ;;
        *) echo "up to 2 GB on disk, about six minutes" ;;
    esac
}

if [ "$EXTRA" = packages ]; then
    printf '%s\n' "${JAVA_PACKAGES[@]}" "${PYTHON_PACKAGES[@]}" "${COMPILER_PACKAGES[@]}" "${ZOOKEEPER_PACKAGES[@]}"
    exit
fi
ensure_java
if ! venv_works; then
    ensure_python
    say "making $VENV with $("$python" -V)"
    "$python" -m venv --clear "$VENV" || fail "$python -m venv failed"
    printf '%s\n' "$PWD" >"$VENV/made-in"
fi
if ! installed; then
    say "installing kafka2011[$EXTRA] into $VENV: $(cost)"
    rm -f "$VENV/installed-$EXTRA"
    if [ "$EXTRA" = test ]; then
        ensure_compiler "$VENV/bin/python"
        [ -e /usr/share/java/zookeeper.jar ] ||
            (apt_install "${ZOOKEEPER_PACKAGES[@]}" "the test of ${ZOOKEEPER_PACKAGES[*]} will be skipped") || true
    else
        [ "$EXTRA" != quick ] || [ -e /usr/share/java/zookeeper.jar ] || apt_install "${ZOOKEEPER_PACKAGES[@]}" \
            "a ZooKeeper is needed: apt-get install ${ZOOKEEPER_PACKAGES[*]}, or make demo, which has one from PySpark"
        (ensure_compiler "$VENV/bin/python") || say "going on without them: Python does the same, but slower"
    fi
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --use-pep517 -e ".[$EXTRA]" >&2 ||
        fail "pip could not install kafka2011[$EXTRA]"
    # The demo's set-up may have come first, and found no compiler.
    if [ "$EXTRA" = test ] && ! "$VENV/bin/python" -c 'import crcmod._crcfunext' 2>/dev/null; then
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --use-pep517 \
            --force-reinstall --no-deps --no-cache-dir crcmod >&2 || fail "pip could not compile crcmod"
    fi
    state >"$VENV/installed-$EXTRA"
fi
