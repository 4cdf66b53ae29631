#!/bin/bash
# Builds the Rust half of structured output: third_party/llguidance as a static library with its C
# header. It is kept outside the checkout, by the hash of what it is made of, so that all checkouts
# and all presets of a machine share one (as they share ccache).
#
#   scripts/llguidance.sh --path    where it lies, or would lie
#   scripts/llguidance.sh --fetch   downloads the crates, checked against Cargo.lock
#   scripts/llguidance.sh --build   builds it, without the network; at once if it is there
#
# Needs cargo >= 1.87. Without it rose still builds, and refuses structured output.
set -euo pipefail
cd "$(dirname "$0")/../third_party/llguidance"

hash=$(cat Cargo.toml Cargo.lock src/lib.rs | sha256sum | cut -c -16)
path=${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/rose/llguidance-$hash

# The first cargo that is new enough: an installed one, or Debian 12's cargo-web.
find_cargo() {
  local cargo version
  for cargo in cargo "${HOME:-/root}/.cargo/bin/cargo" /usr/bin/cargo; do
    version=$("$cargo" --version 2>/dev/null | sed -n 's/^cargo \([0-9]*\.[0-9]*\).*/\1/p')
    if [ -n "$version" ] && printf '1.87\n%s\n' "$version" | sort -VC; then
      echo "$cargo"
      return
    fi
  done
  return 1
}

case "${1:-}" in
  --path) echo "$path" ;;
  --cargo) find_cargo ;;
  --fetch) "$(find_cargo)" fetch --quiet --locked --target x86_64-unknown-linux-gnu ;;
  --build)
    [ ! -f "$path/librose_llguidance.a" ] || exit 0
    mkdir -p "$path"
    exec 9>"$path/lock"
    flock 9 # two checkouts may come at the same time
    [ ! -f "$path/librose_llguidance.a" ] || exit 0
    "$(find_cargo)" build --quiet --release --locked --offline --target-dir "$path/target"
    cp "$path/target/release/llguidance.h" "$path/"
    cp "$path/target/release/librose_llguidance.a" "$path/new.a"
    strip --strip-debug "$path/new.a"
    mv "$path/new.a" "$path/librose_llguidance.a"
    rm -rf "$path/target"
    ;;
  *)
    sed -n '2,11s/^# \{0,1\}//p' "../../scripts/llguidance.sh"
    exit 2
    ;;
esac
