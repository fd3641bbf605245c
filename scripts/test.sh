#!/bin/sh
# Set up and run the tests; arguments go to pytest.
set -eu
EXTRAS=test
. "$(dirname "$0")/venv.sh"
exec python -m pytest -n auto --dist worksteal "$@"
