#!/usr/bin/env bash
# Runs simulations beyond those of the tests, or one again.
#
#   tests/sim/run.sh --minutes 60                     fresh seeds on every core for so long
#   tests/sim/run.sh --seeds 100000 --from 1 --all    many; --all goes on after a failure
#   tests/sim/run.sh --seeds 1 --from 4711            replay a seed
#   tests/sim/run.sh --seeds 1 --from 4711 --trace    with all that happened
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

[[ -f build/dev/build.ninja ]] || cmake --preset dev >/dev/null
cmake --build build/dev --target sim_run >/dev/null
run=build/dev/tests/sim_run

if [[ $* != *--minutes* || $* == *--from* ]]; then exec "$run" "$@"; fi

# Seeds that nobody has run before, apart from each other by more than a run can use.
first=$(date +%s)000000
failed=0
pids=()
for ((core = 0; core < $(nproc); ++core)); do
  "$run" --from "$((first + core * 100000000000000000))" "$@" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
exit "$failed"
