#!/usr/bin/env bash
# Runs simulations beyond those of the tests, or one again.
#
#   tests/sim/run.sh --seeds 1 --from 4711            replay a seed
#   tests/sim/run.sh --seeds 1 --from 4711 --trace    with all that happened
#   tests/sim/run.sh --seeds 100000 --from 1 --all    many; --all goes on after a failure
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

[[ -f build/dev/build.ninja ]] || cmake --preset dev >/dev/null
cmake --build build/dev --target sim_run >/dev/null
exec build/dev/tests/sim_run "$@"
