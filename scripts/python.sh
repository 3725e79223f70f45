#!/bin/sh
# Prints the newest Python that can make an environment for shardlint: 3.13, 3.12, 3.11, else python3 if it is new
# enough. pyenv's versions count too, also those that are not switched on.
for version in 3.13 3.12 3.11; do
    for python in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python python3; do
        # Running it is the only sure test: shims may lead nowhere, and Debian leaves out ensurepip.
        if "$python" - "$version" <<'EOF' >/dev/null 2>&1
import ensurepip, sys, venv
sys.exit(sys.argv[1] != "%d.%d" % sys.version_info[:2])
EOF
        then
            "$python" -c 'import sys; print(sys.executable)'
            exit
        fi
    done
done
if python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
    python3 -c 'import sys; print(sys.executable)'
    exit
fi
echo "No Python found that can be used: shardlint needs 3.11 or newer, with venv (on Debian: python3-venv)." >&2
exit 1
