import type { Page } from 'playwright-core'

/** Returns the states that `indexedDbStore` keeps for a page, a line each. */
export const saved = async (tab: Page): Promise<string> =>
  await tab.evaluate(
    `new Promise((resolve, reject) => {
      const opening = indexedDB.open('distributary', 1)
      opening.onerror = () => reject(opening.error)
      opening.onsuccess = () => {
        const asked = opening.result.transaction('states').objectStore('states').getAll()
        asked.onsuccess = () => {
          opening.result.close()
          resolve(asked.result.map((bytes) => new TextDecoder().decode(bytes)).join('\\n'))
        }
      }
    })`,
  )
