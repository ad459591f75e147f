#!/usr/bin/env bash
# Starts the cluster in docker-compose.yml, with either Compose, and waits until all of it is healthy. Arguments are
# options of Compose (scripts/up.sh --profile demo), and it reads the same variables (COMPOSE_PROFILES=demo). SERVICES
# names those to start, with what they depend on, in place of all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TIMEOUT_S=${UP_TIMEOUT_S:-180}

say() { printf '%s\n' "up: $*" >&2; }

# Prints name, state and health of every container that is not yet as it should be.
not_ready() {
    local ids
    ids=$(scripts/compose.sh "$@" ps --all --quiet)
    # shellcheck disable=SC2086 # one word for each container
    docker inspect --format '{{ .Name }} {{ .State.Status }}{{ with .State.Health }} {{ .Status }}{{ end }}'"\
{{ if eq .State.Status \"exited\" }} {{ .State.ExitCode }}{{ end }}" $ids |
        grep -v -e ' running healthy$' -e ' running$' -e ' exited 0$' || true
}

scripts/images.sh
version=$(scripts/compose.sh version --short)
say "Compose $version"
# docker-compose 1.29.2 cannot recreate containers on newer engines (KeyError: 'ContainerConfig').
case $version in
1.*) scripts/compose.sh "$@" down --timeout 60 ;;
esac
# shellcheck disable=SC2086 # names with blanks between them
scripts/compose.sh "$@" up --detach --no-build ${SERVICES:-}

deadline=$((SECONDS + TIMEOUT_S))
while waiting=$(not_ready "$@") && [ -n "$waiting" ]; do
    if ((SECONDS > deadline)); then
        say "not healthy after $TIMEOUT_S s; see $(dirname "$0")/compose.sh logs:" "$waiting"
        exit 1
    fi
    sleep 0.5
done
scripts/images.sh tidy
scripts/compose.sh "$@" ps
