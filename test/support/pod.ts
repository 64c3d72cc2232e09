/** A stored pod with the fields that a test sets. */
export interface PodFields {
  readonly namespace?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
  readonly spec?: object
  readonly status?: object
}

export function pod(name: string, fields: PodFields = {}): object {
  const { namespace = 'default', labels, annotations, spec = {}, status = { phase: 'Running' } } = fields
  const optional = {
    ...(labels === undefined ? {} : { labels }),
    ...(annotations === undefined ? {} : { annotations }),
  }
  const metadata = { name, namespace, uid: `uid-${namespace}-${name}`, ...optional }
  return { kind: 'Pod', apiVersion: 'v1', metadata, spec, status }
}
