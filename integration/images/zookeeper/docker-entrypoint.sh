#!/usr/bin/env bash
# Writes ZooKeeper's configuration from the variables of the official image, unless one is mounted, and runs the command.
set -euo pipefail

readonly CONFIGURATION=$ZOO_CONF_DIR/zoo.cfg

settings() {
    cat <<EOF
dataDir=$ZOO_DATA_DIR
dataLogDir=$ZOO_DATA_LOG_DIR
tickTime=$ZOO_TICK_TIME
initLimit=$ZOO_INIT_LIMIT
syncLimit=$ZOO_SYNC_LIMIT
maxClientCnxns=$ZOO_MAX_CLIENT_CNXNS
standaloneEnabled=$ZOO_STANDALONE_ENABLED
admin.enableServer=$ZOO_ADMINSERVER_ENABLED
autopurge.purgeInterval=$ZOO_AUTOPURGE_PURGEINTERVAL
autopurge.snapRetainCount=$ZOO_AUTOPURGE_SNAPRETAINCOUNT
${ZOO_4LW_COMMANDS_WHITELIST:+4lw.commands.whitelist=$ZOO_4LW_COMMANDS_WHITELIST}
EOF
    # Both are lists with blanks between the entries.
    printf '%s\n' ${ZOO_SERVERS:-server.1=localhost:2888:3888;2181} ${ZOO_CFG_EXTRA:-}
}

[ -e "$CONFIGURATION" ] || settings >"$CONFIGURATION"
[ -e "$ZOO_DATA_DIR/myid" ] || printf '%s\n' "${ZOO_MY_ID:-1}" >"$ZOO_DATA_DIR/myid"
exec "$@"
