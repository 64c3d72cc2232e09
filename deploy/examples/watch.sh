#!/bin/sh
# Prints every change of a resource as a line of JSON, using only curl: watch.sh [URL]. It resumes after a broken connection. When the
# server no longer has that history (410), it prints a line {"type":"RELIST"} and lists again.
url=${1:-http://127.0.0.1:8001/api/v1/pods}
place=$(mktemp)
trap 'rm -f "$place"' EXIT
trap 'exit 130' INT TERM

version() { grep -o '"resourceVersion": *"[0-9]*"' | head -n 1 | tr -cd 0-9; }

while :; do
  if [ ! -s "$place" ]; then
    # A list's own resourceVersion comes before those of its items.
    curl -fsS "$url?limit=1" | version >"$place"
    [ -s "$place" ] || { sleep 2; continue; }
    printf '{"type":"RELIST","resourceVersion":"%s"}\n' "$(cat "$place")"
  fi
  curl -sSN "$url?watch=1&allowWatchBookmarks=true&resourceVersion=$(cat "$place")" |
    while IFS= read -r line; do
      case $line in
      '{"type":"ERROR"'* | '{"kind":"Status"'*)
        echo "$line" >&2
        case $line in *'"code":410'*) : >"$place" ;; esac
        ;;
      '{"type":'*)
        printf '%s\n' "$line" | version >"$place"
        case $line in '{"type":"BOOKMARK"'*) ;; *) printf '%s\n' "$line" ;; esac
        ;;
      esac
    done
  sleep 1 # never a busy loop, whatever the server does
done
