/** Rows of services, and of the kinds that find services, route to them and protect them. */
import { field, has, listAt, numberAt, textAt } from '../../../support/fields.js'
import { AGE, aged, column, firstFew, items, labels, named, or, type Printer, selector, text, wide } from './printer.js'

const serviceType = text('spec.type', 'ClusterIP')

export const networkPrinters: Readonly<Record<string, Printer>> = {
  Service: named(
    column('Type', 'How it is exposed.', serviceType),
    column('Cluster-IP', 'Address inside the cluster.', (service) => {
      const first = listAt(service, 'spec', 'clusterIPs')[0]
      return (typeof first === 'string' ? first : textAt(service, 'spec', 'clusterIP')) || '<none>'
    }),
    column('External-IP', 'Addresses outside the cluster.', externalAddress),
    column('Port(s)', 'Ports it serves.', servicePorts),
    AGE,
    wide('Selector', 'Labels of the pods behind it.', labels('spec.selector')),
  ),
  Endpoints: aged(column('Endpoints', 'Addresses and ports behind the service.', endpoints)),
  EndpointSlice: aged(
    column('AddressType', 'Kind of the addresses.', 'addressType'),
    column('Ports', 'Ports of every address.', (slice) => {
      const ports = listAt(slice, 'ports').map((port) =>
        String(numberAt(port, 'port') ?? (has(port, 'name') ? textAt(port, 'name') : '*')),
      )
      return firstFew(ports, 3, '<unset>')
    }),
    column('Endpoints', 'Addresses.', (slice) => {
      const addresses = listAt(slice, 'endpoints').flatMap((endpoint) => listAt(endpoint, 'addresses').map(String))
      return firstFew(addresses, 3, '<unset>')
    }),
  ),
  Ingress: aged(
    column('Class', 'Ingress class that serves it.', text('spec.ingressClassName', '<none>')),
    column('Hosts', 'Host names of its rules.', ingressHosts),
    column('Address', 'Where the load balancer listens.', balancerAddresses),
    column('Ports', 'Ports it opens.', (ingress) => (listAt(ingress, 'spec', 'tls').length === 0 ? '80' : '80, 443')),
  ),
  IngressClass: aged(
    column('Controller', 'Controller that serves the class.', 'spec.controller'),
    column('Parameters', 'Object with further settings.', (object) => {
      const parameters = field(object, 'spec', 'parameters')
      if (typeof parameters !== 'object' || parameters === null) return '<none>'
      const group = textAt(parameters, 'apiGroup')
      return `${textAt(parameters, 'kind')}${group === '' ? '' : `.${group}`}/${textAt(parameters, 'name')}`
    }),
  ),
  NetworkPolicy: aged(
    column('Pod-Selector', 'Labels of the pods it protects.', or('<none>', selector('spec.podSelector'))),
  ),
  IPAddress: named(
    column('ParentRef', 'Object that uses the address.', (object) => {
      const parent = field(object, 'spec', 'parentRef')
      if (typeof parent !== 'object' || parent === null) return '<none>'
      const group = textAt(parent, 'group')
      const resource = `${textAt(parent, 'resource')}${group === '' ? '' : `.${group}`}`.toLowerCase()
      return [resource, textAt(parent, 'namespace'), textAt(parent, 'name')].filter((part) => part !== '').join('/')
    }),
  ),
  ServiceCIDR: aged(column('CIDRs', 'Ranges that cluster addresses are taken from.', items('spec.cidrs'))),
}

function externalAddress(service: unknown): string {
  const external = listAt(service, 'spec', 'externalIPs').map(String)
  switch (serviceType(service)) {
    case 'ClusterIP':
    case 'NodePort':
      return external.join(',') || '<none>'
    case 'LoadBalancer': {
      const balanced = balancerAddresses(service)
      return [...(balanced === '' ? [] : [balanced]), ...external].join(',') || '<pending>'
    }
    case 'ExternalName':
      return textAt(service, 'spec', 'externalName')
    default:
      return '<unknown>'
  }
}

function balancerAddresses(object: unknown): string {
  const addresses = listAt(object, 'status', 'loadBalancer', 'ingress')
    .map((entry) => textAt(entry, 'ip') || textAt(entry, 'hostname'))
    .filter((address) => address !== '')
  return [...new Set(addresses)].sort().join(',')
}

function servicePorts(service: unknown): string {
  const ports = listAt(service, 'spec', 'ports').map((port) => {
    const nodePort = numberAt(port, 'nodePort') ?? 0
    const number = `${numberAt(port, 'port') ?? 0}${nodePort > 0 ? `:${nodePort}` : ''}`
    return `${number}/${textAt(port, 'protocol') || 'TCP'}`
  })
  return ports.join(',') || '<none>'
}

/** There are as many as addresses times ports, so only what is shown is built. */
function endpoints(object: unknown): string {
  const subsets = listAt(object, 'subsets')
  const shown: string[] = []
  let total = 0
  for (const subset of subsets) {
    const addresses = listAt(subset, 'addresses')
    const ports = listAt(subset, 'ports')
    total += addresses.length * Math.max(ports.length, 1)
    // A headless service may have no ports.
    for (const port of ports.length === 0 ? [null] : ports.slice(0, FEW + 1)) {
      for (const address of addresses.slice(0, FEW + 1 - shown.length)) {
        const ip = textAt(address, 'ip')
        shown.push(port === null ? ip : `${ip.includes(':') ? `[${ip}]` : ip}:${numberAt(port, 'port') ?? 0}`)
      }
    }
  }
  return subsets.length === 0 ? '<none>' : firstFew(shown, FEW, '', total)
}

const FEW = 3

function ingressHosts(ingress: unknown): string {
  const rules = listAt(ingress, 'spec', 'rules')
  const hosts = rules.map((rule) => textAt(rule, 'host')).filter((host) => host !== '')
  return firstFew(hosts, 3, '*', rules.length)
}
