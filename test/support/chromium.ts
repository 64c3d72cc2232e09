/** A real browser for tests: Debian's Chromium, headless, without background downloads. */
import { existsSync } from 'node:fs'
import { type Browser, type BrowserContext, type Page, chromium } from 'playwright-core'
import root, { type Test } from 'tap'

const EXECUTABLE = '/usr/bin/chromium'

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
  if (!existsSync(EXECUTABLE)) throw new Error(`this test needs a browser at ${EXECUTABLE}: apt-get install chromium`)
  browser ??= launch()
  const profile = await (await browser).newContext()
  // A machine busy with other tests is slow.
  profile.setDefaultTimeout(90_000)
  t.teardown(() => profile.close())
  return profile
}

async function launch(): Promise<Browser> {
  const launched = await chromium.launch({
    executablePath: EXECUTABLE,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  })
  root.teardown(() => launched.close())
  return launched
}
