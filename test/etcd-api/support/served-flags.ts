/** Returns the flags of a server that serves `/NAME/` of an etcd in etcd's own API, with writes, for each name. */
export function servedFlags(etcdUrl: string, ...names: readonly string[]): string[] {
  return [
    `--etcd-servers=${etcdUrl}`,
    ...names.map((name) => `--resource=${name}=/${name}/`),
    `--etcd-api=${names.join()}`,
    '--enable-writes',
    '--authorization-mode=AlwaysAllow',
  ]
}
