#!/bin/sh
# Creates an etcd role that can read what distributary serves and nothing else, and a user with that role.
#
#   ETCDCTL_ENDPOINTS=https://127.0.0.1:2379 ETCDCTL_USER=root:... deploy/etcd/read-only-role.sh [PREFIX...]
#
# PREFIX: the served prefixes, each ending in "/" or another separator. Default: /registry/ (the value of --etcd-prefix, with a slash).
# NAME: the name of role and user. Default: distributary. If etcd authenticates certificates (--client-cert-auth), use the common
#   name of the certificate in --etcd-certfile.
# PASSWORD_FILE: the user's password (without spaces: etcdctl reads a word), for --etcd-username and --etcd-password-file. Without it, the user can log in by certificate only.
#
# The server needs no other permission. You can run this script again. It does not turn authentication on: create a root user, then run
# `etcdctl auth enable`.
set -eu

export ETCDCTL_API=3
name=${NAME:-distributary}
[ $# -gt 0 ] || set -- /registry/

has() {
  etcdctl "$1" list | grep -qx "$name"
}

has role || etcdctl role add "$name"
for prefix in "$@"; do
  case $prefix in
    *[!A-Za-z0-9_-]) etcdctl role grant-permission "$name" --prefix=true read "$prefix" ;;
    *) echo "$prefix: a prefix must end in a separator such as a slash, or the user could also read other prefixes that begin alike" >&2; exit 2 ;;
  esac
done
if ! has user; then
  if [ -n "${PASSWORD_FILE:-}" ]; then
    etcdctl user add "$name" --interactive=false < "$PASSWORD_FILE"
  else
    etcdctl user add "$name" --no-password
  fi
fi
etcdctl user grant-role "$name" "$name"
