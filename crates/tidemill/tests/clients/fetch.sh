#!/usr/bin/env bash
# Fetches the client libraries that tests use, once, into the user's cache folder. Without a network, or without Python
# or Java, the tests that need them say that they are skipped.
set -uo pipefail
dir="${XDG_CACHE_HOME:-$HOME/.cache}/tidemill/clients"
jdbc=42.7.8
mkdir -p "$dir"

if ! command -v python3 >/dev/null; then
    echo "clients: no python3, so psycopg is not tested"
elif ! "$dir/venv/bin/python" -c 'import psycopg, psycopg2' 2>/dev/null; then
    { python3 -m venv "$dir/venv" && "$dir/venv/bin/pip" install --quiet --timeout 20 --retries 1 \
        'psycopg[binary]==3.3.*' 'psycopg2-binary==2.9.*'; } ||
        { rm -rf "$dir/venv"; echo "clients: psycopg could not be fetched, so it is not tested"; }
fi

if ! command -v java >/dev/null || ! command -v mvn >/dev/null; then
    echo "clients: no java with Maven, so JDBC is not tested"
elif [ ! -s "$dir/postgresql-$jdbc.jar" ]; then
    mvn --quiet --batch-mode dependency:copy -Dartifact="org.postgresql:postgresql:$jdbc" -DoutputDirectory="$dir" ||
        echo "clients: the JDBC driver could not be fetched, so it is not tested"
fi
exit 0
