#!/usr/bin/env bash
# Installs the tools of the peers outside of Rust from Debian's packages, and prints each step:
#   netty   io.netty.util.HashedWheelTimer, with a Java compiler and virtual machine, which `jdk` and `kafka` need, too
#   go      time.AfterFunc
#   erlang  erlang:send_after
# Run as root. Fails if a package cannot be installed; the bench then omits that peer and reports it.
set -uo pipefail

# One peer per line, with its packages.
peers='netty libnetty-java default-jdk-headless
go golang-go
erlang erlang-base'

if ! command -v apt-get >/dev/null; then
    echo "apt-get is missing: this script knows Debian and its relatives only" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "packages are installed by root: run this as root" >&2
    exit 1
fi

echo "updating the lists of packages"
apt-get update -qq || echo "the lists could not be updated, trying with the present ones" >&2

failed=()
while read -r peer packages; do
    echo "$peer: installing $packages"
    # shellcheck disable=SC2086 # several packages
    if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages </dev/null >/dev/null; then
        # shellcheck disable=SC2086
        dpkg-query --show --showformat '  ${Package} ${Version}\n' $packages
    else
        echo "$peer: could not be installed" >&2
        failed+=("$peer")
    fi
done <<<"$peers"

if [ "${#failed[@]}" -gt 0 ]; then
    echo "not installed: ${failed[*]}" >&2
    exit 1
fi
echo "all installed: netty, jdk, go and erlang take part in 'cargo bench --bench peers'"
