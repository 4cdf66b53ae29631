#!/bin/bash
# Measures how long a bare Debian 12 takes to a first answer: makes a fresh root file system, gives it
# this host's package configuration and a clone of this checkout (what is committed), and runs a
# command there twice, by default `make run`. The program built there is left at .cache/bare/rose.
#
#   sudo scripts/bare_machine.sh [COMMAND...]
#
# The target for `make run` on 2 cores: 600 s at first, 10 s again.
set -euo pipefail
cd "$(dirname "$0")/.."
command=("${@:-make run}")

if [ -z "${ROSE_BARE_ROOT:-}" ]; then
  [ "$(id -u)" = 0 ] || { echo "bare: run this as root" >&2; exit 1; }
  command -v mmdebstrap >/dev/null || apt-get install -y --no-install-recommends mmdebstrap >/dev/null
  ROSE_BARE_ROOT=$(mktemp -d /var/tmp/rose-bare.XXXXXX)
  export ROSE_BARE_ROOT
  trap 'rm -rf --one-file-system "$ROSE_BARE_ROOT"' EXIT
  # Mounts are made in a namespace of their own, and end with it.
  unshare --mount "$0" "$@"
  exit
fi

root=$ROSE_BARE_ROOT
apt_options=$(mktemp)
trap 'rm -f "$apt_options"' EXIT
apt-config dump | grep -E '^Acquire::(https?|ftp|Check|Retries|AllowInsecure)' >"$apt_options" || true
sources=()
if [ "$(. /etc/os-release && echo "$ID$VERSION_ID")" = debian12 ]; then
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    [ ! -s "$file" ] || sources+=("$file")
  done
fi
start=$SECONDS
mmdebstrap --quiet --variant=minbase --include=ca-certificates --aptopt="$apt_options" \
  bookworm "$root" "${sources[@]}"
echo "bare: root file system made in $((SECONDS - start)) s: $(du -sm "$root" | cut -f1) MB"

# The host's way to its package registries.
for path in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/npmrc /etc/ssl/certs \
  /usr/local/share/ca-certificates "$HOME"/.{pip,npmrc,config/pip} "$HOME"/.cargo/config{,.toml}; do
  [ -e "$path" ] || continue
  mkdir -p "$root$(dirname "$path")"
  cp -rL --remove-destination -T "$path" "$root$path" 2>/dev/null || true
done
mapfile -t variables < <(env |
  grep -iE '^(pip_|npm_config_|cargo_|[a-z]+_proxy|ssl_cert|requests_ca|node_extra_ca)' || true)

git clone --quiet --no-hardlinks . "$root/srv/rose"
mkdir -p "$root/proc" "$root/dev"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"

inside() {
  chroot "$root" env -i HOME="$HOME" LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    "${variables[@]}" bash -ec "cd /srv/rose && $*" </dev/null
}
echo "bare: commit $(git rev-parse --short HEAD), $(nproc) cores, command: ${command[*]}"
first=$(date +%s.%N)
# What the README asks for besides the checkout. (Whoever cloned has git already.)
inside "(apt-get update && apt-get install -y --no-install-recommends make) >/dev/null 2>&1"
inside "${command[*]}"
again=$(date +%s.%N)
inside "${command[*]}"
end=$(date +%s.%N)
mkdir -p .cache/bare
[ ! -f "$root/srv/rose/build/rose" ] || cp "$root/srv/rose/build/rose" .cache/bare/rose
awk -v a="$first" -v b="$again" -v c="$end" \
  'BEGIN { printf "bare: first run %.1f s, second run %.1f s\n", b - a, c - b }'
