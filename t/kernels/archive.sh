# SPDX-License-Identifier: BSD-3-Clause
# Debian's archive, for t/kernels/run and t/kernels/cross: packages of $ARCH and of $SUITES, which
# need not be this machine's. Its own lists and packages stay as they are.
ARCH=${ARCH:-amd64}
KERNELS=${KERNELS:-/var/cache/memcachedsr-kernels}
MIRROR=${MIRROR:-http://deb.debian.org}
apt=$KERNELS/apt-$ARCH
sysroot=$KERNELS/sysroot-$ARCH
case $ARCH in
amd64) machine=x86_64 ;;
arm64) machine=aarch64 ;;
*)
    echo "${0##*/}: ARCH is amd64 or arm64, not $ARCH" >&2
    exit 2
    ;;
esac
multiarch=lib/$machine-linux-gnu

archive() { # apt-get or apt-cache, ARGUMENT...
    local tool=$1

    shift
    "$tool" -q -o "APT::Architecture=$ARCH" -o "APT::Architectures=$ARCH" \
        -o "Dir::State::lists=$apt/lists" -o Dir::State::status=/dev/null \
        -o "Dir::Cache=$apt/cache" \
        -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=- \
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o APT::Update::Post-Invoke-Success::= -o APT::Sandbox::User=root "$@"
}

update() { # the archive's lists, at most once a day
    local signed=/usr/share/keyrings/debian-archive-keyring.gpg suite

    mkdir -p "$apt"/{lists/partial,cache/archives/partial}
    for suite in $SUITES; do
        case $suite in
        *-security) echo "deb [signed-by=$signed] $MIRROR/debian-security $suite main" ;;
        *) echo "deb [signed-by=$signed] $MIRROR/debian $suite main" ;;
        esac
    done >"$apt/sources.new"
    if [ -z "$(find "$apt/updated" -mtime -1 2>/dev/null)" ] ||
        ! cmp -s "$apt/sources.new" "$apt/sources.list"; then
        mv "$apt/sources.new" "$apt/sources.list"
        archive apt-get update >/dev/null
        touch "$apt/updated"
    fi
}
