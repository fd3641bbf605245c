#!/bin/sh
# Set up and run the tests; arguments go to pytest.
set -eu
EXTRAS=test
. "$(dirname "$0")/venv.sh"
# One more process than cores: some tests wait for others that they have started.
exec python -m pytest -n "$(python -c "from mccgr_cli.system.processes import usable_cores; print(usable_cores() + 1)")" --dist worksteal "$@"
