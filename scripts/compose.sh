#!/usr/bin/env bash
# Runs Compose: v2 (`docker compose`) where it answers, else docker-compose 1.29.2; or the program in COMPOSE. A first
# word `compose` is left out, so that this can stand in for `docker` where only `docker compose ...` is called.
set -euo pipefail

[ "${1:-}" != compose ] || shift
if [ -n "${COMPOSE:-}" ]; then
    exec "$COMPOSE" "$@"
elif docker compose version >/dev/null 2>&1; then
    exec docker compose "$@"
elif command -v docker-compose >/dev/null; then
    exec docker-compose "$@"
fi
echo "compose: neither 'docker compose' nor docker-compose answers: install one of them" >&2
exit 1
