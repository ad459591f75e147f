#!/usr/bin/env bash
# Sees to it that the images can be built and run here: pulls the base images, or where no registry answers makes
# them (integration/images/README.md), and then collects wheels, since such a build reaches no package index either.
# Then builds the image of brokers and tools under the name in KAFKA_IMAGE, or kafka2011.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s\n' "images: $*" >&2; }

docker info >/dev/null 2>&1 || {
    say "Docker does not answer: is it installed and running, and may $(id -un) use it?"
    exit 1
}

base_images() {
    sed -n 's/^ARG PYTHON_IMAGE=//p' Dockerfile
    sed -n 's/^ *image: \(zookeeper:.*\)$/\1/p' docker-compose.yml | sort -u
}

is_there() { docker image inspect "$1" >/dev/null 2>&1; }

is_stand_in() { [ -n "$(docker image inspect --format '{{ index .Config.Labels "kafka2011.stand-in" }}' "$1")" ]; }

stand_ins=no
for image in $(base_images); do
    if ! is_there "$image" && ! docker pull --quiet "$image" >/dev/null; then
        say "no registry gives $image"
        stand_ins=yes
    elif is_stand_in "$image"; then
        stand_ins=yes
    fi
done
if [ "$stand_ins" = yes ]; then
    scripts/setup.sh local
    scripts/wheels.sh &
    wheels=$!
    integration/images/make.sh
    wait "$wheels"
fi

name=${KAFKA_IMAGE:-kafka2011}
former=$(docker image inspect --format '{{ .Id }}' "$name" 2>/dev/null || true)
if ! output=$(docker build --target runtime --tag "$name" . 2>&1); then
    say "cannot build $name:" "$(tail -n 15 <<<"$output")"
    exit 1
fi
# What it replaces has no name any more, and older steps on the way to it serve nobody.
if [ -n "$former" ] && [ "$former" != "$(docker image inspect --format '{{ .Id }}' "$name")" ]; then
    docker image rm "$former" >/dev/null 2>&1 || true # containers may still use it, and other names
fi
docker image prune --force --filter label=kafka2011.stage=build --filter until=24h >/dev/null
