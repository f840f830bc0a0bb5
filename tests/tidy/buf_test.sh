#!/usr/bin/env bash
# The API follows buf's rules and its layout. To repair the layout:
#   build/tools/node_modules/.bin/buf format -w proto
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
buf=build/tools/node_modules/.bin/buf
[[ -x $buf ]] || { echo "buf is missing: run deploy/install-deps.sh" >&2; exit 1; }
$buf lint proto
$buf format -d --exit-code proto
echo "buf: proto passes"
