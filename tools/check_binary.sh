#!/bin/bash
# The program must start on other machines: it may need nothing but the parts of the C library, and
# no newer one than Debian 12 has (2.36), which is older than Ubuntu 24.04's.
#
#   tools/check_binary.sh build/rose
set -euo pipefail
program=$1
newest_allowed=2.36

needed=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
strange=$(grep -vE '^(libc|libm|libdl|libpthread|librt)\.so\.[0-9]+$|^ld-linux-x86-64\.so\.2$' \
  <<<"$needed" || true)
newest=$(readelf -V "$program" | grep -oE 'GLIBC_[0-9.]+' | sed s/GLIBC_// | sort -Vu | tail -n 1)
echo "binary: needs $(xargs <<<"$needed"), glibc $newest"
if [ -n "$strange" ]; then
  echo "binary: $program must not need $(xargs <<<"$strange"): link it statically or with dlopen" >&2
  exit 1
fi
if [ "$(printf '%s\n' "$newest" "$newest_allowed" | sort -V | tail -n 1)" != "$newest_allowed" ]; then
  . /etc/os-release
  echo "binary: glibc $newest is newer than $newest_allowed (built on $PRETTY_NAME)" >&2
  # On a newer distribution that is how it must be; only a build for others is held to it.
  [ "$ID $VERSION_ID" != "debian 12" ] || exit 1
fi
