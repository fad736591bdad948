#!/usr/bin/env bash
# A whole network on one machine: Mosquitto, a coordinator and four sites, with TLS and secure sums.
# One site is killed with -9 half-way and started again. At the end the four filled tables are
# compared with those of one process that holds all readings.
#
#   deploy/demo.sh [FOLDER]        DEMO_KILL=no: nobody is killed
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
PYTHON=${PYTHON:-python3}
FLFL=${FLFL:-flfl}
mosquitto=$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v mosquitto) || {
    echo "demo: mosquitto is not installed (apt-get install mosquitto)" >&2
    exit 2
}
export DEMO_SITES=${DEMO_SITES:-north south east west}
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
cd "$folder"
pids=()
stop() { for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; }
trap stop EXIT

echo "demo: keys, readings and settings in $folder"
"$PYTHON" "$here/demo.py" readings
"$FLFL" keys init --network demo --host localhost
for site in $DEMO_SITES; do "$FLFL" keys site "$site" >/dev/null; done
"$FLFL" keys roster
port=$("$PYTHON" "$here/demo.py" settings mqtt)
sed -e "s|/etc/mosquitto/flfl/acl|$here/acl|; s|/etc/mosquitto/flfl|$folder/keys|" \
    -e "s|listener 8883|listener $port 127.0.0.1|" "$here/mosquitto.conf" >mosquitto.conf
echo "user $(id -un)" >>mosquitto.conf

"$mosquitto" -c mosquitto.conf >broker.log 2>&1 &
pids+=($!)
declare -A parties
for site in $DEMO_SITES; do
    "$FLFL" site "$site.toml" --once 2>"$site.err" &
    parties[$site]=$!
    pids+=($!)
done
"$FLFL" coordinator coordinator.toml 2>coordinator.err &
parties[coordinator]=$!
pids+=($!)

if [ "${DEMO_KILL:-yes}" = yes ]; then
    echo "demo: waiting until the run is half-way"
    "$PYTHON" "$here/demo.py" wait east
    kill -9 "${parties[east]}"
    wait "${parties[east]}" 2>/dev/null || true
    echo "demo: killed east with -9"
    "$FLFL" status coordinator.toml || true
    "$FLFL" site east.toml --once 2>>east.err &
    parties[east]=$!
    pids+=($!)
    echo "demo: started east again"
fi

for pid in "${parties[@]}"; do
    wait "$pid" || { echo "demo: a party failed; see the logs in $folder" >&2; exit 1; }
done
"$FLFL" status coordinator.toml
"$PYTHON" "$here/demo.py" compare
