/** The path of a resource under an API server. */
export interface ResourceName {
  /** Default: '', the core group. */
  readonly group?: string
  /** Default: 'v1'. */
  readonly version?: string
  /** `pods`, `deployments`. */
  readonly plural: string
  /** Omit for all namespaces, and for cluster-scoped resources. */
  readonly namespace?: string
  /** The name of one object. */
  readonly name?: string
}

/** Returns a path such as `/api/v1/namespaces/shop/pods/cart-0` or `/apis/apps/v1/deployments`. */
export function resourcePath({ group = '', version = 'v1', plural, namespace, name }: ResourceName): string {
  const root = group === '' ? `/api/${version}` : `/apis/${encodeURIComponent(group)}/${version}`
  const place = namespace === undefined || namespace === '' ? '' : `/namespaces/${encodeURIComponent(namespace)}`
  const one = name === undefined ? '' : `/${encodeURIComponent(name)}`
  return `${root}${place}/${plural}${one}`
}
