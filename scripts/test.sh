#!/bin/sh
# Set up and run the tests; arguments go to pytest.
set -eu
EXTRAS=test
. "$(dirname "$0")/venv.sh"
# One more process than cores: some tests wait for others that they have started.
exec python -m pytest -n "$(python -c "import os; print(len(os.sched_getaffinity(0)) + 1)")" --dist worksteal "$@"
