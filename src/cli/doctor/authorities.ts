/**
 * The certificate authorities that an agent's pods trust. Moved pods mount the ConfigMap `distributary-ca` in place of
 * Kubernetes' own, so it must also contain the cluster's CA, for connections to the API server, kubelets and webhooks.
 * Nothing updates that copy of the CA.
 */
import { X509Certificate } from 'node:crypto'
import { ok, skipped, type Verdict, wrong } from './checks.js'
import type { ComparedServer } from './compared-server.js'

/** The authorities in PEM; null if there is no ConfigMap. */
export interface Authorities {
  /** The authorities of moved pods, from `distributary-ca`. */
  readonly moved: string | null
  /** The authorities of other pods, from `kube-root-ca.crt`. */
  readonly unmoved: string | null
}

/** @throws CommandError when the API server does not answer. */
export async function authoritiesIn(cluster: ComparedServer, namespace: string): Promise<Authorities> {
  const read = async (name: string): Promise<string | null> => {
    const { body } = await cluster.get(`/api/v1/namespaces/${encodeURIComponent(namespace)}/configmaps/${name}`)
    return body.data?.['ca.crt'] ?? null
  }
  return { moved: await read('distributary-ca'), unmoved: await read('kube-root-ca.crt') }
}

const ADVICE = 'create it from both CAs, as described in docs/guide/onboarding.md'

/** @param isTrusted whether distributary's certificate is valid for pods with these authorities. */
export async function checkAuthorities(
  { moved, unmoved }: Authorities,
  namespace: string,
  isTrusted: (ca: string) => Promise<boolean>,
): Promise<Verdict> {
  const name = `ConfigMap distributary-ca in ${namespace}`
  if (moved === null) {
    return unmoved !== null && (await isTrusted(unmoved))
      ? ok('pods already trust the certificate')
      : skipped(`there is no ${name}`, `before you move an agent, ${ADVICE}`)
  }
  const [own, others] = [fingerprints(moved), fingerprints(unmoved ?? '')]
  if (own.size === 0) return wrong(`${name} has no certificate in ca.crt`, ADVICE)
  if (!(await isTrusted(moved))) return wrong(`${name} lacks the CA of distributary’s certificate`, ADVICE)
  if ([...others].some((one) => !own.has(one))) return wrong(`${name} lacks a CA of the cluster`, ADVICE)
  return ok(`${name} has ${own.size === 1 ? 'the CA' : `${own.size} CAs`}`)
}

function fingerprints(pem: string): ReadonlySet<string> {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
  return new Set(
    blocks.flatMap((block) => {
      try {
        return [new X509Certificate(block).fingerprint256]
      } catch {
        return []
      }
    }),
  )
}
