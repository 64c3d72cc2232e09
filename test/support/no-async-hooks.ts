/**
 * Loaded before a test (`--import`): tap gets no async hooks. It would have Node call it for every promise and timer that is
 * made and collected, to know of an error that nobody caught which test it belongs to, and that takes a sixth of the processor
 * time of tests that send many requests. Without them such an error ends the process of its file, which fails, with its stack.
 */
import asyncHooks, { type AsyncHook } from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

const none: AsyncHook = { enable: () => none, disable: () => none }

asyncHooks.createHook = () => none
syncBuiltinESMExports()
