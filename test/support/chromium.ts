/** A real browser for a test: Debian's Chromium, headless, with nothing it would fetch on its own. */
import { existsSync } from 'node:fs'
import { type Browser, type Page, chromium } from 'playwright-core'
import type { Test } from 'tap'

const EXECUTABLE = '/usr/bin/chromium'

/** A page at `url`, closed with its browser at the end of the test. */
export async function openPage(t: Test, url: string): Promise<Page> {
  if (!existsSync(EXECUTABLE)) throw new Error(`this test needs a browser at ${EXECUTABLE}: apt-get install chromium`)
  const browser: Browser = await chromium.launch({
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
  t.teardown(() => browser.close())
  const page = await browser.newPage()
  await page.goto(url)
  return page
}
