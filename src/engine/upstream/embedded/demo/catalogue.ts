/** The contents of the demo cluster, as data: read it to know what a first run shows. */

export interface DemoNode {
  readonly name: string
  readonly role: 'control-plane' | 'worker'
  readonly zone: string
  readonly cpu: string
  readonly memory: string
}

export interface DemoWorkload {
  readonly kind: 'Deployment' | 'DaemonSet' | 'StatefulSet'
  readonly namespace: string
  readonly name: string
  /** A DaemonSet has as many as there are nodes, whatever this says. */
  readonly replicas: number
  readonly image: string
  readonly tag: string
  /** When absent, there is no Service in front of it. */
  readonly port?: number
  readonly tier: string
  readonly cpu: string
  readonly memory: string
}

export const demoNodes: readonly DemoNode[] = [
  { name: 'control-1', role: 'control-plane', zone: 'zone-a', cpu: '4', memory: '8126412Ki' },
  { name: 'worker-1', role: 'worker', zone: 'zone-a', cpu: '8', memory: '32805964Ki' },
  { name: 'worker-2', role: 'worker', zone: 'zone-b', cpu: '8', memory: '32805964Ki' },
  { name: 'worker-3', role: 'worker', zone: 'zone-b', cpu: '16', memory: '65789120Ki' },
  { name: 'worker-4', role: 'worker', zone: 'zone-c', cpu: '16', memory: '65789120Ki' },
]

export const demoNamespaces: readonly string[] = [
  'default',
  'kube-node-lease',
  'kube-system',
  'observability',
  'payments',
  'shop',
]

const deployment = { kind: 'Deployment', cpu: '100m', memory: '128Mi' } as const
const daemonSet = { kind: 'DaemonSet', replicas: demoNodes.length, cpu: '50m', memory: '64Mi' } as const
const statefulSet = { kind: 'StatefulSet', cpu: '500m', memory: '1Gi' } as const

export const demoWorkloads: readonly DemoWorkload[] = [
  {
    ...deployment,
    namespace: 'default',
    name: 'echo',
    replicas: 2,
    image: 'echo',
    tag: '0.9.3',
    port: 8080,
    tier: 'web',
  },
  {
    ...deployment,
    namespace: 'kube-system',
    name: 'coredns',
    replicas: 2,
    image: 'coredns',
    tag: '1.12.0',
    port: 53,
    tier: 'control',
  },
  { ...daemonSet, namespace: 'kube-system', name: 'kube-proxy', image: 'kube-proxy', tag: '1.34.2', tier: 'node' },
  {
    ...deployment,
    namespace: 'kube-system',
    name: 'metrics-server',
    replicas: 1,
    image: 'metrics-server',
    tag: '0.8.0',
    port: 10250,
    tier: 'control',
  },
  {
    ...statefulSet,
    namespace: 'observability',
    name: 'prometheus',
    replicas: 2,
    image: 'prometheus',
    tag: '3.5.0',
    port: 9090,
    tier: 'data',
  },
  {
    ...deployment,
    namespace: 'observability',
    name: 'grafana',
    replicas: 1,
    image: 'grafana',
    tag: '12.1.0',
    port: 3000,
    tier: 'web',
  },
  {
    ...daemonSet,
    namespace: 'observability',
    name: 'log-collector',
    image: 'log-collector',
    tag: '4.0.7',
    tier: 'node',
  },
  {
    ...deployment,
    namespace: 'payments',
    name: 'api',
    replicas: 4,
    image: 'payments-api',
    tag: '5.4.1',
    port: 8080,
    tier: 'api',
  },
  {
    ...deployment,
    namespace: 'payments',
    name: 'fraud-scorer',
    replicas: 2,
    image: 'fraud-scorer',
    tag: '2.0.0',
    port: 9000,
    tier: 'api',
  },
  {
    ...statefulSet,
    namespace: 'payments',
    name: 'ledger',
    replicas: 3,
    image: 'ledger',
    tag: '1.8.12',
    port: 5432,
    tier: 'data',
  },
  {
    ...deployment,
    namespace: 'payments',
    name: 'settlement',
    replicas: 3,
    image: 'settlement',
    tag: '3.1.0',
    tier: 'worker',
  },
  { ...deployment, namespace: 'shop', name: 'cart', replicas: 3, image: 'cart', tag: '7.2.0', port: 8080, tier: 'api' },
  {
    ...deployment,
    namespace: 'shop',
    name: 'catalog',
    replicas: 4,
    image: 'catalog',
    tag: '4.19.2',
    port: 8080,
    tier: 'api',
  },
  {
    ...deployment,
    namespace: 'shop',
    name: 'checkout',
    replicas: 3,
    image: 'checkout',
    tag: '6.0.1',
    port: 8080,
    tier: 'api',
  },
  {
    ...deployment,
    namespace: 'shop',
    name: 'frontend',
    replicas: 5,
    image: 'frontend',
    tag: '12.3.0',
    port: 80,
    tier: 'web',
  },
  {
    ...deployment,
    namespace: 'shop',
    name: 'search',
    replicas: 3,
    image: 'search',
    tag: '2.11.5',
    port: 9200,
    tier: 'api',
  },
  {
    ...statefulSet,
    namespace: 'shop',
    name: 'sessions',
    replicas: 3,
    image: 'valkey',
    tag: '8.1.0',
    port: 6379,
    tier: 'data',
  },
]

export const demoConfigMaps: readonly {
  readonly namespace: string
  readonly name: string
  readonly data: Readonly<Record<string, string>>
}[] = [
  {
    namespace: 'kube-system',
    name: 'coredns',
    data: { Corefile: '.:53 {\n    errors\n    health\n    forward . /etc/resolv.conf\n}\n' },
  },
  { namespace: 'shop', name: 'frontend-settings', data: { theme: 'light', banner: '', tier: 'web' } },
  {
    namespace: 'shop',
    name: 'search-synonyms',
    data: { 'synonyms.txt': 'sofa, couch\ntelly, television\n', tier: 'api' },
  },
  { namespace: 'payments', name: 'limits', data: { 'daily-limit': '10000', currency: 'EUR', tier: 'api' } },
  { namespace: 'observability', name: 'log-levels', data: { default: 'info', shop: 'info', payments: 'warn' } },
]

export const demoCanaries: readonly {
  readonly namespace: string
  readonly name: string
  readonly stepWeight: number
}[] = [
  { namespace: 'payments', name: 'api', stepWeight: 10 },
  { namespace: 'shop', name: 'checkout', stepWeight: 20 },
  { namespace: 'shop', name: 'frontend', stepWeight: 25 },
]

/** Keys that are not Kubernetes objects: plain text, JSON and bytes. */
export const demoFlagPrefix = '/config/flags/'

/** The smallest possible GIF: one transparent pixel. */
const pixel = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64')

export const demoFlags: readonly { readonly name: string; readonly value: Buffer }[] = [
  { name: 'checkout/express', value: Buffer.from('on') },
  { name: 'checkout/gift-cards', value: Buffer.from('off') },
  { name: 'maintenance', value: Buffer.from('off') },
  { name: 'search/ranking', value: Buffer.from('{"variant":"b","percent":25}') },
  { name: 'payments/daily-limit', value: Buffer.from('{"currency":"EUR","amount":10000}') },
  { name: 'frontend/badge.gif', value: pixel },
]
