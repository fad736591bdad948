#!/usr/bin/env bash
# A whole Flower deployment on one machine: a SuperLink and three SuperNodes, with TLS, SuperNode
# keys and secure sums. One site answers behind a door, in a process of its owner's. One SuperNode
# is killed with -9 half-way and started again. At the end the filled tables are compared with
# those of one process that holds all readings.
#
#   deploy/flower-demo.sh [FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
PYTHON=${PYTHON:-python3}
FLFL=${FLFL:-flfl}
export DEMO_SITES="north south east" FLWR_HOME="$folder/flwr"
# Nothing is asked of, told to, or fetched from anybody outside.
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
export FLWR_SUPEREXEC_TASK_POLL_INTERVAL=0.3 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
command -v flower-superlink >/dev/null || {
    echo "demo: flwr is not installed (pip install 'flfl[flower]')" >&2
    exit 2
}
cd "$folder"
pids=()
stop() { for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; }
trap stop EXIT

echo "demo: keys, readings and settings in $folder"
"$PYTHON" "$here/demo.py" readings
"$FLFL" keys init --network demo --host localhost --host 127.0.0.1
for site in $DEMO_SITES; do
    "$FLFL" keys site "$site" >/dev/null
    "$FLFL" keys supernode "$site" >/dev/null
done
"$FLFL" keys roster
port=$("$PYTHON" "$here/demo.py" settings flower)
mkdir -p "$FLWR_HOME"
cat >"$FLWR_HOME/config.toml" <<END
[superlink]
default = "demo"

[superlink.demo]
address = "127.0.0.1:$port"
root-certificates = "$folder/keys/authority.pem"
END

flower-superlink --port "$port" --database "$folder/superlink.db" --enable-supernode-auth \
    --ssl-ca-certfile keys/authority.pem --ssl-certfile keys/broker.pem \
    --ssl-keyfile keys/broker.key --disable-runtime-dependency-installation \
    >superlink.log 2>&1 &
pids+=($!)
for _ in $(seq 100); do
    "$PYTHON" -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)" 2>/dev/null && break
    sleep 0.2
done
for site in $DEMO_SITES; do flwr supernode register "keys/$site.supernode.pub" demo >>cli.log; done

"$FLFL" site north.toml --once 2>north.err &
door=$!
pids+=("$door")

supernode() { # SITE PORT: until the SuperLink takes it; after a kill that can be a minute
    local config="site=\"$folder/$1.toml\""
    if [ "$1" = north ]; then config="socket=\"$folder/north.sock\""; fi
    until flower-supernode --superlink "127.0.0.1:$port" --port "$2" \
        --root-certificates keys/authority.pem \
        --auth-supernode-private-key "keys/$1.supernode" --node-config "$config"; do
        sleep 3
    done >>"$1.supernode.log" 2>&1
}
number=0
for site in $DEMO_SITES; do
    number=$((number + 1))
    supernode "$site" $((port + number)) &
    pids+=($!)
done

flwr run "$here/flower" demo --run-config "coordinator=\"$folder/coordinator.toml\"" >>cli.log
echo "demo: the run has begun; waiting until it is half-way"
"$PYTHON" "$here/demo.py" wait east
pkill -9 -f "auth-supernode-private-key keys/east.supernode"
echo "demo: killed the SuperNode of east with -9; it is started again"

"$PYTHON" "$here/demo.py" finished
wait "$door" || { echo "demo: a party failed; see the logs in $folder" >&2; exit 1; }
"$PYTHON" "$here/demo.py" compare
