#!/usr/bin/env bash
# Makes base images from Debian's packages and PySpark's jars, under the names that Dockerfile and docker-compose.yml
# use, for places that no image registry reaches. What for, and what they lack: README.md beside this file.
#
#   make.sh            make those that are missing, or were made by another version of these files
#
# Needs root (or sudo without a password), debootstrap, a running Docker, and .venv with PySpark (scripts/setup.sh local).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly SUITE=bookworm
readonly MIRROR=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
readonly HERE=integration/images
readonly LABEL=kafka2011.stand-in # its value says which version of these files made an image

say() { printf '%s\n' "images: $*" >&2; }

fail() {
    say "$@"
    exit 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

arg_of() { sed -n "s/^ARG $1=//p" Dockerfile; }

made_by() { docker image inspect --format "{{ index .Config.Labels \"$LABEL\" }}" "$1" 2>/dev/null || true; }

# Whether an image is there and is not an older one of ours; official ones are never touched.
is_good() { docker image inspect "$1" >/dev/null 2>&1 && [[ $(made_by "$1") =~ ^("$2")?$ ]]; }

version_of() { cat "$@" | sha256sum | cut -c1-16; }

# Debian's smallest system with Python, in a directory.
bootstrap() {
    say "fetching Debian $SUITE with Python into a directory (debootstrap, about a minute)"
    as_root debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv "$SUITE" "$1" "$MIRROR" \
        >"$work/debootstrap.log" 2>&1 || fail "debootstrap failed: $(tail -n 3 "$work/debootstrap.log")"
}

make_python() {
    say "making $python_image"
    as_root ln -s /usr/bin/python3 "$root/usr/local/bin/python3"
    as_root ln -s /usr/bin/python3 "$root/usr/local/bin/python"
    as_root tar --create --directory="$root" --one-file-system \
        --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' --exclude='./tmp/*' \
        --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./var/log/*' \
        --exclude='./usr/share/locale/*' --exclude='./usr/share/man/*' --exclude='./etc/resolv.conf' . |
        docker import --change "LABEL $LABEL=$python_version" --change 'ENV LANG=C.UTF-8' \
            --change 'CMD ["python3"]' - "$python_image" >/dev/null
}

make_java() {
    say "making $java_image"
    local package=openjdk-17-jre-headless context=$work/java
    # Only the package itself: what it depends on serves sound, fonts and printers.
    as_root chroot "$root" sh -c "cd /var/cache/apt && apt-get -qq -o APT::Sandbox::User=root download $package" ||
        fail "cannot download $package from $MIRROR"
    mkdir -p "$context/package"
    as_root sh -c "cat '$root'/var/cache/apt/${package}_*.deb" >"$context/package.deb"
    dpkg-deb --extract "$context/package.deb" "$context/package"
    mv "$context"/package/usr/lib/jvm/java-17-openjdk-* "$context/openjdk"
    # Debian keeps configuration in /etc, behind absolute links.
    find "$context/openjdk" -type l -lname '/etc/java-17-openjdk/*' | while read -r link; do
        target=$context/package$(readlink "$link")
        rm "$link"
        cp -R "$target" "$link"
    done
    find "$context/openjdk" -xtype l -delete
    rm -rf "$context/package" "$context/package.deb" "$context"/openjdk/{docs,man}
    cp "$HERE/java/Dockerfile" "$context"
    build "$java_image" "$python_image" "$java_version" "$context"
}

make_zookeeper() {
    say "making $zookeeper_image"
    local context=$work/zookeeper jar
    mkdir -p "$context/jars"
    tr : '\n' <<<"$jars" | while read -r jar; do cp "$jar" "$context/jars"; done
    cp "$HERE"/zookeeper/* "$context"
    build "$zookeeper_image" "$java_image" "$zookeeper_version" "$context"
}

build() {
    docker build --quiet --build-arg "BASE=$2" --label "$LABEL=$3" --tag "$1" "$4" >/dev/null 2>"$work/build.log" ||
        fail "cannot build $1: $(tail -n 3 "$work/build.log")"
}

python_image=$(arg_of PYTHON_IMAGE)
java_image=$(arg_of JAVA_IMAGE)
zookeeper_image=$(sed -n 's/^ *image: \(zookeeper:.*\)$/\1/p' docker-compose.yml | head -n 1)
jars=$(.venv/bin/python -c 'from zk.local import find_jars; print(find_jars())') || fail "scripts/setup.sh local was not run"

python_version=$(version_of "$HERE/make.sh")
java_version=$(version_of "$HERE/make.sh" "$HERE/java/Dockerfile")
zookeeper_version=$( (cat "$HERE/make.sh" "$HERE"/zookeeper/* && basename -a ${jars//:/ }) | version_of -)

if is_good "$python_image" "$python_version" && is_good "$java_image" "$java_version" &&
    is_good "$zookeeper_image" "$zookeeper_version"; then
    exit 0
fi
as_root true 2>/dev/null || fail "making base images needs root, or sudo without a password"
command -v debootstrap >/dev/null || fail "making base images needs debootstrap: apt-get install debootstrap"

work=$(mktemp -d)
trap 'as_root rm -rf --one-file-system "$work"' EXIT
root=$work/root
if ! is_good "$python_image" "$python_version" || ! is_good "$java_image" "$java_version"; then
    bootstrap "$root"
    is_good "$python_image" "$python_version" || make_python
    is_good "$java_image" "$java_version" || make_java
fi
is_good "$zookeeper_image" "$zookeeper_version" || make_zookeeper
