import t from 'tap'
import { readText } from './repository.js'
import { OWNED, repository, withOwner } from './owner.js'
import { ACCEPTED, thirdParty } from './third-party.js'

void t.test('everything installed with the package has a licence that allows shipping it', async (t) => {
  const packages = thirdParty()
  t.ok(packages.length > 50, `${packages.length} packages`)
  for (const { title, license, text } of packages) {
    for (const one of license.split(' AND ')) t.ok(ACCEPTED.includes(one), title)
    t.ok(text.length > 100, `${title}: a licence of ${text.length} characters`)
  }
  const { dependencies } = JSON.parse(readText('package.json')) as { dependencies: Record<string, string> }
  for (const [name, wanted] of Object.entries(dependencies)) {
    // An alias is listed under the package's own name.
    const installed = /^npm:(.+)@/.exec(wanted)?.[1] ?? name
    t.ok(
      packages.some(({ title }) => title.startsWith(`${installed} `)),
      name,
    )
  }
  t.notOk(
    packages.some(({ title }) => /^(tap|typescript|oxlint|undici) /.test(title)),
    'and development tools are not among them',
  )
})

void t.test('a changed owner reaches every file that names one, and no other text', async (t) => {
  const moved = withOwner(
    'https://github.com/old/distributary/issues ghcr.io/old/distributary oci://ghcr.io/old/charts/distributary https://github.com/other/project',
    'New-Owner/distributary',
  )
  t.equal(
    moved,
    'https://github.com/New-Owner/distributary/issues ghcr.io/new-owner/distributary oci://ghcr.io/new-owner/charts/distributary https://github.com/other/project',
  )
  for (const path of OWNED) {
    t.not(withOwner(readText(path), 'somebody/distributary'), readText(path), `${path} names the owner`)
  }
  t.match(repository(), /^[\w.-]+\/distributary$/)
})
