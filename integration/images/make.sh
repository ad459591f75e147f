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
readonly PATH_IN_IMAGE=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# The comment on an image, with the version of these files that made it. (A label would be inherited by images made
# from it.)
readonly MARK="kafka2011 stand-in"

say() { printf '%s\n' "images: $*" >&2; }

fail() {
    say "$@"
    exit 1
}

# shellcheck source=../../scripts/apt.sh
. scripts/apt.sh

arg_of() { sed -n "s/^ARG $1=//p" Dockerfile; }

# Whether an image is there and is not an older one of ours; official ones are never touched.
is_good() {
    local comment
    comment=$(docker image inspect --format '{{ .Comment }}' "$1" 2>/dev/null) &&
        [[ $comment != "$MARK "* || $comment = "$MARK $2" ]]
}

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
        docker import --message "$MARK $python_version" --change "ENV LANG=C.UTF-8 PATH=$PATH_IN_IMAGE" \
            --change 'CMD ["python3"]' - "$python_image" >/dev/null
}

make_java() {
    say "making $java_image"
    local package unpacked=$work/package content=$work/java
    package=$(as_root chroot "$root" apt-cache depends default-jre-headless |
        sed -n 's/.*Depends: \(openjdk-[0-9]*-jre-headless\)$/\1/p')
    # Only the package itself: what it depends on serves sound, fonts and printers.
    as_root chroot "$root" sh -c "cd /var/cache/apt && apt-get -qq -o APT::Sandbox::User=root download $package" ||
        fail "cannot download $package from $MIRROR"
    mkdir -p "$unpacked" "$content/opt/java"
    dpkg-deb --extract "$root/var/cache/apt/$package"_*.deb "$unpacked"
    # Beside the directory lies a link with its former name.
    find "$unpacked/usr/lib/jvm" -mindepth 1 -maxdepth 1 -type d -name 'java-*' \
        -exec mv --no-target-directory {} "$content/opt/java/openjdk" \;
    # Debian keeps the configuration in /etc, behind absolute links.
    find "$content" -type l -lname '/etc/java-*-openjdk/*' | while read -r link; do
        target=$unpacked$(readlink "$link")
        rm "$link"
        cp -R "$target" "$link"
    done
    find "$content" -xtype l -delete
    rm -rf "$content"/opt/java/openjdk/{docs,man}
    layer "$python_image" "$content" true "$java_image" "$java_version" \
        "ENV JAVA_HOME=/opt/java/openjdk PATH=/opt/java/openjdk/bin:$PATH_IN_IMAGE" 'CMD ["java", "-version"]'
}

make_zookeeper() {
    say "making $zookeeper_image"
    local content=$work/zookeeper
    mkdir -p "$content/opt/zookeeper/jars" "$content/usr/local/bin"
    tr : '\n' <<<"$jars" | while read -r jar; do cp "$jar" "$content/opt/zookeeper/jars"; done
    cp "$HERE/zookeeper/docker-entrypoint.sh" "$content"
    cp "$HERE/zookeeper/zkServer.sh" "$content/usr/local/bin"
    cp "$HERE/zookeeper/logging.properties" "$content/opt/zookeeper"
    layer "$java_image" "$content" "groupadd --gid 1000 zookeeper &&
        useradd --uid 1000 --gid zookeeper --no-create-home zookeeper &&
        install --directory --owner=zookeeper --group=zookeeper /conf /data /datalog /logs" \
        "$zookeeper_image" "$zookeeper_version" \
        "ENV ZOO_CONF_DIR=/conf ZOO_DATA_DIR=/data ZOO_DATA_LOG_DIR=/datalog ZOO_LOG_DIR=/logs \
            ZOO_TICK_TIME=2000 ZOO_INIT_LIMIT=5 ZOO_SYNC_LIMIT=2 ZOO_MAX_CLIENT_CNXNS=60 \
            ZOO_AUTOPURGE_PURGEINTERVAL=0 ZOO_AUTOPURGE_SNAPRETAINCOUNT=3 \
            ZOO_STANDALONE_ENABLED=true ZOO_ADMINSERVER_ENABLED=false" \
        'USER zookeeper' 'VOLUME /data /datalog /logs' 'EXPOSE 2181 2888 3888' \
        'ENTRYPOINT ["/docker-entrypoint.sh"]' 'CMD ["zkServer.sh", "start-foreground"]'
}

# Lays files over an image and runs a command in it; what follows the version are changes of its configuration.
# One layer at once: a build commits one for every line, which takes seconds each on some storage drivers.
layer() {
    local base=$1 content=$2 command=$3 image=$4 version=$5 container changes=()
    for change in "${@:6}"; do changes+=(--change "$change"); done
    container=$(docker create --network none "$base" sh -c "$command")
    docker cp "$content/." "$container:/" >/dev/null 2>&1 &&
        docker start --attach "$container" &&
        docker commit --message "$MARK $version" "${changes[@]}" "$container" "$image" >/dev/null || {
        docker rm --force "$container" >/dev/null
        fail "cannot make $image"
    }
    docker rm "$container" >/dev/null
}

python_image=$(arg_of PYTHON_IMAGE)
java_image=$(arg_of JAVA_IMAGE)
zookeeper_image=$(sed -n 's/^ *image: \(zookeeper:.*\)$/\1/p' docker-compose.yml | head -n 1)
jars=$(.venv/bin/python -c 'from zk.local_zookeeper import find_jars; print(find_jars())') || fail "scripts/setup.sh local was not run"

python_version=$(version_of "$HERE/make.sh")
java_version=$python_version
zookeeper_version=$( (cat "$HERE/make.sh" "$HERE"/zookeeper/* && basename -a ${jars//:/ }) | version_of -)

if is_good "$python_image" "$python_version" && is_good "$java_image" "$java_version" &&
    is_good "$zookeeper_image" "$zookeeper_version"; then
    exit 0
fi
former=$(docker image inspect --format '{{ .Id }}' "$zookeeper_image" "$java_image" "$python_image" 2>/dev/null || true)
as_root true 2>/dev/null || fail "making base images needs root, or sudo without a password"
command -v debootstrap >/dev/null ||
    apt_install debootstrap "making base images needs debootstrap: apt-get install debootstrap"

work=$(mktemp -d)
trap 'as_root rm -rf --one-file-system "$work"' EXIT
root=$work/root
if ! is_good "$python_image" "$python_version" || ! is_good "$java_image" "$java_version"; then
    bootstrap "$root"
    is_good "$python_image" "$python_version" || make_python
    is_good "$java_image" "$java_version" || make_java
fi
is_good "$zookeeper_image" "$zookeeper_version" || make_zookeeper

# What was replaced has no name any more; containers and images made from it may still use it.
for id in $former; do
    [ -n "$(docker image inspect --format '{{ join .RepoTags " " }}' "$id" 2>/dev/null)" ] ||
        docker image rm "$id" >/dev/null 2>&1 || true
done
