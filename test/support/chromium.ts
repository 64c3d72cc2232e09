/** A real browser for the tests of a file. */
import type { Browser, BrowserContext, Page } from 'playwright-core'
import root, { type Test } from 'tap'
import { launchChromium } from './launch-chromium.js'

/** One browser for all tests of a file, since it takes longer to start than most of them. */
let browser: Promise<Browser> | null = null

/** A page at `url` with its own profile, closed at the end of the test. */
export async function openPage(t: Test, url: string): Promise<Page> {
  const page = await (await openProfile(t)).newPage()
  await page.goto(url)
  return page
}

/** A profile, whose pages share storage as the tabs of one user do; closed with them at the end of the test. */
export async function openProfile(t: Test): Promise<BrowserContext> {
  browser ??= launch()
  const profile = await (await browser).newContext()
  // A machine busy with other tests is slow.
  profile.setDefaultTimeout(90_000)
  t.teardown(() => profile.close())
  return profile
}

async function launch(): Promise<Browser> {
  const launched = await launchChromium()
  root.teardown(() => launched.close())
  return launched
}
