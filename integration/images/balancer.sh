#!/usr/bin/env bash
# Makes the load balancer's image of docker-compose.yml from Debian's haproxy, over the image of Python, where no image
# registry reaches. An image that it did not make, or that is up to date, stays. Needs a running Docker, and no root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly SUITE=bookworm # what the image of Python is made of, and what haproxy is made for
readonly MARK="kafka2011 stand-in"

image=$(sed -n 's/^ *image: \(haproxy:.*\)$/\1/p' docker-compose.yml)
base=$(sed -n 's/^ARG PYTHON_IMAGE=//p' Dockerfile)
version=$(cat integration/images/balancer.sh integration/debian/archive.sh | sha256sum | cut -c1-16)
if comment=$(docker image inspect --format '{{ .Comment }}' "$image" 2>/dev/null) &&
    [[ $comment != "$MARK "* || $comment = "$MARK $version" ]]; then
    exit 0
fi

printf '%s\n' "images: making $image" >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
docker run --rm --network none "$base" cat /var/lib/dpkg/status >"$work/status"
DPKG_STATUS=$work/status integration/debian/archive.sh "$SUITE" complete haproxy "$work/unpacked" 2>"$work/log" || {
    printf '%s\n' "images: cannot fetch haproxy:" "$(tail -n 3 "$work/log")" >&2
    exit 1
}
# Only these: where the image has links to /usr, a package may have directories.
mkdir -p "$work/content/usr"
mv "$work/unpacked/usr/sbin" "$work/unpacked/usr/lib" "$work/content/usr"
container=$(docker create --network none "$base" sh -c \
    'groupadd --gid 99 haproxy && useradd --uid 99 --gid haproxy --no-create-home haproxy')
docker cp "$work/content/." "$container:/" >/dev/null 2>&1 && docker start --attach "$container" &&
    docker commit --message "$MARK $version" --change 'USER haproxy' \
        --change 'CMD ["haproxy", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]' "$container" "$image" >/dev/null || {
    docker rm --force "$container" >/dev/null
    exit 1
}
docker rm "$container" >/dev/null
