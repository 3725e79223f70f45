#!/bin/sh
# environment.sh FOLDER STAMP REQUIREMENT...
# Makes the environment FOLDER with the newest Python (or $PYTHON), installs the requirements, and touches
# FOLDER/STAMP. An environment that still runs is kept.
set -eu
folder=$1
stamp=$2
shift 2

if ! "$folder/bin/python" -c 'import pip' >/dev/null 2>&1; then
    python=${PYTHON:-$(sh scripts/python.sh)}
    if ! "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "$python cannot be used: Python 3.11 or newer, with venv, is needed (on Debian: python3-venv)." >&2
        exit 1
    fi
    echo "Making $folder with $("$python" --version) ..."
    rm -rf "$folder"
    # venv does not show what ensurepip said; asked once more, it does, or does it.
    "$python" -m venv "$folder" || "$folder/bin/python" -m ensurepip --upgrade --default-pip >&2
fi
echo "Installing $* into $folder (needed once, takes a minute) ..."
log=$folder/$stamp.log
if ! "$folder/bin/python" -m pip install --disable-pip-version-check "$@" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "pip could not install $*; all it said is in $log" >&2
    exit 1
fi
touch "$folder/$stamp"
