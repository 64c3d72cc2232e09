/**
 * Loaded before a test (`--import`): keeps tap from using async hooks. tap uses them to attribute uncaught errors to a
 * test, but Node then calls tap for every promise and timer, which takes a sixth of the processor time of tests with
 * many requests. Without them such an error ends the process of its file, which fails with the stack.
 */
import asyncHooks, { type AsyncHook } from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

const none: AsyncHook = { enable: () => none, disable: () => none }

asyncHooks.createHook = () => none
syncBuiltinESMExports()
