#!/bin/sh
# `ensure_program.sh chromium|pgbouncer` prints the path of a program for tests; installs the system's package if it may, unpacks it
# privately if not. When none can be had it says so and ends with 0, but with 1 under CI=true.
set -eu

package=$1
cd "$(dirname "$0")/.."
private=$PWD/.cache/$package
case $package in
chromium)
    candidates="${GANDY_TEST_CHROMIUM:-} chromium chromium-browser google-chrome $private/run"
    program=usr/lib/chromium/chromium
    tests="browser tests"
    ;;
pgbouncer)
    candidates="${GANDY_TEST_PGBOUNCER:-} pgbouncer /usr/sbin/pgbouncer $private/run"
    program=usr/sbin/pgbouncer
    tests="tests of poolers"
    ;;
*)
    echo "ensure_program.sh: nothing is known of $package" >&2
    exit 2
    ;;
esac

say() { printf '%s: %s\n' "$package" "$*" >&2; }

installed() {
    for candidate in $candidates; do
        command -v "$candidate" && return 0
    done
    return 1
}

install_as_root() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "installing the system's package"
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$package"; } >&2
}

# apt with package lists of its own, so that an ordinary user may fetch them and lock nothing.
private_apt() {
    apt-get --quiet --quiet -o Dir::State::Lists="$private/lists" -o Dir::Cache="$private/cache" \
        -o Debug::NoLocking=1 -o APT::Sandbox::User= "$@"
}

unpack_privately() {
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
    say "unpacking the system's package into .cache/$package"
    mkdir -p "$private/lists/partial" "$private/cache/archives/partial" "$private/root"
    private_apt update >&2 || return 1
    private_apt install --yes --no-install-recommends --download-only "$package" >&2 || return 1
    for archive in "$private"/cache/archives/*.deb; do
        dpkg -x "$archive" "$private/root" || return 1
    done
    rm -rf "$private/cache" "$private/lists"
    write_launcher
}

# A package's own launcher names absolute paths; this one finds program and libraries where they are.
write_launcher() {
    cat >"$private/run" <<LAUNCHER
#!/bin/sh
root=\$(dirname "\$(readlink -f "\$0")")/root
libraries=\$(find "\$root" -path "\$root/usr/lib/chromium" -prune -o -name '*.so*' -printf '%h\n' | sort -u | paste -sd :)
export LD_LIBRARY_PATH="\$libraries\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
exec "\$root/$program" "\$@"
LAUNCHER
    chmod +x "$private/run"
}

installed && exit 0
{ install_as_root || unpack_privately; } && installed && exit 0
say "none is installed and none could be had; the $tests cannot run"
[ "${CI:-}" = true ] && exit 1
exit 0
