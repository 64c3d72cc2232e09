/** Candidate values for a field, by its format or name; the server decides which one it accepts. */
import type { Served } from './discovered.js'
import type { Value } from './grow.js'

const base64 = (text: string): string => Buffer.from(text).toString('base64')

/** Self-signed, valid for a hundred years. */
const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBOjCB7aADAgECAhQ9YpxQd6DCi5wXeXcnsTsStclrHTAFBgMrZXAwEjEQMA4G
A1UEAwwHZXhhbXBsZTAgFw0yNjExMjQyMzE3NTFaGA8yMTI2MTAzMTIzMTc1MVow
EjEQMA4GA1UEAwwHZXhhbXBsZTAqMAUGAytlcAMhANKKRWjtQpanLnCS5MiD6uGu
riCQEIrsESCvOYhRXQmQo1MwUTAdBgNVHQ4EFgQUYDbwX0bGlLYFET1mgYHfOO8E
bPcwHwYDVR0jBBgwFoAUYDbwX0bGlLYFET1mgYHfOO8EbPcwDwYDVR0TAQH/BAUw
AwEB/zAFBgMrZXADQQA7auRU2TRx/k5PeTWdlx9pQkGnwnp1BIMJkIC7zC2pvGRf
WkzeoZgUOCiQ6ofarVuFLChJszfx7xdaZLd06NIB
-----END CERTIFICATE-----
`
const CERTIFICATE_REQUEST = `-----BEGIN CERTIFICATE REQUEST-----
MIGRMEUCAQAwEjEQMA4GA1UEAwwHZXhhbXBsZTAqMAUGAytlcAMhAFgTcGI0DAmT
Yhh3wY4482RYwOaPEU/07DG1d9sLU5nVoAAwBQYDK2VwA0EACsmlpudKlKAlGI7W
EQARBNLnDsroJ9NnMz0HikEtuDkDhvHkhg8B2IuspBqqgl+Leh1uoBhHHZ7LUsgq
HuJ3BQ==
-----END CERTIFICATE REQUEST-----
`

export const MICRO_TIME = '2026-01-02T03:04:05.000006Z'

export const byFormat: Readonly<Record<string, readonly Value[]>> = {
  'date-time': ['2026-01-02T03:04:05Z'],
  byte: [
    base64('grüße'),
    base64('{}'),
    base64(CERTIFICATE),
    base64(CERTIFICATE_REQUEST),
    CERTIFICATE_REQUEST.split('\n').slice(1, -2).join(''),
  ],
  'int-or-string': [1, '25%', 'http'],
  double: [1.5],
}

export const plainTexts: readonly string[] = [
  'example',
  'example.com/example',
  'example.com',
  '10.0.0.1',
  '1',
  '/example',
  'https://example.com/example',
  '10.0.0.0/24',
  'Example',
  'v1',
  '1h',
  '*',
  'true',
]

/** Values for fields where any text is accepted but a specific value is more useful. */
export const byName: Readonly<Record<string, readonly Value[]>> = {
  quantity: ['1', '100m', '1Gi'],
  apiVersion: ['v1', 'example.com/v1'],
  fieldPath: ['metadata.name'],
  operator: ['In', 'Exists', 'Equal'],
  priorityClassName: ['system-cluster-critical'],
  volumeName: ['example'],
  except: ['10.0.0.0/28'],
  key: ['example', 'metadata.name'],
  timeZone: ['Etc/UTC'],
  verb: ['get'],
  trustBundle: [CERTIFICATE],
  valueExpression: ["'example'"],
  messageExpression: ["'example'"],
  binaryVersion: ['1.37.0'],
  emulationVersion: ['1.37.0'],
  accessModes: ['ReadWriteOnce'],
  accessMode: ['ReadWriteOnce'],
  iqn: ['iqn.2026-01.com.example:storage'],
  signerName: ['example.com/example'],
  ip: ['10.0.0.1'],
  podIP: ['10.0.0.1'],
  hostIP: ['10.0.0.2'],
  cidr: ['10.0.0.0/24'],
  kind: ['Example', 'Group'],
  schedule: ['*/5 * * * *'],
  expression: ['true', 'Object{}', '[]'],
  image: ['registry.example.com/example:1'],
  message: ['<b>grüße</b> & "日本語"\n\u2028 🦊', 'example'],
  protocol: ['TCP'],
  port: [80, 8080],
}

/** The name of a variant, for kinds that restrict names. */
const NAMES: Readonly<Record<string, (variant: number) => string>> = {
  'apiservices.apiregistration.k8s.io': (variant) => `v1.example${variant}.example.com`,
  'events.events.k8s.io': (variant) => `new-events-v1-${variant}`,
  'evictions.lifecycle.k8s.io': uidOf,
  'ipaddresses.networking.k8s.io': (variant) => `10.96.200.${variant}`,
  'storageversions.internal.apiserver.k8s.io': (variant) => `example.com.examples${variant}`,
}

export function names({ plural, group, version }: Served, variant: number): string {
  return NAMES[`${plural}.${group}`]?.(variant) ?? `${plural.slice(0, 20)}-${version}-${variant}`
}

function uidOf(variant: number): string {
  return `00000000-0000-4000-8000-00000000000${variant}`
}

const STORAGE = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } }
const QUEUING = { queues: 8, handSize: 2, queueLengthLimit: 5 }

const WORKLOAD = {
  selector: { matchLabels: { app: 'example' } },
  template: { metadata: { labels: { app: 'example' } } },
}

/** Initial members that some kinds need and that no message asks for. */
export function beginning({ plural, group }: Served, variant: number, namespace: string): { [name: string]: Value } {
  const object = { kind: 'Pod', namespace, name: 'example' }
  switch (`${plural}.${group}`) {
    case 'persistentvolumeclaims.':
      return { spec: STORAGE }
    case 'persistentvolumes.':
      return { spec: { accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' } } }
    case 'apiservices.apiregistration.k8s.io': {
      const priorities = { groupPriorityMinimum: 100, versionPriority: 10 }
      return { spec: { group: `example${variant}.example.com`, version: 'v1', ...priorities } }
    }
    case 'prioritylevelconfigurations.flowcontrol.apiserver.k8s.io': {
      const limitResponse = { type: 'Queue', queuing: QUEUING }
      return { spec: { type: 'Limited', limited: { nominalConcurrencyShares: 1, limitResponse } } }
    }
    case 'daemonsets.apps':
    case 'deployments.apps':
    case 'replicasets.apps':
    case 'statefulsets.apps':
      return { spec: WORKLOAD }
    case 'volumeattachments.storage.k8s.io':
      return { spec: { attacher: 'example.com', nodeName: 'example', source: { persistentVolumeName: 'example' } } }
    case 'events.':
      return { involvedObject: object }
    case 'events.events.k8s.io':
      return {
        regarding: object,
        eventTime: MICRO_TIME,
        type: 'Normal',
        reason: 'Example',
        action: 'Example',
        reportingController: 'example.com/controller',
        reportingInstance: 'example',
      }
    case 'evictions.lifecycle.k8s.io':
      return { spec: { target: { pod: { name: 'example', uid: uidOf(variant) } } } }
    case 'evictionrequests.lifecycle.k8s.io':
      return {
        spec: {
          target: { pod: { name: 'example', uid: uidOf(variant) } },
          requester: 'example.com/example',
          intent: 'Eviction',
        },
      }
    case 'workloads.scheduling.k8s.io': {
      const template = { name: 'example', schedulingPolicy: { basic: {} } }
      const composite = { name: 'composite', schedulingPolicy: { basic: {} }, podGroupTemplates: [template] }
      return {
        spec: variant % 2 === 0 ? { podGroupTemplates: [template] } : { compositePodGroupTemplates: [composite] },
      }
    }
    default:
      return {}
  }
}
