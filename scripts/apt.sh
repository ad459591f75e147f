# To be sourced by a script that has `say` and `fail`: installs Debian packages where that is allowed.
# shellcheck shell=bash

readonly COMPILER_PACKAGES=(gcc libc6-dev python3-dev)

# crcmod comes as source; it and this project leave their C parts out where they cannot be compiled for this Python.
ensure_compiler() {
    command -v gcc >/dev/null &&
        "$1" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
        apt_install "${COMPILER_PACKAGES[@]}" \
            "a C compiler and Python's headers are needed to compile crcmod and kafka2011: apt-get install ${COMPILER_PACKAGES[*]}"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Installs packages; the last argument is what to fail with where that is not possible.
apt_install() {
    local instead=${*: -1} packages=("${@:1:$#-1}")
    if ! command -v apt-get >/dev/null || ! as_root true 2>/dev/null; then
        fail "$instead"
    fi
    say "installing ${packages[*]} (apt-get)"
    local install=(install --no-install-recommends "${packages[@]}")
    # The lists may be missing, or older than the archive.
    _apt_get "${install[@]}" 2>/dev/null && return
    _apt_get update || say "apt-get update failed"
    _apt_get "${install[@]}" || fail "$instead"
}

# Runs apt-get without questions; says what it said only when it fails.
_apt_get() {
    local output
    output=$(as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -y -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 "$@" </dev/null 2>&1) || {
        printf '%s\n' "$output" >&2
        return 1
    }
}
