import { assert, describe, it } from "@effect/vitest"
import { createHmac } from "node:crypto"
import * as GitWebhook from "../src/GitWebhook.ts"

const SECRET = "a-webhook-secret"
const hmac = (body: string) => createHmac("sha256", SECRET).update(body).digest("hex")
const push = { ref: "refs/heads/main", after: "c0ffee", repository: { default_branch: "main" } }
const settings = { repository: "https://git.example.com/words.git", ref: "main" }

describe("webhooks of Git hosts", () => {
  it("are accepted with the signature of GitHub, Gitea and GitLab, and rejected with any other", () => {
    const body = JSON.stringify(push)
    const signed = [
      { "x-github-event": "push", "x-hub-signature-256": `sha256=${hmac(body)}` },
      { "x-gitea-event": "push", "x-github-event": "push", "x-gitea-signature": hmac(body) },
      { "x-gitlab-event": "Push Hook", "x-gitlab-token": SECRET }
    ]
    for (const headers of signed) {
      assert.isTrue(GitWebhook.isSigned(headers, body, SECRET))
      assert.isFalse(GitWebhook.isSigned(headers, body, "another"))
      if (!("x-gitlab-token" in headers)) assert.isFalse(GitWebhook.isSigned(headers, `${body} `, SECRET))
    }
    const wrong = [
      {},
      { "x-github-event": "push" },
      { "x-github-event": "push", "x-hub-signature-256": "sha256=" },
      { "x-github-event": "push", "x-hub-signature-256": hmac(body) },
      { "x-github-event": "push", "x-gitlab-token": SECRET },
      { "x-gitlab-event": "Push Hook" },
      // A signature of GitHub does not authorize a request that claims to come from GitLab.
      { "x-gitlab-event": "Push Hook", "x-hub-signature-256": `sha256=${hmac(body)}` }
    ]
    for (const headers of wrong) assert.isFalse(GitWebhook.isSigned(headers, body, SECRET), JSON.stringify(headers))
  })

  it("report pushes and releases of each host, and why any other event starts nothing", () => {
    const github = (event: string, body: unknown) => GitWebhook.read({ "x-github-event": event }, body)
    assert.deepStrictEqual(github("push", push), {
      _tag: "Push",
      host: "GitHub",
      branch: "main",
      isDefault: true,
      commit: "c0ffee"
    })
    assert.deepInclude(github("push", { ...push, ref: "refs/tags/v1" }), { _tag: "Other" })
    assert.deepInclude(github("push", { ...push, after: "0".repeat(40), deleted: true }), {
      reason: "The branch main was deleted."
    })
    assert.deepInclude(github("ping", {}), { _tag: "Other" })
    assert.deepStrictEqual(github("release", { action: "published", release: { tag_name: "v1", draft: false } }), {
      _tag: "Release",
      host: "GitHub",
      tag: "v1"
    })
    for (const action of ["created", "edited", "deleted"]) {
      assert.deepInclude(github("release", { action, release: { tag_name: "v1" } }), { _tag: "Other" })
    }
    assert.deepStrictEqual(
      GitWebhook.read({ "x-gitea-event": "release", "x-github-event": "release" }, {
        action: "published",
        release: { tag_name: "v2" }
      }),
      { _tag: "Release", host: "Gitea", tag: "v2" }
    )
    const gitlab = (event: string, body: unknown) => GitWebhook.read({ "x-gitlab-event": event }, body)
    assert.deepStrictEqual(gitlab("Release Hook", { action: "create", tag: "v3" }), {
      _tag: "Release",
      host: "GitLab",
      tag: "v3"
    })
    assert.deepInclude(gitlab("Release Hook", { action: "update", tag: "v3" }), { _tag: "Other" })
    assert.deepStrictEqual(gitlab("Push Hook", { ref: "refs/heads/x", after: "c0ffee", project: { default_branch: "main" } }), {
      _tag: "Push",
      host: "GitLab",
      branch: "x",
      isDefault: false,
      commit: "c0ffee"
    })
    assert.isUndefined(GitWebhook.read({}, push))
  })

  it("build pushes until a build has succeeded and afterwards only with onPush, and releases always", () => {
    const pushed: GitWebhook.GitEvent = { _tag: "Push", host: "GitHub", branch: "main", isDefault: true, commit: "c0ffee" }
    const released: GitWebhook.GitEvent = { _tag: "Release", host: "GitHub", tag: "v1" }
    const ref = (event: GitWebhook.GitEvent, overrides: object, hasSucceeded: boolean) =>
      GitWebhook.decide(event, { ...settings, ...overrides }, hasSucceeded).ref
    assert.strictEqual(ref(pushed, {}, false), "c0ffee")
    assert.isUndefined(ref(pushed, {}, true))
    assert.include(GitWebhook.decide(pushed, settings, true).reason, "onPush is not set")
    assert.strictEqual(ref(pushed, { onPush: true }, true), "c0ffee")
    assert.strictEqual(ref(released, {}, true), "v1")
    assert.strictEqual(ref(released, {}, false), "v1")
    assert.isUndefined(ref({ ...pushed, branch: "x" }, { onPush: true }, false))
    assert.strictEqual(ref({ ...pushed, branch: "x", isDefault: true }, { ref: undefined }, false), "c0ffee")
    assert.isUndefined(ref({ ...pushed, isDefault: false }, { ref: undefined }, false))
  })
})
