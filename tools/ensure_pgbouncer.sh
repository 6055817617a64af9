#!/bin/sh
# Prints the path of a PgBouncer for the tests of poolers; installs it if it may, unpacks it privately if not.
# When none can be had it says so and ends with 0, but with 1 under CI=true.
set -eu

cd "$(dirname "$0")/.."
private=$PWD/.cache/pgbouncer

say() { printf 'pgbouncer: %s\n' "$*" >&2; }

installed() {
    for candidate in "${GANDY_TEST_PGBOUNCER:-}" pgbouncer /usr/sbin/pgbouncer "$private/run"; do
        [ -n "$candidate" ] && command -v "$candidate" && return 0
    done
    return 1
}

install_as_root() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "installing the system's package"
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends pgbouncer; } >&2
}

# apt with package lists of its own, so that an ordinary user may fetch them and lock nothing.
private_apt() {
    apt-get --quiet --quiet -o Dir::State::Lists="$private/lists" -o Dir::Cache="$private/cache" \
        -o Debug::NoLocking=1 -o APT::Sandbox::User= "$@"
}

unpack_privately() {
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
    say "unpacking the system's package into .cache/pgbouncer"
    mkdir -p "$private/lists/partial" "$private/cache/archives/partial" "$private/root"
    private_apt update >&2 || return 1
    private_apt install --yes --no-install-recommends --download-only pgbouncer >&2 || return 1
    for package in "$private"/cache/archives/*.deb; do
        dpkg -x "$package" "$private/root" || return 1
    done
    rm -rf "$private/cache" "$private/lists"
    cat >"$private/run" <<'LAUNCHER'
#!/bin/sh
root=$(dirname "$(readlink -f "$0")")/root
libraries=$(find "$root" -name '*.so*' -printf '%h\n' | sort -u | paste -sd :)
export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$root/usr/sbin/pgbouncer" "$@"
LAUNCHER
    chmod +x "$private/run"
}

installed && exit 0
{ install_as_root || unpack_privately; } && installed && exit 0
say "none is installed and none could be had; the tests of poolers cannot run"
[ "${CI:-}" = true ] && exit 1
exit 0
