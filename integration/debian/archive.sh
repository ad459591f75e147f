#!/usr/bin/env bash
# Asks Debian's archive, about another release than this machine's too, with an apt that changes nothing on this machine.
# Needs no root.
#
#   archive.sh SUITE simulate PACKAGE...       print what `apt-get install` would install where nothing is installed
#   archive.sh SUITE download PACKAGE FOLDER   unpack a package into a new folder
#   archive.sh SUITE complete PACKAGE FOLDER   and what it depends on that is not installed here, where SUITE is too (or
#                                              by another dpkg's list of SUITE, which DPKG_STATUS names)
#
# Ends with 3 where the archive cannot be read, and says why.
set -euo pipefail

readonly SUITE=$1 ACTION=$2 PACKAGES=("${@:3}")
readonly MIRROR=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
readonly KEYS=/usr/share/keyrings/debian-archive-keyring.gpg

unreadable() {
    printf '%s\n' "archive: cannot read $SUITE from $MIRROR: $*" >&2
    exit 3
}

command -v apt-get >/dev/null || unreadable "there is no apt-get here"
[ -e "$KEYS" ] || unreadable "there is no $KEYS"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{etc,state/lists/partial,cache/archives/partial}
printf 'deb [signed-by=%s] %s %s main\n' "$KEYS" "$MIRROR" "$SUITE" >"$work/sources.list"
: >"$work/status"
# Read before any option below, so that the machine's own settings (of a proxy, say) still count.
cat >"$work/apt.conf" <<END
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State "$work/state";
Dir::State::Status "$work/status";
Dir::Cache "$work/cache";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "20";
APT::Sandbox::User "$(id -un)";
APT::Update::Error-Mode "any";
APT::Update::Post-Invoke-Success "";
END
export APT_CONFIG=$work/apt.conf
said=$(apt-get -q update 2>&1) || unreadable "$said"

case $ACTION in
simulate) apt-get -q --simulate --no-install-recommends install "${PACKAGES[@]}" ;;
download)
    mkdir "$work/package"
    (cd "$work/package" && apt-get -q download "${PACKAGES[0]}") >&2
    dpkg-deb --extract "$work/package"/*.deb "${PACKAGES[1]}"
    ;;
complete)
    apt-get -q -y --download-only --no-install-recommends -o "Dir::State::Status=${DPKG_STATUS:-/var/lib/dpkg/status}" \
        -o Debug::NoLocking=true install "${PACKAGES[0]}" >&2 || unreadable "${PACKAGES[0]}"
    for package in "$work"/cache/archives/*.deb; do dpkg-deb --extract "$package" "${PACKAGES[1]}"; done
    ;;
*)
    echo "archive: $ACTION is none of simulate, download, complete" >&2
    exit 2
    ;;
esac
