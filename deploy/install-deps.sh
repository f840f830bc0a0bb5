#!/usr/bin/env bash
# Installs what Stint is built and tested with. This is the one list of it.
#
#   deploy/install-deps.sh [--runtime | --build | --test | --list]
#
#   --runtime  only what stintd and stint need to run on Debian 12, built elsewhere: the image
#   --build    what building and running them needs
#   --test     that, and what tests/run.sh needs (the default)
#   --list     print the Debian packages of --test, one a line, and stop
#
# Packages come from apt; what Debian does not have, from npm into build/tools. Nothing else
# is changed. When all is there it says so in well under a second and needs no rights. The packages
# `prometheus` and `podman`, of which the tests need the programs, bring services too; where systemd
# runs, `systemctl disable --now prometheus podman.socket` ends them.
# Exit code 2: this system cannot be served, and the message says what to do instead.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$root/build/tools

runtime_packages=(
  libgrpc++1.51 libprotobuf32 libabsl20220623 libssl3 librocksdb7.8 libspdlog1.10
  libprometheus-cpp-core1.0
  ca-certificates tzdata
)
build_packages=(
  g++ make cmake ninja-build ccache pkg-config ca-certificates git python3
  libgrpc++-dev libgrpc-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libabsl-dev libc-ares-dev libre2-dev libssl-dev zlib1g-dev
  librocksdb-dev libboost-dev libspdlog-dev libcli11-dev libtomlplusplus-dev
  prometheus-cpp-dev
  libgtest-dev libgmock-dev # CMake looks for them even when only the programs are built
)
test_packages=(
  shellcheck jq
  clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14 # the other presets, format, tidy
  fiu-utils e2fsprogs xfsprogs libfaketime                  # failing syncs, power loss, clocks
  python3-grpcio python3-protobuf prometheus                # end-to-end tests
  buildah podman runc mmdebstrap iptables iproute2          # the image, built and run
)
npm_packages=(
  @bufbuild/buf@1.75.0                          # the rules of the API
  @grpc/grpc-js@1.14.7 @grpc/proto-loader@0.8.1 # the Node example of PROTOCOL.md
)

refuse() {
  printf 'install-deps: %s\n' "$@" >&2
  exit 2
}

want='test'
case ${1-} in
  '' | --test) ;;
  --runtime) want=runtime ;;
  --build) want=build ;;
  --list) want=list ;;
  *) refuse "unknown option '$1'; use --runtime, --build, --test or --list" ;;
esac
case $want in
  runtime) packages=("${runtime_packages[@]}") ;;
  build) packages=("${build_packages[@]}") ;;
  *) packages=("${build_packages[@]}" "${test_packages[@]}") ;;
esac
if [[ $want == list ]]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

check_system() {
  local ID='' VERSION_ID='' PRETTY_NAME='this system'
  # shellcheck source=/dev/null
  [[ -r /etc/os-release ]] && . /etc/os-release
  case $ID in
    debian) [[ ${VERSION_ID:-99} -ge 12 ]] && return ;;
    ubuntu) [[ ${VERSION_ID%%.*} -ge 24 ]] && return ;;
  esac
  refuse "$PRETTY_NAME is not served: this script knows Debian 12 (tested) or newer and Ubuntu 24.04 or newer." \
    "Instead: run it in a container or virtual machine with Debian 12, or install the libraries of" \
    "'deploy/install-deps.sh --list' under the names your system gives them and build with" \
    "'cmake --preset dev && cmake --build --preset dev'."
}

missing_of() { # prints those of its arguments that are not installed
  comm -23 <(printf '%s\n' "$@" | sort) \
    <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
      sed -n 's/^installed //p' | sort)
}

apt_install() {
  local as_root=()
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null ||
      refuse "these packages are missing and installing them needs root or sudo:" "  $*" \
        "Instead: ask an administrator to run 'apt-get install $*', then run this again."
    as_root=(sudo)
  fi
  echo "install-deps: installing $# packages: $*"
  local options=(-q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install \
    --no-install-recommends "$@"
}

npm_packages_are_there() {
  local package
  for package in "${npm_packages[@]}"; do
    grep -qs "\"version\": \"${package##*@}\"" "$tools/node_modules/${package%@*}/package.json" ||
      return 1
  done
}

check_system
mapfile -t missing < <(missing_of "${packages[@]}")
if [[ $want == test ]] && ! npm_packages_are_there && ! npm --version >/dev/null 2>&1; then
  mapfile -t -O "${#missing[@]}" missing < <(missing_of nodejs npm)
fi
if ((${#missing[@]})); then
  apt_install "${missing[@]}" </dev/null
fi
if [[ $want == test ]] && ! npm_packages_are_there; then
  echo "install-deps: installing ${npm_packages[*]} into build/tools"
  mkdir -p "$tools"
  # npm brings certificates of its own; a network with its own authority is known to the system.
  export NODE_EXTRA_CA_CERTS=${NODE_EXTRA_CA_CERTS-/etc/ssl/certs/ca-certificates.crt}
  npm install --loglevel=error --no-save --no-audit --no-fund --no-update-notifier \
    --prefix "$tools" --cache "$tools/npm-cache" "${npm_packages[@]}" </dev/null
fi
echo "install-deps: all ${#packages[@]} packages for --$want are there"
