#!/usr/bin/env bash
# A whole Flower deployment on one machine: a SuperLink and three SuperNodes, with TLS, SuperNode
# keys and secure sums. On the way a SuperNode is killed with -9 and started again, then the
# SuperLink. At the end the filled tables are compared with those of one process that holds all
# readings.
#
#   deploy/flower-demo.sh [FOLDER]        DEMO_KILL=no: nobody is killed
#
# It takes some minutes: Flower's nodes look for messages every three seconds, and start a
# process for each.
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
stop() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
}
trap stop EXIT

# Starts a command again until it ends well, as an init system would; its pid is in NAME.pid.
keep() { # NAME COMMAND...
    local name=$1
    shift
    trap 'kill $(cat "$name.pid") 2>/dev/null; exit' TERM
    while true; do
        "$@" >>"$name.log" 2>&1 &
        echo $! >"$name.pid"
        { wait $!; } 2>/dev/null && break # without a word of the kill
        sleep 2
    done
}

echo "demo: keys, readings and settings in $folder"
"$PYTHON" "$here/demo.py" readings
"$FLFL" keys init --network demo --host localhost --host 127.0.0.1
for site in $DEMO_SITES; do
    "$FLFL" keys site "$site" >/dev/null
    ssh-keygen -q -t ecdsa -b 384 -N "" -C "$site" -f "keys/$site.supernode"
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

keep superlink flower-superlink --port "$port" --database "$folder/superlink.db" \
    --enable-supernode-auth --disable-runtime-dependency-installation \
    --ssl-ca-certfile keys/authority.pem --ssl-certfile keys/broker.pem \
    --ssl-keyfile keys/broker.key &
pids+=($!)
"$PYTHON" "$here/demo.py" listening "$port"
for site in $DEMO_SITES; do flwr supernode register "keys/$site.supernode.pub" demo >>cli.log; done

number=0
for site in $DEMO_SITES; do
    number=$((number + 1))
    config="site=\"$folder/$site.toml\""
    keep "$site-supernode" flower-supernode --superlink "127.0.0.1:$port" \
        --port $((port + number)) --root-certificates keys/authority.pem \
        --auth-supernode-private-key "keys/$site.supernode" --node-config "$config" &
    pids+=($!)
done

run() { flwr run "$here/flower" demo --run-config "coordinator=\"$folder/coordinator.toml\"" >>cli.log; }
run
echo "demo: the run has begun"
if [ "${DEMO_KILL:-yes}" = yes ]; then
    "$PYTHON" "$here/demo.py" wait east 4
    kill -9 "$(cat east-supernode.pid)"
    echo "demo: killed the SuperNode of east with -9; Flower lets it in again after a minute"
    "$PYTHON" "$here/demo.py" wait east 9
    kill -9 "$(cat superlink.pid)"
    echo "demo: killed the SuperLink with -9; it is started again, and so is the run"
    sleep 3
    "$PYTHON" "$here/demo.py" listening "$port"
    run
fi

"$PYTHON" "$here/demo.py" finished
"$PYTHON" "$here/demo.py" compare
