/**
 * The owner of the repository is stated once: in `repository.url` of package.json. `npm run generate` updates addresses
 * elsewhere; the workflows get the owner from GitHub.
 */
import { readText } from './repository.js'

/** Files that name the owner, and how. */
export const OWNED = [
  'README.md',
  'package.json',
  'SECURITY.md',
  'deploy/README-client.md',
  'helm/distributary/Chart.yaml',
  'helm/distributary/values.yaml',
  'helm/distributary/README.md',
  'deploy/prometheus/rules.yaml',
  'deploy/prometheus/rules.test.yaml',
  'helm/distributary/files/rules.yaml',
  'deploy/kubernetes/base/kustomization.yaml',
  'deploy/kubernetes/edge/kustomization.yaml',
  'deploy/kubernetes/static-pod/kustomization.yaml',
  'deploy/kubernetes/kubeadm/patches/etcd+strategic.yaml',
  'docs/guide/onboarding.md',
  '.github/ISSUE_TEMPLATE/config.yml',
  '.github/CODEOWNERS',
] as const

/** `owner/name` @throws Error when the URL is not a GitHub repository. */
export function repository(): string {
  const { repository: named } = JSON.parse(readText('package.json')) as { repository: { url: string } }
  const found = /^git\+https:\/\/github\.com\/([\w.-]+\/[\w.-]+)\.git$/.exec(named.url)?.[1]
  if (found === undefined) throw new Error(`package.json: repository.url is not git+https://github.com/OWNER/NAME.git`)
  return found
}

/** Replaces the owner in names of this project's repositories and images with the current one. */
export function withOwner(text: string, owned = repository()): string {
  const image = owned.toLowerCase()
  return text
    .replace(/(?<=github\.com\/|@)[\w.-]+\/distributary\b/g, owned)
    .replace(/(?<=ghcr\.io\/)[\w.-]+\/(?=(?:charts\/)?distributary\b)/g, `${image.slice(0, image.indexOf('/'))}/`)
}
