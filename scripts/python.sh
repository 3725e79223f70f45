#!/bin/sh
# python.sh [VERSION...]: prints the first of these Pythons that can make an environment. Without versions: the newest
# of 3.13, 3.12, 3.11, else python3 if it is new enough. pyenv's versions count too, also those not switched on.
works() {
    # Running it is the only sure test: shims may lead nowhere, and Debian leaves out ensurepip.
    "$1" -c "import ensurepip, sys, venv; sys.exit(not ($2))" >/dev/null 2>&1
}
for version in "${@:-3.13 3.12 3.11}"; do
    for number in $version; do
        for python in "python$number" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$number".*/bin/python python3; do
            if works "$python" "'%d.%d' % sys.version_info[:2] == '$number'"; then
                "$python" -c 'import sys; print(sys.executable)'
                exit
            fi
        done
    done
done
if [ $# -eq 0 ] && works python3 "sys.version_info >= (3, 11)"; then
    python3 -c 'import sys; print(sys.executable)'
    exit
fi
echo "No Python found that can be used: Python ${*:-3.11 or newer}, with venv, is needed (on Debian: python3-venv)." >&2
exit 1
