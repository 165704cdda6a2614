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

if ! command -v java >/dev/null; then
    echo "clients: no java, so JDBC is not tested"
elif [ ! -s "$dir/postgresql-$jdbc.jar" ]; then
    url="https://repo1.maven.org/maven2/org/postgresql/postgresql/$jdbc/postgresql-$jdbc.jar"
    if curl --fail --silent --show-error --location --max-time 60 --output "$dir/jar.part" "$url"; then
        mv "$dir/jar.part" "$dir/postgresql-$jdbc.jar"
    else
        rm -f "$dir/jar.part"
        echo "clients: the JDBC driver could not be fetched, so it is not tested"
    fi
fi
exit 0
