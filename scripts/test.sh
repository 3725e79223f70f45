#!/bin/sh
# test.sh       what a person waits for: lint, types, docs, the proofs of what changed, and the tests that are not longer
# test.sh all   the rest: the other proofs, the tests of whole programs, installed packages, other Pythons, a browser
# All of it is run, also after a failure; pytest comes last, so that its closing line ends the output of a green run.
bin=.venv/bin
longer="longer or packaging or precommit"
failed=
step() {
    echo "== $*"
    "$@" || failed="$failed
  $*"
}
# Where it is set, each of the hundreds of programs that tests start compiles all modules again, and pytest all tests.
unset PYTHONDONTWRITEBYTECODE
if [ "${1:-}" = all ]; then
    step $bin/shardlint check --exclude fixtures/ --exclude data/ --exclude tests/mistakes/ .
    step $bin/python scripts/changed_proofs.py --rest
    PLAYWRIGHT_BROWSERS_PATH=${PLAYWRIGHT_BROWSERS_PATH:-$PWD/.venv/browsers}
    export PLAYWRIGHT_BROWSERS_PATH
    sh scripts/browser.sh
    step $bin/pytest -n 2 --dist loadgroup --durations 10 -m "$longer"
else
    step $bin/python -m compileall -q -j 2 shardlint rules
    # mypy has one process, so the second core is free for the next steps, and pytest need not wait for it.
    types=$(mktemp)
    trap 'rm -f "$types"' EXIT
    $bin/mypy >"$types" 2>&1 &
    mypy=$!
    step $bin/ruff check --quiet --output-format concise .
    step $bin/python scripts/docs.py --check
    step $bin/python scripts/observe_api.py --check
    step $bin/python scripts/changed_proofs.py
    step $bin/pytest -n 2 --dist loadgroup --durations 10 -m "not ($longer)"
    if ! wait $mypy; then
        echo "== $bin/mypy"
        cat "$types"
        failed="$failed
  $bin/mypy"
    fi
fi
if [ -n "$failed" ]; then
    echo "Failed:$failed" >&2
    exit 1
fi
