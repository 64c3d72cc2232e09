/** Pages, the chart and the container name the versions on which the tests run, and no others. */
import t from 'tap'
import { imageNode, supportedNats, supportedNodes } from '../ops/support/versions.js'
import { readText } from './repository.js'

const [oldestNats, newestNats] = supportedNats()

void t.test('every page names the same NATS version, and the chart and the compose file use the newest', (t) => {
  const said = new RegExp(`NATS ${oldestNats} to ${newestNats}\\b`.replaceAll('.', '\\.'))
  for (const page of ['README.md', 'docs/guide/fleet.md', 'helm/distributary/README.md']) {
    t.match(readText(page), said, page)
    const others = [...readText(page).matchAll(/NATS \d+\.\d+ to \d+\.\d+/g)].map(([text]) => text)
    t.same(new Set(others), new Set([`NATS ${oldestNats} to ${newestNats}`]), page)
  }
  t.match(readText('helm/distributary/values.yaml'), `    tag: ${newestNats}-alpine\n`)
  t.match(readText('deploy/compose.yaml'), `nats:${newestNats}-alpine\n`)
  t.match(readText('CONTRIBUTING.md'), new RegExp(`^\\| NATS \\| ${oldestNats}\\..* ${newestNats}\\.`, 'm'))
  t.end()
})

void t.test('every page names the same Node version, and the container has one that works', (t) => {
  const nodes = supportedNodes()
  t.equal((JSON.parse(readText('package.json')) as { engines: { node: string } }).engines.node, `>=${nodes[0]}`)
  const majors = nodes.map((version) => version.replace(/\..*/, ''))
  t.match(readText('README.md'), new RegExp(`Node ${majors[0]} to ${majors.at(-1)}\\b`))
  t.match(readText('README.md'), `Node ${nodes[0]} or newer`)
  for (const major of majors) t.match(readText('CONTRIBUTING.md'), new RegExp(`^\\| Node \\|.*\\b${major}\\.\\d`, 'm'))
  const image = imageNode()
  t.ok(majors.includes(image.replace(/\..*/, '')), `Node ${image} is among those that are tested`)
  const broken = /Node (\d+\.\d+\.\d+) hides intermediates/.exec(readText('docs/guide/access.md'))?.[1]
  t.ok(broken, 'the guide names the Node that hides the intermediates of client certificates')
  t.not(image, broken, 'which is not that of the container')
  t.end()
})
