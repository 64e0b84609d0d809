/** Tests signatures, and compares them with the example that the standard publishes. */
import { assert, describe, it } from "@effect/vitest"
import { InvalidWebhook, verify } from "@stint/webhooks/verify"
import * as fc from "fast-check"
import { newSecret, sign } from "../src/Signature.ts"

/** The published example of Standard Webhooks. */
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
const ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
const SENT = 1_614_265_330
const BODY = "{\"test\": 2432232314}"
const SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

const headers = (changes: Record<string, string> = {}) => ({
  "webhook-id": ID,
  "webhook-timestamp": String(SENT),
  "webhook-signature": SIGNATURE,
  ...changes
})

const now = SENT * 1000

const refusal = (run: () => unknown): string => {
  try {
    run()
  } catch (error) {
    return error instanceof InvalidWebhook ? error.reason : `another error: ${String(error)}`
  }
  return "none"
}

describe("a signature", () => {
  it("equals the published example of Standard Webhooks", () => {
    assert.strictEqual(sign(SECRET, ID, SENT, BODY), SIGNATURE)
    assert.deepStrictEqual(verify(SECRET, headers(), BODY, { now }), { id: ID, sentAt: now })
  })

  it("is verified with headers of Fetch, of node:http in any case, a body in bytes, and a secret without its prefix", () => {
    const bare = SECRET.slice("whsec_".length)
    verify(bare, new Headers(headers()), Buffer.from(BODY), { now })
    verify(SECRET, { "Webhook-Id": ID, "Webhook-Timestamp": String(SENT), "Webhook-Signature": [SIGNATURE] }, BODY, { now })
  })

  it("needs only one valid signature and one valid secret among several", () => {
    verify(SECRET, headers({ "webhook-signature": `v1,AAAA v1a,xyz ${SIGNATURE}` }), BODY, { now })
    verify([newSecret(), SECRET], headers(), BODY, { now })
  })

  it("is rejected for a changed body, id, time or secret, another version, and garbage", () => {
    const reasons = [
      () => verify(SECRET, headers(), `${BODY} `, { now }),
      () => verify(SECRET, headers({ "webhook-id": "msg_other" }), BODY, { now }),
      () => verify(SECRET, headers({ "webhook-timestamp": String(SENT + 1) }), BODY, { now }),
      () => verify(newSecret(), headers(), BODY, { now }),
      () => verify([], headers(), BODY, { now }),
      () => verify(SECRET, headers({ "webhook-signature": SIGNATURE.replace("v1,", "v2,") }), BODY, { now }),
      () => verify(SECRET, headers({ "webhook-signature": "%%%" }), BODY, { now })
    ].map(refusal)
    assert.deepStrictEqual(reasons, reasons.map(() => "signature"))
  })

  it("is rejected when a header is missing", () => {
    for (const name of ["webhook-id", "webhook-timestamp", "webhook-signature"]) {
      assert.strictEqual(refusal(() => verify(SECRET, headers({ [name]: "" }), BODY, { now })), "header missing")
    }
    assert.strictEqual(refusal(() => verify(SECRET, {}, BODY, { now })), "header missing")
  })

  it("is rejected when the timestamp is five minutes old, in the future, or not a number", () => {
    const at = (seconds: number) => refusal(() => verify(SECRET, headers(), BODY, { now: now + seconds * 1000 }))
    assert.deepStrictEqual([at(300), at(-300), at(301), at(-301)], ["none", "none", "timestamp", "timestamp"])
    for (const text of ["soon", "-1", "1614265330.5", "99999999999999", "NaN"]) {
      assert.strictEqual(refusal(() => verify(SECRET, headers({ "webhook-timestamp": text }), BODY, { now })), "timestamp")
    }
  })

  it("is verified for any body and secret, and rejected for a different body", () => {
    fc.assert(fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (body, other) => {
      const secret = newSecret()
      const signed = headers({ "webhook-signature": sign(secret, ID, SENT, body) })
      assert.strictEqual(refusal(() => verify(secret, signed, body, { now })), "none")
      fc.pre(Buffer.compare(Buffer.from(other), Buffer.from(body)) !== 0)
      assert.strictEqual(refusal(() => verify(secret, signed, other, { now })), "signature")
    }))
  })
})
