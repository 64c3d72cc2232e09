/** The status page, with figures of the server above and a browser of its objects below. */
import { ObjectBrowser } from './browser.js'
import { followStatus } from './overview.js'

const browser = new ObjectBrowser()
followStatus((resources) => browser.offer(resources))
