#!/usr/bin/env bash
# Runs the server in the foreground; of the official script's commands only that one is here.
set -euo pipefail

if [ "${1:-}" != start-foreground ]; then
    echo "usage: zkServer.sh start-foreground" >&2
    exit 2
fi
# Flags are lists with blanks between the entries.
# shellcheck disable=SC2086
exec java -Xmx"${ZK_SERVER_HEAP:-1000}m" -Djava.awt.headless=true \
    -Dlog4j2.configurationFile=/opt/zookeeper/logging.properties -Dzookeeper.jmx.log4j.disable=true \
    ${JVMFLAGS:-} ${SERVER_JVMFLAGS:-} -cp '/opt/zookeeper/jars/*' \
    org.apache.zookeeper.server.quorum.QuorumPeerMain "$ZOO_CONF_DIR/zoo.cfg"
