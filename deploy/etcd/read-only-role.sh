#!/bin/sh
# A role of etcd that reads what distributary serves and nothing else, and a user who has it.
#
#   ETCDCTL_ENDPOINTS=https://127.0.0.1:2379 ETCDCTL_USER=root:... deploy/etcd/read-only-role.sh [PREFIX...]
#
# PREFIX: what is served, each ending in "/". Default: /registry/ (what --etcd-prefix says, with the slash).
# NAME: of role and user. Default: distributary. Where etcd knows users by certificate (--client-cert-auth), this is the
#   common name of the certificate in --etcd-certfile.
# PASSWORD_FILE: the user's password (without spaces: etcdctl reads a word), for --etcd-username and --etcd-password-file. Without it: by certificate alone.
#
# Besides these prefixes the server needs nothing: etcd tells its version, and its revision with every answer. It may be run
# again. Authentication itself is turned on by `etcdctl auth enable`, once there is a root.
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
    /*/) etcdctl role grant-permission "$name" --prefix=true read "$prefix" ;;
    *) echo "$prefix: a prefix begins and ends with a slash, or its neighbours are read as well" >&2; exit 2 ;;
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
