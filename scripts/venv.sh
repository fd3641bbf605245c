# Sourced by the other scripts: a virtual environment in .venv with mccgr in it, and the extras named in EXTRAS.
# PYTHON names the interpreter to use; by default the first of 3.11 or later that is found.
cd "$(dirname "$0")/.." || exit 1

suitable_python() {
    for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python; do
        if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "no Python 3.11 or later found; install one, or set PYTHON to its path" >&2
    return 1
}

if [ ! -x .venv/bin/python ]; then
    python=$(suitable_python) || exit 1
    echo "making .venv" >&2
    "$python" -m venv .venv || exit 1
fi
echo "installing mccgr${EXTRAS:+[$EXTRAS]} into .venv" >&2
.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".${EXTRAS:+[$EXTRAS]}" || exit 1
PATH="$PWD/.venv/bin:$PATH"
