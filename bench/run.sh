#!/usr/bin/env bash
# Measures lifecycles (enqueue, lease, complete) per second of a broker on this machine, with
# the client beside it, and prints a table. See bench/README.md for what the figures mean.
#
#   bench/run.sh [SECONDS]    SECONDS of load a row, default 5
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
seconds=${1:-5}
bin=$root/build/release/bin
cd "$root"

cmake --preset release >/dev/null
cmake --build --preset release --target stintd stint lifecycle_load

data=$(mktemp -d "$root/build/bench.XXXXXX")
broker=''
stop() {
  if [[ -n $broker ]] && kill "$broker"; then wait "$broker" || true; fi
  rm -rf "$data"
}
trap stop EXIT

address=127.0.0.1:7190
STINT_ADDRESS=$address
export STINT_ADDRESS
"$bin/stintd" --data-dir "$data/store" --listen "$address" --http-listen none \
  --log-level warning &
broker=$!
until "$bin/stint" health >/dev/null 2>&1; do :; done

row() {
  # $1: what, $2: retention of ended jobs, rest: options
  local what=$1 retention=$2
  shift 2
  "$bin/stint" queues delete load --force >/dev/null 2>&1 || true
  "$bin/stint" queues create load --finished-age "$retention" >/dev/null
  printf '%s\t%s\t' "$what" "$retention"
  "$bin/lifecycle_load" --address "$address" --seconds "$seconds" --broker-pid "$broker" "$@"
}

{
  printf 'what\tkept\tunder way\tjobs/call\tlifecycles/s\tcalls/s\tp50 ms\tp99 ms\tCPU us/call\tCPU us/job-op\terrors\n'
  row 'one call at a time' 0s --outstanding 1 --channels 1
  row 'single jobs' 0s --outstanding 256
  row 'single jobs' 24h --outstanding 256
  row 'batches of 100' 0s --outstanding 32 --batch 100
  row 'batches of 100' 24h --outstanding 32 --batch 100
} | column -t -s $'\t'
