/**
 * The owner of the repository is stated once: in `repository.url` of package.json. Addresses elsewhere follow from it
 * through `npm run generate`; the workflows ask GitHub who runs them.
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
  'deploy/prometheus/rules.yaml',
  'deploy/prometheus/rules.test.yaml',
  'helm/distributary/files/rules.yaml',
  'deploy/kubernetes/base/kustomization.yaml',
  'deploy/kubernetes/edge/kustomization.yaml',
  'deploy/kubernetes/static-pod/kustomization.yaml',
  '.github/ISSUE_TEMPLATE/config.yml',
] as const

/** `owner/name` @throws Error when it is no repository on GitHub. */
export function repository(): string {
  const { repository: named } = JSON.parse(readText('package.json')) as { repository: { url: string } }
  const found = /^git\+https:\/\/github\.com\/([\w.-]+\/[\w.-]+)\.git$/.exec(named.url)?.[1]
  if (found === undefined) throw new Error(`package.json: repository.url is not git+https://github.com/OWNER/NAME.git`)
  return found
}

/** Replaces the owner in names of repositories and images of this project by today's. */
export function withOwner(text: string, owned = repository()): string {
  const image = owned.toLowerCase()
  return text
    .replace(/(?<=github\.com\/)[\w.-]+\/distributary\b/g, owned)
    .replace(/(?<=ghcr\.io\/)[\w.-]+\/(?=(?:charts\/)?distributary\b)/g, `${image.slice(0, image.indexOf('/'))}/`)
}
