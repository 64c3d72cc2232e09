/** The fixed limits of what other layers share; see `engine/model/limits.ts`. */

/** Half the bound on JSON, because the composer takes four large frames for each level. */
export const MAX_YAML_DEPTH = 256
/** The most aliases in one text, because the library looks for the anchor of each in the whole document. */
export const MAX_ALIASES = 100
