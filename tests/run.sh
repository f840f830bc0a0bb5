#!/usr/bin/env bash
# Installs what is missing, builds the preset dev and runs every test; ends with CTest's summary.
#
#   tests/run.sh [--quick] [CTEST-OPTION...]
#
#   --quick  leave out the tests labelled `slow`
#   Other options go to ctest: tests/run.sh -R tidy
#
# Works from a fresh clone on Debian 12, as root or with sudo, without a terminal. It writes only
# to the build folder (and through apt). Exit code: that of the first step that failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '[%4d s] %s\n' "$SECONDS" "$*"; }

ctest_options=(--output-on-failure -j2)
if [[ ${1-} == --quick ]]; then
  shift
  ctest_options+=(-LE slow)
fi
export CCACHE_DIR=${CCACHE_DIR-$PWD/build/ccache}

say "tests: a first run installs packages and compiles everything; a repeat needs only the tests"
say "1/4 install"
deploy/install-deps.sh --test
say "2/4 configure build/dev"
cmake --preset dev
say "3/4 build"
cmake --build --preset dev -j "$(nproc)"
say "4/4 test"
ctest --test-dir build/dev "${ctest_options[@]}" "$@"
