#!/usr/bin/env bash
# The API follows buf's rules and its layout. To repair the layout:
#   build/tools/node_modules/.bin/buf format -w proto
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
buf=build/tools/node_modules/.bin/buf
[[ -x $buf ]] || { echo "buf is missing: run deploy/install-deps.sh" >&2; exit 1; }
$buf lint proto
# The vendored protos keep the layout they came with.
$buf format -d --exit-code --exclude-path proto/google --exclude-path proto/grpc proto
echo "buf: proto passes"
