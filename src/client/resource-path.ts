/** Where a resource lies under an API server. */
export interface ResourceName {
  /** Default: '', the core group. */
  readonly group?: string
  /** Default: 'v1'. */
  readonly version?: string
  /** `pods`, `deployments`. */
  readonly plural: string
  /** Leave it out for all of them, and for what has none. */
  readonly namespace?: string
  /** One object. */
  readonly name?: string
}

/** `/api/v1/namespaces/shop/pods/cart-0`, `/apis/apps/v1/deployments`. */
export function resourcePath({ group = '', version = 'v1', plural, namespace, name }: ResourceName): string {
  const root = group === '' ? `/api/${version}` : `/apis/${encodeURIComponent(group)}/${version}`
  const place = namespace === undefined || namespace === '' ? '' : `/namespaces/${encodeURIComponent(namespace)}`
  const one = name === undefined ? '' : `/${encodeURIComponent(name)}`
  return `${root}${place}/${plural}${one}`
}
