/**
 * Payloads that reveal whether a component between sender and receiver parsed and reprinted them.
 */

/** JSON texts that parsing and printing would change, and some plain JSON texts. */
export const JSON_SAMPLES: ReadonlyArray<string> = [
  "{}",
  "null",
  "[]",
  "\"\"",
  "0",
  "false",
  "{\"name\":\"Ada\"}",
  "{\"a\":{\"b\":[1,2,{\"c\":null}]}}",
  "\"Ünïcödé 漢字 😀 \\u0000 \\ud800\"",
  "{\"seed\":18446744073709551615}",
  "[1e300,-0,1.0,0.1000]",
  "{\"b\":1,\"1\":2,\"a\":3}",
  "{\"__proto__\":{\"x\":1},\"constructor\":null}",
  "{ \"spaced\" :\t[ 1 , 2 ] }",
  "{\"input\":{\"input\":1},\"policy\":\"mine\"}"
]
