/** The status page, with figures of the server above and a browser of its objects below. */
import { ObjectBrowser } from './browser.js'
import { byId } from './elements.js'
import { followStatus } from './overview.js'

const browser = new ObjectBrowser()
followStatus((resources) => browser.offer(resources))

// The link must not replace what the address says about the reader's choices.
document.querySelector('.skip')!.addEventListener('click', (event) => {
  event.preventDefault()
  byId('main').focus()
})
