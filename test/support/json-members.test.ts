import t from 'tap'
import { eachElement, eachMember, stringAt } from '../../src/support/json-members.js'

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)
const TEXT = '{ "a" : {"x":[1,"}",{"\\"]":2}]}, "\\u0062":"\\"q\\"", "c":12.50 ,"d":[ true , null ] }'

void t.test('members and elements are found at their positions', async (t) => {
  const bytes = bytesOf(TEXT)
  const members: [string, string][] = []
  eachMember(bytes, 0, (name, start, end) => {
    members.push([name, new TextDecoder().decode(bytes.subarray(start, end))])
    return true
  })
  t.same(members, [
    ['a', '{"x":[1,"}",{"\\"]":2}]}'],
    ['b', '"\\"q\\""'],
    ['c', '12.50'],
    ['d', '[ true , null ]'],
  ])
  const list = bytesOf('[ 1,"a,]" ,{}]')
  const elements: string[] = []
  eachElement(list, 0, (start, end) => elements.push(new TextDecoder().decode(list.subarray(start, end))))
  t.same(elements, ['1', '"a,]"', '{}'])
  t.equal(stringAt(bytesOf('"\\u0062ö"'), 0, 10), 'bö')
})

void t.test('text that breaks off anywhere is an error, never a shorter object', async (t) => {
  const whole = bytesOf(TEXT)
  for (let length = 0; length < whole.length; length++) {
    t.throws(() => eachMember(whole.subarray(0, length), 0, () => true), `cut after ${length} bytes`)
  }
  for (const text of ['', '[', '[1', '[1,', '[1 2]', '[,]', '["a]'])
    t.throws(() => eachElement(bytesOf(text), 0, () => {}), text)
  for (const text of ['{"a":,}', '{"a" 1}', '{a:1}', '{"a":1 "b":2}']) {
    t.throws(() => eachMember(bytesOf(text), 0, () => true), text)
  }
})
