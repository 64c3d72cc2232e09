#!/bin/sh
# Creates ca.crt, tls.crt and tls.key in the current folder: distributary's CA, and a certificate for the names by which agents reach it.
#   certificate.sh                                         a new CA, whose key (ca.key) stays here
#   certificate.sh --ca-cert /etc/kubernetes/pki/ca.crt --ca-key /etc/kubernetes/pki/ca.key    the cluster's own
# --names replaces the names (DNS:distributary.distributary.svc,IP:127.0.0.1 and so on). --days is 365 by default.
set -eu

names=DNS:distributary,DNS:distributary.distributary,DNS:distributary.distributary.svc,DNS:distributary.distributary.svc.cluster.local,DNS:localhost,IP:127.0.0.1
days=365
ca=
key=
while [ $# -gt 1 ]; do
  case $1 in
    --names) names=$2 ;;
    --days) days=$2 ;;
    --ca-cert) ca=$2 ;;
    --ca-key) key=$2 ;;
    *) echo "unknown option: $1" >&2; exit 2 ;;
  esac
  shift 2
done
if [ $# -gt 0 ] || [ "${ca:+x}" != "${key:+x}" ]; then
  echo "usage: certificate.sh [--names NAMES] [--days N] [--ca-cert FILE --ca-key FILE]" >&2
  exit 2
fi

umask 077
curve='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
if [ -n "$ca" ]; then
  cp "$ca" ca.crt
elif [ ! -e ca.key ]; then
  # Since 3.13, Python refuses a CA that does not say what its key is for.
  # shellcheck disable=SC2086 # several options
  openssl req -x509 $curve -days 3650 -subj '/CN=distributary authority' -addext keyUsage=critical,keyCertSign,cRLSign -keyout ca.key -out ca.crt
fi
extensions=$(mktemp)
trap 'rm -f "$extensions" tls.csr' EXIT
printf 'subjectAltName=%s\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\nbasicConstraints=critical,CA:FALSE\n' "$names" > "$extensions"
# shellcheck disable=SC2086
openssl req -new $curve -subj /CN=distributary -keyout tls.key -out tls.csr
serial=0x$(openssl rand -hex 16)
openssl x509 -req -in tls.csr -CA ca.crt -CAkey "${key:-ca.key}" -set_serial "$serial" -days "$days" -extfile "$extensions" -out tls.crt
