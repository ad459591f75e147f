#!/usr/bin/env bash
# Sees to it that the images can be built and run here: pulls the base images, or where no registry answers makes
# them (integration/images/README.md), and then collects wheels, since such a build reaches no package index either.
# Then builds:
#   scripts/images.sh          the image of brokers and tools, under the name in KAFKA_IMAGE or docker-compose.yml
#   scripts/images.sh spark    and the image with Spark and Java, under the same with -spark before the tag; also with
#                              COMPOSE_PROFILES=pipeline
#   scripts/images.sh all-in-one  and the image with ZooKeeper and Java, under the same with -all-in-one before the tag
#   scripts/images.sh balancer nothing more, but sees to the load balancer's image too, as with COMPOSE_PROFILES=balancer
#   scripts/images.sh tidy     nothing; removes images that newer ones replaced and no container uses any more
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly WANTED=${1:-}

SPARK=no
[[ $WANTED != spark && ,${COMPOSE_PROFILES:-}, != *,pipeline,* ]] || SPARK=yes
BALANCER=no
[[ $WANTED != balancer && ,${COMPOSE_PROFILES:-}, != *,balancer,* ]] || BALANCER=yes

ALL_IN_ONE=no
[ "$WANTED" != all-in-one ] || ALL_IN_ONE=yes

say() { printf '%s\n' "images: $*" >&2; }

docker info >/dev/null 2>&1 || {
    say "Docker does not answer: is it installed and running, and may $(id -un) use it?"
    exit 1
}

base_images() {
    sed -n 's/^ARG PYTHON_IMAGE=//p' Dockerfile
    [ "$SPARK" != yes ] || sed -n 's/^ARG JAVA_IMAGE=//p' Dockerfile
    sed -n 's/^ *image: \(zookeeper:.*\)$/\1/p' docker-compose.yml | sort -u
    [ "$BALANCER" != yes ] || sed -n 's/^ *image: \(haproxy:.*\)$/\1/p' docker-compose.yml
}

is_there() { docker image inspect "$1" >/dev/null 2>&1; }

is_stand_in() { [[ $(docker image inspect --format '{{ .Comment }}' "$1") = "kafka2011 stand-in "* ]]; }

build() {
    local target=$1 name=$2 output
    if ! output=$(docker build --target "$target" --tag "$name" . 2>&1); then
        say "cannot build $name:" "$(tail -n 15 <<<"$output")"
        exit 1
    fi
}

# Only what is older than the image in force: somebody else's build may be under way.
tidy() {
    local stage id
    is_there "$name" || return 0
    for stage in build build-spark runtime spark zookeeper all-in-one; do
        for id in $(docker image ls --quiet --filter dangling=true --filter "label=kafka2011.stage=$stage" \
            --filter "before=$name"); do
            docker image rm "$id" >/dev/null 2>&1 || true # a container may still use it
        done
    done
}

name=${KAFKA_IMAGE:-$(sed -n 's/^ *image: ${KAFKA_IMAGE:-\(.*\)}$/\1/p' docker-compose.yml)}
[[ ${name##*/} = *:* ]] || name=$name:latest
repository=${name%:*}
if [ "$WANTED" = tidy ]; then
    tidy
    exit
fi

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
    integration/images/make.sh
    [ "$BALANCER" != yes ] || integration/images/balancer.sh
    # shellcheck disable=SC2046 # nothing, or one word
    scripts/wheels.sh $([ "$SPARK" != yes ] || echo spark)
fi

# Of two that build at a time, as tests may, the one would leave the other's images without their names.
mkdir -p build
exec {lock}>build/images.lock
flock "$lock"
# A builder without BuildKit leaves each stage as an image, from which the next build begins: it gets a name.
build build "$repository:build"
build runtime "$name"
if [ "$SPARK" = yes ]; then
    build build-spark "$repository:build-spark"
    build spark "$repository-spark:${name##*:}"
fi
if [ "$ALL_IN_ONE" = yes ]; then
    build all-in-one "$repository-all-in-one:${name##*:}"
fi
tidy
