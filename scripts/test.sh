#!/bin/sh
# Everything that must hold. All of it is run, also after a failure; pytest comes last, so that its closing line ends
# the output of a run without failures.
bin=.venv/bin
failed=
step() {
    echo "== $*"
    "$@" || failed="$failed
  $*"
}
# Tests start hundreds of programs, and where PYTHONDONTWRITEBYTECODE is set each would compile all modules again.
step $bin/python -m compileall -q -j 2 shardlint rules
step $bin/ruff check --quiet --output-format concise .
step $bin/mypy
step $bin/python scripts/docs.py --check
step $bin/python scripts/observe_api.py --check
step $bin/shardlint check --exclude fixtures/ --exclude data/ --exclude tests/mistakes/ .
step $bin/shardlint verify --jobs 2 --rules all
PLAYWRIGHT_BROWSERS_PATH=${PLAYWRIGHT_BROWSERS_PATH:-$PWD/.venv/browsers}
export PLAYWRIGHT_BROWSERS_PATH
sh scripts/browser.sh
step $bin/pytest -n 2 --dist loadgroup
if [ -n "$failed" ]; then
    echo "Failed:$failed" >&2
    exit 1
fi
